"""The protocol against slow twins: whole runs through the relay and real clients, messages and all.

Equal to a float32 tolerance: one network trained by back-propagation ("joint"), the paper's algorithms 1 and 2
("alternating"), and textbook DQN for the parties that learn alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clients.party_parts import PartyParts
from fedsuite.arrays import Arrays, module_arrays, under_prefix
from fedsuite.errors import RunFailed
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.party import Party
from fedsuite.history import read_rows
from tests.fedrl.twins import Side, Stage, dqn, mlp_arrays, monolith, two_algorithms
from tests.fedrl_runs import assert_same, config_of, kept_by, play, recorded, settings_from

# A tenth of a step of Adam, which makes visible steps of gradients that are no larger than rounding (a unit at its kink).
TOLERANCE = 1e-4
# Uniform replay: drawing by a quota of rewards has twins of its own where replay is tested.
UNIFORM: dict[str, Any] = {"reward_quota": 0.0, "num_rounds": 1, "target_every": 5}


def ran(
    cache: Path, results: Path, **changes: Any
) -> tuple[FedRLConfig, list[list[int]], list[Arrays]]:
    """A run of one round: its settings, the joint actions of every exchange, what each party kept."""
    config = config_of(cache, results, **{**UNIFORM, **changes})
    letters = recorded(config)
    settings = settings_from(config)
    actions = [letter.up["actions"].tolist() for letter in letters if letter.phase == "act"]
    return settings, actions, [kept_by(results, role, 1) for role in settings.federation.roles]


def learnt(before: Arrays, after: Arrays) -> float:
    """The largest change of any weight."""
    return max(float(np.abs(after[k] - before[k]).max()) for k in before)


NOISES: dict[str, dict[str, Any]] = {
    "none": {"noise_sigma": 0.0},
    "always": {"noise_sigma": 1.0},
    "half": {"noise_sigma": 1.0, "noise_probability": 0.5},
    "frozen-targets": {"noise_sigma": 1.0, "target_refresh": "published", "mlp_start": "published"},
    "published-start": {"noise_sigma": 1.0, "mlp_start": "published"},
    "wide-sum": {"noise_sigma": 1.0, "mlp_hidden": 40},
    "timeouts": {"noise_sigma": 1.0, "timeouts": "terminal", "steps_per_update": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("noise", NOISES)
def test_joint_updates_equal_one_network_trained_by_back_propagation(
    cache: Path, tmp_path: Path, noise: str, parties: int
) -> None:
    settings, actions, kept = ran(
        cache, tmp_path, mlp_updates="joint", parties=parties, **NOISES[noise]
    )
    stage, network, target = monolith(settings, settings.learning.round_length)
    assert actions == stage.actions
    for p, own in enumerate(kept):
        assert_same(under_prefix(own, "network."), module_arrays(network.locals[p]), TOLERANCE)
        assert_same(under_prefix(own, "target."), module_arrays(target.locals[p]), TOLERANCE)
        fresh = module_arrays(Stage(settings).new_network(settings.federation.roles[p]))
        assert learnt(fresh, under_prefix(own, "network.")) > 100 * TOLERANCE
    assert_same(under_prefix(kept[0], "mlp."), mlp_arrays(network.mlp), TOLERANCE)
    assert_same(under_prefix(kept[0], "target-mlp."), mlp_arrays(target.mlp), TOLERANCE)


def adam_arrays(side: Side) -> Arrays:
    """The moments of a side's Adam, named as a party names them."""
    mlp = {"0": "hidden", "2": "output"}
    names = [f"network.{k}" for k, _ in side.network.named_parameters()]
    names += [f"mlp.{mlp[k[0]]}{k[1:]}" for k, _ in side.mlp.named_parameters()]
    found: Arrays = {}
    for name, parameter in zip(names, side.adam.param_groups[0]["params"], strict=True):
        for kind, value in side.adam.state[parameter].items():
            found[f"{kind}.{name}"] = value.numpy()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"noise_sigma": 0.0},
        {"parallel_episodes": 4, "round_length": 128},  # more records than are held
        {"parties": 3},
        {"parties": 3, "parallel_episodes": 4, "noise_probability": 0.5, "steps_per_update": 3},
        {"parallel_episodes": 3, "target_every": 7},
        {"mlp_start": "published"},
    ],
    ids=[
        "one-env",
        "four-envs",
        "three-parties",
        "three-parties-four-envs",
        "odd-numbers",
        "published-start",
    ],
)
def test_alternating_updates_equal_the_algorithms_of_the_paper(
    cache: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    settings, actions, kept = ran(cache, tmp_path, mlp_updates="alternating", **changes)
    stage, sides, mlp_target = two_algorithms(settings, len(actions))
    assert len(actions) == -(
        -settings.learning.round_length // settings.federation.parallel_episodes
    )
    assert actions == stage.actions
    for own, side in zip(kept, sides, strict=True):
        assert_same(under_prefix(own, "network."), module_arrays(side.network), TOLERANCE)
        assert_same(under_prefix(own, "target."), module_arrays(side.target), TOLERANCE)
        moments, expected = under_prefix(own, "optimizer."), adam_arrays(side)
        assert moments.keys() == expected.keys()
        for name, array in expected.items():
            scale = float(np.abs(array).max())
            np.testing.assert_allclose(
                moments[name], array, rtol=0, atol=1e-4 * scale, err_msg=name
            )
    # Every partner keeps the MLP as it left it; alpha tests with the one that came back.
    assert_same(under_prefix(kept[0], "mlp."), mlp_arrays(sides[-1].mlp), TOLERANCE)
    for own, side in zip(kept[1:], sides[1:], strict=True):
        assert_same(under_prefix(own, "mlp."), mlp_arrays(side.mlp), TOLERANCE)
    assert_same(under_prefix(kept[0], "target-mlp."), mlp_arrays(mlp_target), TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "steps", "depth"),
    [
        ({"mlp_updates": "alternating"}, 2, 2),  # beta's step of a minibatch waits for alpha's
        ({"mlp_updates": "joint"}, 2, 1),
        ({"mlp_updates": "alternating", "parties": 3}, 3, 3),
        ({"mlp_updates": "joint", "parties": 3}, 3, 1),
        ({"method": "dqn-full"}, 1, 1),
        ({"method": "dqn-alpha", "round_unit": "episodes", "round_length": 6}, 1, 1),
        ({"method": "fcn-alpha"}, 1, 1),
    ],
    ids=str,
)
def test_the_history_counts_steps_of_all_parties_and_the_longest_chain_of_them(
    cache: Path, tmp_path: Path, changes: dict[str, Any], steps: int, depth: int
) -> None:
    """Against alpha's own count of its updates, over all rounds so far."""
    play(config_of(cache, tmp_path, parallel_episodes=4, num_rounds=3, **changes))
    rows = [r for r in read_rows(tmp_path / "run" / "history.jsonl") if r["kind"] == "round"]
    done = 0.0
    for row in rows[1:]:
        metrics = row["metrics"]
        done += metrics["train.updates"]
        assert (metrics["local-steps"], metrics["serial-depth"]) == (steps * done, depth * done)
    assert len(rows) == 4 and done > 50


LONGEST = 5  # steps of an episode
BY_EPISODES: dict[str, Any] = {
    "round_unit": "episodes",
    "round_length": 4,
    "step_limit": LONGEST,
    "num_rounds": 1,
}


def _says(ended: Callable[[int], float]) -> Callable[[PartyParts], tuple[Arrays, dict[str, float]]]:
    """An alpha that plays on, but says of exchange n what it likes."""
    act = PartyParts.act

    def lie(parts: PartyParts) -> tuple[Arrays, dict[str, float]]:
        assert parts.exchange < 100, "it goes on for ever"
        return act(parts)[0], {"ended": ended(parts.exchange)}

    return lie


@pytest.mark.slow
@pytest.mark.parametrize(("envs", "most"), [(1, 4 * LONGEST), (3, 2 * LONGEST), (4, LONGEST)])
def test_an_alpha_that_ends_no_episode_is_stopped_by_name(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, envs: int, most: int
) -> None:
    monkeypatch.setattr(PartyParts, "act", _says(lambda _: 0.0))
    told = rf"alpha: 0 of 4 episodes ended within {most} exchanges, but with 5 steps at most"
    with pytest.raises(RunFailed, match=told):
        play(config_of(cache, tmp_path, parallel_episodes=envs, **BY_EPISODES))


@pytest.mark.slow
@pytest.mark.parametrize(("envs", "most"), [(1, 4 * LONGEST), (3, 2 * LONGEST), (4, LONGEST)])
def test_the_slowest_honest_alpha_is_waited_for(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, envs: int, most: int
) -> None:
    """Every episode takes all steps that it may."""
    monkeypatch.setattr(PartyParts, "act", _says(lambda n: float(envs * ((n + 1) % LONGEST == 0))))
    play(config_of(cache, tmp_path, parallel_episodes=envs, **BY_EPISODES))
    rows = read_rows(tmp_path / "run" / "history.jsonl")
    assert [r["metrics"].get("exchanges") for r in rows if r["kind"] == "round"] == [None, most]


@pytest.mark.parametrize("unit", ["steps", "episodes"])
@pytest.mark.parametrize("claimed", [-1.0, 0.0, 1.5, 5e5, None])
def test_a_party_alone_is_not_believed_any_number_of_exchanges(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, claimed: float | None
) -> None:
    """The server sums over them."""
    said = {} if claimed is None else {"exchanges": claimed}
    monkeypatch.setattr(PartyParts, "train_alone", lambda parts: ({}, said))
    changes = {**BY_EPISODES, "round_unit": unit, "method": "dqn-full"}
    with pytest.raises(RunFailed, match=r"full: rejected: .*exchanges"):
        play(config_of(cache, tmp_path, **changes))


@pytest.mark.slow
@pytest.mark.parametrize("envs", [1, 4])
@pytest.mark.parametrize("method", ["dqn-alpha", "dqn-beta", "dqn-full"])
def test_a_party_alone_is_textbook_dqn(cache: Path, tmp_path: Path, method: str, envs: int) -> None:
    settings, _, [kept] = ran(cache, tmp_path, method=method, parallel_episodes=envs)
    stage, network, target = dqn(settings, settings.learning.round_length // envs)
    assert kept["memory.actions"].tolist() == [a for step in stage.actions for a in step]
    assert_same(under_prefix(kept, "network."), module_arrays(network), TOLERANCE)
    assert_same(under_prefix(kept, "target."), module_arrays(target), TOLERANCE)
    assert not under_prefix(kept, "mlp.")


def test_the_published_code_never_refreshes_the_second_convolution_of_dqn_full(
    cache: Path, tmp_path: Path
) -> None:
    settings, _, [kept] = ran(cache, tmp_path, method="dqn-full", target_refresh="published")
    _, network, target = dqn(settings, settings.learning.round_length, "convolutions.1.")
    fresh = Stage(settings).new_network("full")
    assert_same(under_prefix(kept, "network."), module_arrays(network), TOLERANCE)
    assert_same(under_prefix(kept, "target."), module_arrays(target), TOLERANCE)
    frozen = under_prefix(kept, "target.")
    second = {k: v for k, v in module_arrays(fresh).items() if k.startswith("convolutions.1.")}
    assert len(second) == 2
    for name, array in module_arrays(fresh).items():
        assert np.array_equal(frozen[name], array) == (name in second), name


@pytest.mark.slow
def test_the_published_code_freezes_a_federations_targets_at_another_draw(
    cache: Path, tmp_path: Path
) -> None:
    settings, _, kept = ran(cache, tmp_path, follow="published-code", parallel_episodes=2)
    stage = Stage(settings)
    for role, own in zip(settings.federation.roles, kept, strict=True):
        target, online = (
            under_prefix(own, "target."),
            module_arrays(stage.new_network(role, "frozen-target")),
        )
        assert_same(target, online, 0)
        assert learnt(module_arrays(stage.new_network(role)), target) > 0.1
    assert_same(under_prefix(kept[0], "target-mlp."), mlp_arrays(stage.new_mlp("frozen-mlp")), 0)


def test_the_twins_agree_where_there_is_nothing_to_disagree_about(cache: Path) -> None:
    """Without learning all three see, store and draw the same: the twins share nothing but the stage."""
    quiet = {**UNIFORM, "learning_rate": 1e-30, "noise_sigma": 0.0, "epsilon_last": 1.0}
    settings = settings_from(config_of(cache, Path("unused"), **quiet))
    one, _, _ = monolith(settings, 20)
    two, _, _ = two_algorithms(settings, 20)
    assert one.actions == two.actions and len(one.told) == 20
    torch.testing.assert_close(one.now(0)[0], two.now(0)[0])


def test_a_partner_with_other_types_of_numbers_is_named_itself(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beta's proposals in float64 are refused before alpha gets them."""
    proposed = Party.propose
    monkeypatch.setattr(Party, "propose", lambda *a: proposed(*a).astype(np.float64))
    with pytest.raises(
        RunFailed, match="beta: rejected: array proposal has type float64, expected float32"
    ):
        recorded(config_of(cache, tmp_path, **UNIFORM))
