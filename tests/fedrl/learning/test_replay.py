"""Replay against lists and against the published code's way of drawing, one record after another."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from fedsuite.arrays import fingerprint
from fedsuite.fedrl.learning.replay import Memory
from fedsuite.randomness import rng_for


def records_of(capacity: int, width: int, dtype: type[np.generic]) -> Memory:
    record = np.zeros(width, dtype)
    return Memory(capacity, {"before": record, "after": record})


def rewards_of(capacity: int) -> Memory:
    return Memory(capacity, {"rewards": np.array(0, np.float32), "terminals": np.array(False)})


def filled(rewards: np.ndarray, capacity: int | None = None) -> Memory:
    memory = rewards_of(capacity or len(rewards))
    for part in np.array_split(
        np.asarray(rewards, np.float32), -(-len(rewards) // memory.capacity)
    ):
        memory.store(rewards=part, terminals=np.zeros(len(part), bool))
    return memory


def drawn_one_by_one(
    rng: np.random.Generator, rewards: np.ndarray, batch: int, quota: float, strict: bool
) -> list[int]:
    """A minibatch as the published code draws it."""
    most_high = int(quota * batch)
    chosen: list[int] = []
    rejected = high_taken = others_taken = 0
    while len(chosen) < batch:
        index = int(rng.integers(len(rewards)))
        reward = rewards[index]
        is_high = reward > 0 if strict else reward >= 0
        if rejected < 1000:
            full = (is_high and high_taken >= most_high) or (
                reward < 0 and others_taken >= batch - most_high
            )
            if full:
                rejected += 1
                continue
        high_taken, others_taken = high_taken + is_high, others_taken + (not is_high)
        chosen.append(index)
    return chosen


def test_memory_is_a_list_of_which_the_latest_are_kept() -> None:
    rng = rng_for(0, "memory test")
    memory, everything = records_of(7, 3, np.uint8), []
    for number in (1, 3, 3, 2, 7, 4, 0, 5):
        before, after = rng.integers(256, size=(2, number, 3)).astype(np.uint8)
        ids = memory.store(before=before, after=after)
        assert ids.dtype == np.int64
        assert ids.tolist() == list(range(len(everything), len(everything) + number))
        everything += list(zip(before.tolist(), after.tolist(), strict=True))
        held = np.arange(max(0, len(everything) - 7), len(everything))
        assert len(memory) == len(held)
        asked = rng.choice(held, 9)
        got_before, got_after = memory.gather(asked, "before", "after")
        assert got_before.tolist() == [everything[i][0] for i in asked]
        assert got_after.tolist() == [everything[i][1] for i in asked]
        for missing in (held[0] - 1, len(everything)):
            with pytest.raises(
                ValueError, match=rf"record {missing} is not held.* ids {held[0]} to {held[-1]};"
            ):
                memory.gather(np.array([held[-1], missing]), "before")


def test_the_largest_number_is_of_the_records_that_are_still_held() -> None:
    assert rewards_of(4).largest("rewards") == 0.0
    memory = filled(np.array([-9.0, 1.0, 2.0]), capacity=3)
    assert memory.largest("rewards") == 9.0
    memory.store(rewards=np.array([3.0], np.float32), terminals=np.array([False]))
    assert memory.largest("rewards") == 3.0


def test_gathered_records_are_not_views_of_the_memory() -> None:
    memory = rewards_of(2)
    memory.store(rewards=np.array([1, 2], np.float32), terminals=np.array([False, True]))
    (rewards,) = memory.gather(np.array([0, 1]), "rewards")
    memory.store(rewards=np.array([9], np.float32), terminals=np.array([False]))
    assert rewards.tolist() == [1, 2]


def test_what_does_not_fit_is_refused() -> None:
    memory = records_of(4, 2, np.uint8)
    two, three = np.zeros((2, 2), np.uint8), np.zeros((3, 2), np.uint8)
    with pytest.raises(ValueError, match="this memory holds no records yet"):
        memory.gather(np.array([0]), "before")
    with pytest.raises(ValueError, match=r"before: expected uint8 \(2, 2\), got int64 \(2, 2\)"):
        memory.store(before=two.astype(np.int64), after=two)
    with pytest.raises(ValueError, match=r"after: expected uint8 \(2, 2\), got uint8 \(3, 2\)"):
        memory.store(before=two, after=three)
    assert len(memory) == 0
    with pytest.raises(ValueError, match="no minibatch"):
        rewards_of(4).sample(rng_for(0, "x"), 1, 32)


@pytest.mark.parametrize("stored", [0, 3, 5, 12])
def test_a_restored_memory_goes_on_like_the_original(stored: int) -> None:
    rng = rng_for(0, "state test")
    columns = {
        "before": rng.integers(100, size=(stored + 4, 3)).astype(np.int16),
        "rewards": rng.normal(size=stored + 4).astype(np.float32),
    }
    row = {name: column[0] for name, column in columns.items()}
    memory, again = Memory(5, row), Memory(5, row)
    for i in range(stored):
        memory.store(**{name: column[i : i + 1] for name, column in columns.items()})
    state = memory.state()
    assert len(state["before"]) == min(stored, 5)
    before = fingerprint(state)
    last = {name: column[stored:] for name, column in columns.items()}
    memory.store(**last)
    assert before == fingerprint(state)  # they are copies
    again.restore(state)
    again.store(**last)
    ids = np.arange(max(0, stored - 1), stored + 4)  # all five that are held
    for one, other, column in zip(
        memory.gather(ids, *columns), again.gather(ids, *columns), columns.values(), strict=True
    ):
        assert np.array_equal(one, other) and np.array_equal(one, column[ids])
    samples = [m.sample(rng_for(0, "draw"), 3, 8) for m in (memory, again)]
    assert np.array_equal(*samples)


def test_a_state_of_another_capacity_or_kind_is_refused() -> None:
    memory = records_of(5, 1, np.int16)
    for i in range(9):
        memory.store(before=np.full((1, 1), i, np.int16), after=np.full((1, 1), i, np.int16))
    for capacity in (4, 7):
        with pytest.raises(
            ValueError, match=rf"before: expected int16 \({capacity}, 1\).*\(5, 1\)"
        ):
            records_of(capacity, 1, np.int16).restore(memory.state())
    with pytest.raises(ValueError, match=r"before: expected uint8"):
        records_of(5, 1, np.uint8).restore(memory.state())


def test_gathered_columns_keep_type_and_shape() -> None:
    memory = rewards_of(4)
    ids = memory.store(rewards=np.array([0.5, -2], np.float32), terminals=np.array([False, True]))
    rewards, terminals = memory.gather(np.stack([ids, ids[::-1]]), "rewards", "terminals")
    assert (rewards.dtype, terminals.dtype) == (np.float32, np.bool_)
    assert rewards.tolist() == [[0.5, -2], [-2, 0.5]]
    assert terminals.tolist() == [[False, True], [True, False]]


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "shares",  # of rewards below, equal to and above 0
    [
        (0.5, 0.0, 0.5),
        (0.3, 0.3, 0.4),
        (0.004, 0.0, 0.996),
        (0.97, 0.02, 0.01),
        (0.003, 0.4, 0.597),
    ],
)
def test_draws_are_distributed_like_the_published_ones(
    shares: tuple[float, float, float], strict: bool
) -> None:
    """Number of low, zero and high rewards in a minibatch: both samplers' counts come from one distribution."""
    rewards = np.repeat([-1.0, 0.0, 1.0], np.round(1000 * np.array(shares)).astype(int))
    memory = filled(rewards)
    ids = memory.sample(rng_for(0, "fast"), 600, 32, 0.9, strict)
    rng = rng_for(0, "slow")
    slow = np.array([drawn_one_by_one(rng, rewards, 32, 0.9, strict) for _ in range(300)])
    kinds = [
        Counter(map(tuple, np.sort(rewards[chosen], axis=1).tolist())) for chosen in (ids, slow)
    ]
    common = [k for k, n in (kinds[0] + kinds[1]).items() if n >= 15]
    table = [[k[c] for c in common] + [k.total() - sum(k[c] for c in common)] for k in kinds]
    table = np.array(table)[:, np.sum(table, axis=0) > 0]
    if table.shape[1] == 1:  # always the same mixture
        assert set(kinds[0]) == set(kinds[1])
    else:
        assert stats.chi2_contingency(table).pvalue > 1e-3


def test_with_both_kinds_at_hand_a_minibatch_is_28_and_4() -> None:
    rewards = np.where(rng_for(0, "mixed").random(5000) < 0.6, -1.0, 0.0)
    chosen = filled(rewards).sample(rng_for(0, "draw"), 50, 32)
    assert ((rewards[chosen] < 0).sum(1) == 4).all()
    # As drawn: once there are four low ones, no more of them come.
    assert (np.sort(chosen, axis=1) != chosen).any()


def test_zeros_are_high_unless_strict() -> None:
    rewards = np.repeat([-1.0, 0.0], 500)
    memory = filled(rewards)
    assert ((rewards[memory.sample(rng_for(0, "a"), 20, 32)] < 0).sum(1) == 4).all()
    strict = (rewards[memory.sample(rng_for(0, "a"), 20, 32, strict=True)] < 0).sum(1)
    assert (strict <= 4).all() and (strict < 4).any()  # zeros use up the low ones' places


@pytest.mark.parametrize("reward", [-1.0, 1.0])
def test_one_kind_alone_fills_the_minibatch(reward: float) -> None:
    memory = filled(np.full(50, reward))
    for strict in (False, True):
        chosen = memory.sample(rng_for(0, "draw"), 40, 32, strict=strict)
        assert chosen.shape == (40, 32)
        assert set(chosen.ravel()) == set(range(50))


def test_draws_are_uniform_within_each_kind_and_over_the_ids_held() -> None:
    rewards = np.tile([-1.0, 2.0, -3.0, 4.0, 5.0], 8)
    memory = filled(rewards, capacity=24)  # holds ids 16 to 39, out of order in its slots
    for quota, minibatches in ((0.9, 1500), (0.0, 500)):
        chosen = memory.sample(rng_for(0, "draw"), minibatches, 32, quota)
        assert chosen.dtype == np.int64 and chosen.min() == 16 and chosen.max() == 39
        counts = np.bincount(chosen.ravel(), minlength=40)[16:]
        for low in (True, False):
            kind = (rewards[16:] < 0) == low
            assert stats.chisquare(counts[kind]).pvalue > 1e-3
            expected = 4 if low else 28
            if quota:
                assert counts[kind].sum() == expected * minibatches
        assert (memory.gather(chosen, "rewards")[0] == rewards[chosen]).all()


def test_the_quota_is_rounded_down() -> None:
    rewards = np.repeat([-1.0, 1.0], 100)
    for quota, batch, low in ((0.9, 32, 4), (0.5, 7, 4), (0.9, 5, 1), (0.99, 32, 1)):
        chosen = filled(rewards).sample(rng_for(0, "draw"), 10, batch, quota)
        assert ((rewards[chosen] < 0).sum(1) == low).all()
