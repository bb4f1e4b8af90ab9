"""The rewarded party: targets by hand, who may train alone, imitation against a slow twin, and tests against slow play."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedsuite.arrays import module_arrays, under_prefix
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning import single_party, testing
from fedsuite.fedrl.learning.rewarded_party import RewardedParty
from fedsuite.fedrl.open_world import open_world
from fedsuite.history import read_rows
from fedsuite.randomness import rng_for
from tests.fedrl.learning.test_party import parties
from tests.fedrl.twins import Stage
from tests.fedrl_runs import assert_same, config_of, kept_by, play, settings_from


def test_targets_by_hand(tmp_path: Path) -> None:
    """Y = r where the record is terminal, else r + gamma max MLP'([Q'_alpha | Q'_beta])."""
    alpha, [beta] = parties(
        tmp_path, parallel_episodes=12, noise_sigma=0.0, timeouts="terminal", step_limit=1
    )
    actions, episodes, ids = alpha.act(0, [beta.propose(0)], alpha.shared_mlp())
    assert (episodes >= 0).all()  # every episode lasts one step
    q, q_next = beta.answer(0, actions, episodes, ids)
    targets, _ = alpha.learn_first(0, ids, [q], [q_next])
    rewards, terminal = alpha.memory.gather(ids.ravel(), "rewards", "terminals")
    assert terminal.all()
    np.testing.assert_array_equal(targets.ravel(), rewards)

    alpha, [beta] = parties(tmp_path, parallel_episodes=12, noise_sigma=0.0)
    actions, episodes, ids = alpha.act(0, [beta.propose(0)], alpha.shared_mlp())
    q, q_next = beta.answer(0, actions, episodes, ids)
    assert alpha.target_mlp is not None and alpha.mlp is not None
    with torch.no_grad():
        for p in alpha.target_mlp.parameters():
            p.zero_()
        dict(alpha.target_mlp.named_parameters())["output.bias"][3] = 10.0
    targets, _ = alpha.learn_first(0, ids, [q], [q_next])
    rewards, terminal = alpha.memory.gather(ids.ravel(), "rewards", "terminals")
    assert 0 < terminal.sum() < terminal.size
    np.testing.assert_allclose(targets.ravel(), rewards + np.where(terminal, 0, 9.0), atol=1e-5)


def test_with_partners_nobody_trains_or_tests_alone(tmp_path: Path) -> None:
    alpha, _ = parties(tmp_path)
    before = module_arrays(alpha.network)
    plan = testing.TestPlan("test", False, False, 1)
    for attempt in (
        lambda: single_party.train_alone(alpha, 0, 5, 0),
        lambda: single_party.imitate(alpha, 1, 5),
        lambda: single_party.play_alone(alpha, plan),
    ):
        with pytest.raises(
            ValueError, match="alpha: asked to train alone, but this run has 2 parties"
        ):
            attempt()
    assert_same(module_arrays(alpha.network), before, 0)


def test_scores_of_a_test_that_goes_on_are_refused(tmp_path: Path) -> None:
    alpha, _ = parties(tmp_path)
    alpha.begin_test(testing.TestPlan("test", False, False, 1))
    with pytest.raises(ValueError, match="alpha: 5 episodes of the test go on"):
        alpha.scores()


def test_a_round_of_episodes_ends_with_its_last_episode(tmp_path: Path) -> None:
    alpha, _ = parties(tmp_path, method="dqn-alpha", parallel_episodes=2)
    done = single_party.train_alone(alpha, 0, 100, 5)
    assert done < 100 and alpha.tally["episodes"] >= 5
    again, _ = parties(tmp_path, method="dqn-alpha", parallel_episodes=2)
    single_party.train_alone(again, 0, done - 1, 0)
    assert again.tally["episodes"] < 5


@pytest.mark.parametrize("method", ["fcn-alpha", "fcn-full"])
def test_imitation_is_plain_classification(tmp_path: Path, method: str) -> None:
    """-log softmax(Q)[a] of the expert's actions, averaged over the minibatch."""
    alpha, _ = parties(tmp_path, method=method)
    stage = Stage(alpha.config)
    network = stage.new_network(alpha.role)
    records, actions = stage.world.demonstrations(alpha.role)
    adam = torch.optim.Adam(network.parameters(), lr=alpha.config.learning.learning_rate)
    losses = []
    for number in (1, 2):
        single_party.imitate(alpha, number, 10)
        rng = rng_for(alpha.config.seed, "demonstrations", number, 0)
        for _ in range(10):
            rows = rng.integers(len(records), size=8)
            q = network(*stage.views[0].inputs(records[rows]))
            chosen = q[torch.arange(8), torch.from_numpy(actions[rows].astype(np.int64))]
            loss = (q.exp().sum(1).log() - chosen).mean()
            losses.append(loss.item())
            adam.zero_grad()
            loss.backward()
            adam.step()
    assert_same(module_arrays(alpha.network), module_arrays(network), 1e-5)
    assert alpha.report()["train.loss"] == pytest.approx(np.mean(losses), rel=1e-5)


# --- tests against slow play -----------------------------------------------------------------------


def slow_scores(
    config: FedRLConfig, networks: list[nn.Module], mlp: nn.Module | None
) -> tuple[float, float]:
    """Success rate and mean return of greedy play, one episode after another."""
    world = open_world(config)
    met, returns = 0, 0.0
    for number in range(config.evaluation.episodes):
        row, env = np.array([number % world.num_episodes("test")]), np.zeros(1, np.int64)
        views = [world.view(r, "test", 1) for r in config.federation.roles]  # type: ignore[arg-type]
        reward_function = world.reward_function("test", 1)
        reward_function.begin(env, row)
        for view in views:
            view.begin(env, row)
        for _ in range(world.longest):
            with torch.no_grad():
                q = [n(*v.inputs(v.records())) for n, v in zip(networks, views, strict=True)]
                joint = q[0] if mlp is None else mlp(torch.cat(q, 1))
            action = joint.argmax(1).numpy()
            for view in views:
                view.move(action)
            said = reward_function.step(action)
            returns += float(said.rewards[0])
            if said.ended[0]:
                met += bool(said.terminal[0])  # time-outs are bootstrapped
                break
    return met / config.evaluation.episodes, returns / config.evaluation.episodes


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"parties": 3}, {"method": "dqn-alpha"}, {"method": "dqn-full"}],
    ids=["two", "three", "dqn-alpha", "dqn-full"],
)
def test_scores_are_those_of_slow_play(tmp_path: Path, changes: dict[str, Any]) -> None:
    changes = {"num_rounds": 1, "parallel_episodes": 4, "evaluation_episodes": 30, **changes}
    config = config_of(tmp_path, tmp_path, **changes)
    play(config)
    settings = settings_from(config)
    stage = Stage(settings)
    networks, mlp = [], None
    for role in settings.federation.roles:
        kept = kept_by(tmp_path, role, 1)
        networks.append(stage.new_network(role))
        networks[-1].load_state_dict(
            {k: torch.from_numpy(v) for k, v in under_prefix(kept, "network.").items()}
        )
    if len(settings.federation.roles) > 1:
        mlp = stage.new_mlp()
        shared = under_prefix(kept_by(tmp_path, "alpha", 1), "mlp.")
        names = {"0.weight": "hidden.weight", "0.bias": "hidden.bias"}
        names |= {"2.weight": "output.weight", "2.bias": "output.bias"}
        mlp.load_state_dict({k: torch.from_numpy(shared[v]) for k, v in names.items()})
    rows = read_rows(tmp_path / "run" / "history.jsonl")
    found = next(row["metrics"] for row in rows if row["kind"] == "closing")
    success, returns = slow_scores(settings, networks, mlp)
    assert found["test.success-rate"] == pytest.approx(success)
    assert found["test.average-reward"] == pytest.approx(returns, rel=1e-5)
    assert 0 < success < 1


def test_the_tally_is_reported_once(tmp_path: Path) -> None:
    alpha, _ = parties(tmp_path, method="dqn-alpha", parallel_episodes=4)
    assert isinstance(alpha, RewardedParty)
    single_party.train_alone(alpha, 0, 10, 0)
    told = alpha.report()
    assert told["train.steps"] == 40 and told["train.updates"] == 32
    assert -25 < told["train.reward"] < 60 and told["train.loss"] > 0
    assert alpha.report() == {"train.steps": 0, "train.episodes": 0, "train.updates": 0}
