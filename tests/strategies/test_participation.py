"""Who takes part in a round."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.averaging.step import Step
from fedsuite.federation import ClientInfo
from strategies.participation import Drawn, Published, SeenAndUnseen, everybody


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
    chosen = ids(Drawn(rate, seed)(Step(round=round), clients(n)))
    assert len(chosen) == max(1, int(n * rate))
    assert chosen == sorted(set(chosen)) and set(chosen) <= set(range(n))
    assert chosen == ids(Drawn(rate, seed)(Step(round=round), clients(n)))


def test_draws_differ_by_seed_round_and_group():
    def draw(seed, round, group="seen"):
        return tuple(ids(Drawn(0.2, seed, group)(Step(round=round), clients(61))))

    assert len({draw(0, 1), draw(1, 1), draw(0, 2), draw(0, 1, "unseen")}) == 4


def test_every_client_takes_part_equally_often():
    counts = [0] * 20
    for round in range(1, 1001):
        for p in ids(Drawn(0.25, 0)(Step(round=round), clients(20))):
            counts[p] += 1
    assert sum(counts) == 5000
    assert max(abs(c - 250) for c in counts) < 5 * (1000 * 0.25 * 0.75) ** 0.5


def test_a_clients_own_number_is_kept_when_others_are_missing():
    """Partitions need not be 0..N-1: houses without training data are left out before."""
    some = [c for c in clients(10) if c.partition % 3]
    assert set(ids(Drawn(1.0, 0)(Step(round=1), some))) == {c.partition for c in some}


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
        assert ids(Published(0.2, seed)(Step(round=number), clients(61))) == want


def test_published_lists_go_on_after_2000_rounds():
    late = Published(0.2)(Step(round=2001), clients(61))
    assert len(set(ids(late))) == 12
    first = Published(0.2)(Step(round=1), clients(61))
    assert ids(first)[:3] == [36, 2, 27]


def test_everybody_is_everybody():
    assert ids(everybody(Step(round=3), clients(5))) == [0, 1, 2, 3, 4]


def mixed(kinds: str) -> list[ClientInfo]:
    """One client per letter: u lives in an unseen house, s in a seen one."""
    return [ClientInfo(p, f"{k}{p}", 5, {"unseen": int(k == "u")}) for p, k in enumerate(kinds)]


def test_seen_and_unseen_houses_draw_apart_and_train_in_partition_order():
    unseen, seen = Drawn(0.5, 3, "unseen"), Drawn(0.4, 3)
    houses = mixed("sussuusssuu")
    of_kind = {k: [c for c in houses if c.name[0] == k] for k in "su"}
    for number in range(1, 20):
        chosen = SeenAndUnseen(unseen, seen)(Step(round=number), houses)
        assert ids(chosen) == sorted(ids(chosen))
        assert [c for c in chosen if c.name[0] == "u"] == unseen(Step(round=number), of_kind["u"])
        assert [c for c in chosen if c.name[0] == "s"] == seen(Step(round=number), of_kind["s"])


@pytest.mark.parametrize("kinds", ["uuu", "sss"])
def test_a_group_without_houses_draws_nobody(kinds):
    chosen = SeenAndUnseen(everybody, everybody)(Step(round=1), mixed(kinds))
    assert ids(chosen) == [0, 1, 2]


def test_at_rate_0_nobody_of_a_group_is_drawn():
    """Seen houses may stand on the roster of a pre-exploration that does not want them."""
    chosen = SeenAndUnseen(Drawn(0.5, 3, "unseen"), Drawn(0.0, 3))(Step(round=1), mixed("ssuuuu"))
    assert len(chosen) == 2 and {c.name[0] for c in chosen} == {"u"}
