"""Who takes part in a round."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.federation import ClientInfo
from strategies.participation import participants, published_participants


def clients(count: int) -> list[ClientInfo]:
    return [ClientInfo(p, f"house {p}", 10 + p) for p in range(count)]


def ids(chosen) -> list[int]:
    return [c.partition for c in chosen]


@settings(max_examples=60)
@given(
    n=st.integers(1, 80),
    rate=st.floats(0.01, 1),
    seed=st.integers(0, 50),
    round=st.integers(1, 500),
)
def test_int_r_n_different_clients_in_partition_order(n, rate, seed, round):
    chosen = ids(participants(clients(n), rate, seed, round))
    assert len(chosen) == max(1, int(n * rate))
    assert chosen == sorted(set(chosen)) and set(chosen) <= set(range(n))
    assert chosen == ids(participants(clients(n), rate, seed, round))


def test_draws_differ_by_seed_round_and_group():
    def draw(seed, round, group="seen"):
        return tuple(ids(participants(clients(61), 0.2, seed, round, group)))

    assert len({draw(0, 1), draw(1, 1), draw(0, 2), draw(0, 1, "unseen")}) == 4


def test_every_client_takes_part_equally_often():
    counts = [0] * 20
    for round in range(1, 1001):
        for p in ids(participants(clients(20), 0.25, 0, round)):
            counts[p] += 1
    assert sum(counts) == 5000
    assert max(abs(c - 250) for c in counts) < 5 * (1000 * 0.25 * 0.75) ** 0.5


def test_a_clients_own_number_is_kept_when_others_are_missing():
    """Partitions need not be 0..N-1: houses without training data are left out before."""
    some = [c for c in clients(10) if c.partition % 3]
    assert set(ids(participants(some, 1.0, 0, 1))) == {c.partition for c in some}


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [
        (
            10,
            [
                [36, 2, 27, 30, 60, 0, 13, 29, 52, 31, 17, 41],
                [51, 10, 2, 33, 31, 20, 4, 15, 47, 23, 58, 26],
            ],
        ),
        (
            19,
            [
                [43, 2, 50, 57, 33, 7, 32, 12, 25, 22, 56, 18],
                [37, 9, 38, 16, 6, 57, 26, 20, 17, 56, 49, 53],
            ],
        ),
    ],
)
def test_published_lists(seed, rounds):
    for number, want in enumerate(rounds, 1):
        assert ids(published_participants(clients(61), 0.2, number, seed)) == want


def test_published_lists_go_on_after_2000_rounds():
    late = published_participants(clients(61), 0.2, 2001)
    assert len(set(ids(late))) == 12
    first = published_participants(clients(61), 0.2, 1)
    assert ids(first)[:3] == [36, 2, 27]
