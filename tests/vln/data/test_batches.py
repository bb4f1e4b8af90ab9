"""Mini-batches of a house's samples."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.vln.data.batches import Batches


def rng():
    return np.random.default_rng(0)


@settings(max_examples=40)
@given(n=st.integers(1, 30), size=st.integers(1, 12), fill=st.booleans(), calls=st.integers(1, 12))
def test_every_pass_holds_every_sample_once(n, size, fill, calls):
    batches = Batches(range(n), size, fill, rng())
    drawn = [batches.next() for _ in range(calls)]
    assert {len(b) for b in drawn} == {size if fill else min(size, n)}
    stream = [i for b in drawn for i in b]
    for begin in range(0, len(stream) - n + 1, n):
        assert sorted(stream[begin : begin + n]) == list(range(n))
    counts = Counter(stream)
    assert max(counts.values()) - min(counts[i] for i in range(n)) <= 1


def test_passes_are_shuffled_anew():
    batches = Batches(range(20), 20, False, rng())
    first, second = batches.next(), batches.next()
    assert first != second != sorted(second) and sorted(first) == sorted(second)


def test_batches_depend_on_the_generator_alone():
    a, b = (Batches(range(9), 4, False, rng()) for _ in range(2))
    assert [a.next() for _ in range(5)] == [b.next() for _ in range(5)]


def test_a_house_without_samples_is_refused():
    with pytest.raises(ValueError, match="no samples"):
        Batches([], 4, False, rng())
