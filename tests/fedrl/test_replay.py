"""Replay against lists and against the published code's way of drawing, one record after another."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from fedsuite.arrays import fingerprint
from fedsuite.fedrl.replay import Memory, RewardMemory
from fedsuite.randomness import rng_for


def filled(rewards: np.ndarray, capacity: int | None = None) -> RewardMemory:
    memory = RewardMemory(capacity or len(rewards))
    for part in np.array_split(
        np.asarray(rewards, np.float32), -(-len(rewards) // memory._ring.capacity)
    ):
        memory.store(np.zeros(len(part), int), part, np.zeros(len(part), bool))
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
    memory, everything = Memory(7, 3, np.uint8), []
    for number in (1, 3, 3, 2, 7, 4, 0, 5):
        before, after = rng.integers(256, size=(2, number, 3)).astype(np.uint8)
        ids = memory.store(before, after)
        assert ids.dtype == np.int64
        assert ids.tolist() == list(range(len(everything), len(everything) + number))
        everything += list(zip(before.tolist(), after.tolist(), strict=True))
        held = np.arange(max(0, len(everything) - 7), len(everything))
        assert len(memory) == len(held)
        asked = rng.choice(held, 9)
        got_before, got_after = memory.gather(asked)
        assert got_before.tolist() == [everything[i][0] for i in asked]
        assert got_after.tolist() == [everything[i][1] for i in asked]
        for missing in (held[0] - 1, len(everything)):
            with pytest.raises(
                ValueError, match=rf"record {missing} is not held.* ids {held[0]} to {held[-1]};"
            ):
                memory.gather(np.array([held[-1], missing]))


def test_gathered_records_are_not_views_of_the_memory() -> None:
    memory = Memory(2, 1, np.int32)
    memory.store(np.array([[1], [2]], np.int32), np.array([[3], [4]], np.int32))
    before, after = memory.gather(np.array([0, 1]))
    memory.store(np.array([[9]], np.int32), np.array([[9]], np.int32))
    assert before.tolist() == [[1], [2]] and after.tolist() == [[3], [4]]


def test_what_does_not_fit_is_refused() -> None:
    memory = Memory(4, 2, np.uint8)
    two = np.zeros((2, 2), np.uint8)
    with pytest.raises(ValueError, match="this memory holds no records yet"):
        memory.gather(np.array([0]))
    with pytest.raises(ValueError, match="records of int64 do not fit into a memory of uint8"):
        memory.store(two.astype(np.int64), two)
    with pytest.raises(ValueError, match=r"expected records \[2, 2\], got \(3, 2\)"):
        memory.store(two, np.zeros((3, 2), np.uint8))
    with pytest.raises(ValueError, match="5 records stored at once do not fit into a memory of 4"):
        memory.store(*np.zeros((2, 5, 2), np.uint8))
    assert len(memory) == 0
    with pytest.raises(ValueError, match="at least 1 record"):
        Memory(0, 2, np.uint8)
    with pytest.raises(ValueError, match=r"rewards: expected shape \(2,\), got \(3,\)"):
        RewardMemory(4).store(np.zeros(2), np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="no minibatch"):
        RewardMemory(4).sample(rng_for(0, "x"), 1, 32)


@pytest.mark.parametrize("stored", [0, 3, 5, 12])
def test_restored_memories_go_on_like_the_original(stored: int) -> None:
    rng = rng_for(0, "state test")
    records = rng.integers(100, size=(stored + 4, 2, 3)).astype(np.int16)
    memory, rewarded = Memory(5, 3, np.int16), RewardMemory(5)
    columns = (
        rng.integers(16, size=stored + 4),
        rng.normal(size=stored + 4),
        rng.random(stored + 4) < 0.5,
    )
    for i in range(stored):
        memory.store(records[i : i + 1, 0], records[i : i + 1, 1])
        rewarded.store(*(c[i : i + 1] for c in columns))
    state, rewarded_state = memory.state(), rewarded.state()
    assert len(state["records"]) == min(stored, 5)
    again, rewarded_again = Memory(5, 3, np.int16), RewardMemory(5)
    before = [fingerprint(s) for s in (state, rewarded_state)]
    memory.store(records[stored:, 0], records[stored:, 1])
    rewarded.store(*(c[stored:] for c in columns))
    assert before == [fingerprint(s) for s in (state, rewarded_state)]  # they are copies
    again.restore(state)
    rewarded_again.restore(rewarded_state)
    again.store(records[stored:, 0], records[stored:, 1])
    rewarded_again.store(*(c[stored:] for c in columns))
    ids = np.arange(max(0, stored - 1), stored + 4)  # all five that are held
    for one, other in zip(memory.gather(ids), again.gather(ids), strict=True):
        assert np.array_equal(one, other)
    for one, other, column in zip(
        rewarded.gather(ids), rewarded_again.gather(ids), columns, strict=True
    ):
        assert np.array_equal(one, other) and np.allclose(one, column[ids])
    samples = [r.sample(rng_for(0, "draw"), 3, 8) for r in (rewarded, rewarded_again)]
    assert np.array_equal(*samples)


def test_a_state_of_another_capacity_or_kind_is_refused() -> None:
    memory, rewarded = Memory(5, 1, np.int16), RewardMemory(5)
    for i in range(9):
        memory.store(np.full((1, 1), i, np.int16), np.full((1, 1), i, np.int16))
        rewarded.store(np.zeros(1), np.zeros(1), np.zeros(1))
    with pytest.raises(ValueError, match=r"memory of 7 records that has seen 9 holds 7.* has 5"):
        Memory(7, 1, np.int16).restore(memory.state())
    with pytest.raises(ValueError, match=r"memory of 4 records that has seen 9 holds 4.* has 5"):
        RewardMemory(4).restore(rewarded.state())
    with pytest.raises(ValueError, match=r"records: expected \(2, 1\) of int32"):
        Memory(5, 1, np.int32).restore(memory.state())


def test_gathered_columns_keep_type_and_shape() -> None:
    memory = RewardMemory(4)
    ids = memory.store(np.array([3, 1]), np.array([0.5, -2]), np.array([False, True]))
    actions, rewards, terminals = memory.gather(np.stack([ids, ids[::-1]]))
    assert (actions.dtype, rewards.dtype, terminals.dtype) == (np.int64, np.float32, np.bool_)
    assert actions.tolist() == [[3, 1], [1, 3]]
    assert rewards.tolist() == [[0.5, -2], [-2, 0.5]]
    assert terminals.tolist() == [[False, True], [True, False]]


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
        assert (memory.gather(chosen)[1] == rewards[chosen]).all()


def test_the_quota_is_rounded_down() -> None:
    rewards = np.repeat([-1.0, 1.0], 100)
    for quota, batch, low in ((0.9, 32, 4), (0.5, 7, 4), (0.9, 5, 1), (0.99, 32, 1)):
        chosen = filled(rewards).sample(rng_for(0, "draw"), 10, batch, quota)
        assert ((rewards[chosen] < 0).sum(1) == low).all()
