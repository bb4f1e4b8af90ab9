"""Samples of several houses as one sequence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsuite.vln.dataset import House, Sample
from fedsuite.vln.joined_samples import JoinedSamples, join_samples
from fedsuite.vln.sampled_paths import sampled_paths


def sample(name: str) -> Sample:
    return Sample(name, "oak", (0, 1), 12, np.zeros(0, np.int64), "")


@given(st.lists(st.integers(0, 4), max_size=5), st.data())
def test_like_one_long_list(sizes: list[int], data: st.DataObject) -> None:
    parts = [[sample(f"{i}-{j}") for j in range(n)] for i, n in enumerate(sizes)]
    flat = [s for part in parts for s in part]
    joined = JoinedSamples(parts)
    assert len(joined) == len(flat) and bool(joined) == bool(flat)
    assert all(a is b for a, b in zip(joined, flat, strict=True))
    for i in range(-len(flat), len(flat)):
        assert joined[i] is flat[i]
    for i in (len(flat), -len(flat) - 1):
        with pytest.raises(IndexError):
            joined[i]
    bound = st.none() | st.integers(-8, 8)
    cut = slice(
        data.draw(bound), data.draw(bound), data.draw(st.sampled_from([None, 1, 2, -1, -3]))
    )
    assert [s.instr_id for s in joined[cut]] == [s.instr_id for s in flat[cut]]


def test_a_single_part_is_itself() -> None:
    part = [sample("a")]
    assert join_samples([part]) is part
    assert isinstance(join_samples([]), JoinedSamples) and not join_samples([])


def test_sampled_paths_stay_lazy(oak: House, elm: House) -> None:
    parts = [sampled_paths(oak, 0, 0), sampled_paths(elm, 0, 1)]
    joined = join_samples(parts)
    assert isinstance(joined, JoinedSamples)
    assert joined.parts[0] is parts[0] and joined.parts[1] is parts[1]
    assert len(joined) == len(parts[0]) + len(parts[1]) > 0
    last = joined[-1]
    own = parts[1] if len(parts[1]) else parts[0]
    assert last.instr_id == own[-1].instr_id and last.scan == own.graph.scan
