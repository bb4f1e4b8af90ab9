"""A party by itself: what it sends is clipped and noised, what it is told it does, and its state brings it back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.arrays import Arrays, module_arrays, under_prefix
from fedsuite.fedrl.learning import testing
from fedsuite.fedrl.learning.party import Party
from fedsuite.fedrl.learning.rewarded_party import RewardedParty
from fedsuite.fedrl.open_world import open_world
from fedsuite.storage.progress import silent
from tests.fedrl_runs import SYSTEM, config_of, settings_from


def parties(tmp_path: Path, **changes: Any) -> tuple[RewardedParty, list[Party]]:
    """Alpha and its partners."""
    settings = settings_from(config_of(tmp_path, tmp_path, **changes))
    SYSTEM.prepare(settings, silent)
    world = open_world(settings)
    alpha = RewardedParty(settings, world, settings.federation.roles[0], 0, "cpu")  # type: ignore[arg-type]
    partners = [
        Party(settings, world, role, p, "cpu")  # type: ignore[arg-type]
        for p, role in enumerate(settings.federation.roles)
        if p > 0
    ]
    return alpha, partners


def exchange(alpha: RewardedParty, beta: Party, number: int) -> dict[str, Arrays]:
    """One exchange of two parties, hand to hand; what was said."""
    mlp = beta.state()
    proposal = beta.propose(number)
    actions, episodes, ids = alpha.act(number, [proposal], under_prefix(mlp, "mlp."))
    q, q_next = beta.answer(number, actions, episodes, ids)
    said: dict[str, Arrays] = {
        "alpha": {"actions": actions, "episodes": episodes, "ids": ids},
        "beta": {"proposal": proposal, "q": q, "q-next": q_next},
    }
    if len(ids):
        targets, sent = alpha.learn_first(number, ids, [q], [q_next])
        said["alpha"] |= {"targets": targets, "q": sent}
        said["beta"] |= beta.learn(number, ids, targets, [sent], alpha.shared_mlp())
    return said


def same(a: dict[str, Arrays], b: dict[str, Arrays]) -> bool:
    return all(np.array_equal(a[p][k], b[p][k]) for p in a for k in a[p])


@pytest.mark.slow
def test_a_restored_party_says_and_learns_what_the_original_does(tmp_path: Path) -> None:
    changes = {"parallel_episodes": 4, "batch_size": 8}
    alpha, [beta] = parties(tmp_path, **changes)
    for number in range(30):  # more records than are held
        exchange(alpha, beta, number)
    assert beta.memory.state()["count"] == 120 > beta.config.learning.memory
    alpha.keep_as_best()
    beta.keep_as_best()
    alpha_2, [beta_2] = parties(tmp_path, **changes)
    alpha_2.restore(alpha.state())
    beta_2.restore(beta.state())
    for number in range(30, 40):
        assert same(exchange(alpha, beta, number), exchange(alpha_2, beta_2, number))
    for one, two in ((alpha, alpha_2), (beta, beta_2)):
        first, second = one.state(), two.state()
        assert list(first) == list(second)
        assert all(np.array_equal(first[k], second[k]) for k in first)


def test_a_state_is_a_copy(tmp_path: Path) -> None:
    alpha, [beta] = parties(tmp_path, parallel_episodes=4)
    states = {}
    for number in range(12):
        exchange(alpha, beta, number)
        if number == 8:
            states = {p.role: {k: v.copy() for k, v in p.state().items()} for p in (alpha, beta)}
            held = {p.role: p.state() for p in (alpha, beta)}
    for role, state in states.items():
        assert all(np.array_equal(state[k], held[role][k]) for k in state), role


def test_what_leaves_is_clipped_before_it_is_noised(tmp_path: Path) -> None:
    alpha, [beta] = parties(tmp_path, parallel_episodes=12, q_clip=0.05, noise_sigma=0.0)
    said = exchange(alpha, beta, 0)
    for party, name in (("alpha", "q"), ("beta", "q"), ("beta", "q-next"), ("beta", "proposal")):
        norms = np.linalg.norm(said[party][name], axis=-1)
        assert norms.max() <= 0.05 * (1 + 1e-5) and norms.min() > 0.01, name
    noisy_alpha, [noisy_beta] = parties(tmp_path, parallel_episodes=12, q_clip=0.05)
    noisy = exchange(noisy_alpha, noisy_beta, 0)
    noise = noisy["beta"]["q"] - said["beta"]["q"]
    assert 0.9 < noise.std() < 1.1


def test_minibatches_spared_by_the_coin_carry_no_noise(tmp_path: Path) -> None:
    _, [beta] = parties(tmp_path, parallel_episodes=16, follow="published-code")
    coins = beta.schedule.noisy(0)
    noise = beta.noise(0, "before")
    assert 0 < coins.sum() < len(coins)
    assert [bool(n.any()) for n in noise] == coins.tolist()
    assert noise.dtype == np.float32
    after = beta.noise(0, "after")
    assert not np.array_equal(after, noise) and [bool(n.any()) for n in after] == coins.tolist()


def test_parties_draw_noise_of_their_own(tmp_path: Path) -> None:
    alpha, partners = parties(tmp_path, parallel_episodes=16, parties=3)
    blocks = [p.noise(2, "before") for p in (alpha, *partners)]
    for i, block in enumerate(blocks):
        for other in blocks[:i]:
            assert abs(np.corrcoef(block.ravel(), other.ravel())[0, 1]) < 0.1


def test_a_party_on_its_own_adds_no_noise(tmp_path: Path) -> None:
    alpha, _ = parties(tmp_path, method="dqn-alpha", noise_sigma=5.0, parallel_episodes=16)
    assert alpha.mlp is None and not alpha.noise(3, "before").any()
    assert np.array_equal(alpha.propose(0), alpha.propose(1))


def test_behaviour_noise_can_be_left_out(tmp_path: Path) -> None:
    _, [quiet] = parties(tmp_path, behaviour_noise=False)
    _, [loud] = parties(tmp_path)
    assert np.array_equal(quiet.propose(0), quiet.propose(1))
    assert not np.array_equal(loud.propose(0), loud.propose(1))


@pytest.mark.parametrize("mode", ["joint", "alternating"])
def test_a_partner_changes_the_shared_mlp_only_where_parties_take_turns(
    tmp_path: Path, mode: str
) -> None:
    alpha, [beta] = parties(tmp_path, parallel_episodes=12, mlp_updates=mode)
    exchange(alpha, beta, 0)
    assert beta.mlp is not None and alpha.mlp is not None
    ids = np.arange(8)[None].repeat(12, 0)
    before = module_arrays(beta.network)
    mlp = alpha.shared_mlp()
    q = np.zeros((12, 8, 16), np.float32)
    returned = beta.learn(1, ids, np.ones((12, 8), np.float32), [q], mlp)
    changed = [k for k in mlp if not np.array_equal(returned[k], mlp[k])]
    assert bool(changed) == (mode == "alternating")
    assert any(not np.array_equal(v, before[k]) for k, v in module_arrays(beta.network).items())


def test_ids_that_a_party_does_not_hold_are_told(tmp_path: Path) -> None:
    alpha, [beta] = parties(tmp_path, parallel_episodes=12)
    actions, episodes, ids = alpha.act(0, [beta.propose(0)], alpha.shared_mlp())
    with pytest.raises(
        ValueError, match=r"record 12 is not held: this memory holds ids 0 to 11; do all"
    ):
        beta.answer(0, actions, episodes, np.full_like(ids, 12))


def test_a_tested_party_keeps_its_training_as_it_was(tmp_path: Path) -> None:
    alpha, [beta] = parties(tmp_path, parallel_episodes=4)
    for number in range(6):
        exchange(alpha, beta, number)
    before = alpha.state(), beta.state()
    plan = testing.TestPlan("valid", True, False, 4)
    alpha.begin_test(plan)
    beta.begin_test(plan)
    actions = alpha.choose([beta.look()], alpha.shared_mlp())
    assert beta.test is not None
    beta.test.advance(actions)
    again = alpha.choose([beta.look()], alpha.shared_mlp())
    assert actions.shape == again.shape == (5,)
    for state, party in zip(before, (alpha, beta), strict=True):
        now = party.state()
        assert all(np.array_equal(now[k], v) for k, v in state.items())


def test_looking_without_a_test_is_an_error(tmp_path: Path) -> None:
    _, [beta] = parties(tmp_path)
    with pytest.raises(ValueError, match="beta: asked to look, but no test has begun"):
        beta.look()


def test_the_best_weights_are_tested_if_asked(tmp_path: Path) -> None:
    alpha, [beta] = parties(tmp_path, parallel_episodes=4)
    beta.keep_as_best()
    for number in range(6):
        exchange(alpha, beta, number)
    looks = []
    for best in (True, False):
        beta.begin_test(testing.TestPlan("valid", False, best, 1))
        looks.append(beta.look())
    _, [other] = parties(tmp_path, parallel_episodes=4)
    other.begin_test(testing.TestPlan("valid", False, False, 1))
    assert np.array_equal(looks[0], other.look()) and not np.array_equal(looks[0], looks[1])


@pytest.mark.parametrize(("asked", "width"), [(0, 32), (40, 40)])
def test_the_shared_mlp_is_as_wide_as_asked(tmp_path: Path, asked: int, width: int) -> None:
    alpha, [beta] = parties(tmp_path, mlp_hidden=asked)
    for party in (alpha, beta):
        assert party.mlp is not None
        assert [tuple(p.shape) for p in party.mlp.parameters()] == [
            (width, 32), (width,), (16, width), (16,)
        ]  # fmt: skip
