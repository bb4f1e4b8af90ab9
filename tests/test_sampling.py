"""Samples of clients: a plain twin, and no favourites."""

import numpy as np
import pytest

from fedsuite.randomness import rng_for, some_of


def slow_sample(items: list[str], most: int, seed: int, number: int, group: int) -> list[str]:
    """Numbers without replacement from the stream; then every item in turn, whether its number was drawn."""
    numbers = rng_for(seed, "evaluation clients", number, group).choice(
        len(items), most, replace=False
    )
    return [item for i, item in enumerate(items) if any(i == int(n) for n in numbers)]


@pytest.mark.parametrize("most", [1, 3, 6])
def test_the_sample_is_that_of_the_slow_twin(most: int) -> None:
    items = [f"house {i}" for i in range(7)]
    for number in range(4):
        for group in range(2):
            drawn = some_of(items, most, 5, number, group)
            assert drawn == slow_sample(items, most, 5, number, group) and len(drawn) == most


def test_all_are_asked_where_no_more_are_there_or_nothing_is_said() -> None:
    for most in (0, 3, 4):
        assert some_of("abc", most, 0, 1) == ["a", "b", "c"]
    assert some_of("", 2, 0, 1) == []


def test_every_client_is_drawn_equally_often_and_rounds_and_groups_differ() -> None:
    rounds, clients, most = 2000, 10, 3
    counts = np.zeros(clients)
    for number in range(rounds):
        counts[some_of(range(clients), most, 0, number)] += 1
    expected = rounds * most / clients
    spread = np.sqrt(expected * (1 - most / clients))
    assert (abs(counts - expected) < 4 * spread).all()
    drawn = {tuple(some_of(range(100), 5, 0, n, g)) for n in range(20) for g in range(2)}
    assert len(drawn) == 40
