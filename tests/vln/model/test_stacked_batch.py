"""What houses draw side by side is what each draws alone, for the rows that it would still have."""

import pytest
import torch

from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.stacked_batch import StackedBatch
from fedsuite.vln.model.stacked_dropout import StackedDropout

# Rows that still walk, of houses with 6, 4 and 1 of 6: the first loses three, the second none, the third all.
WALKING = [[1, 0, 0, 1, 0, 1], [1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]]


def dropouts():
    return [Dropout(0.3, 0.6, torch.Generator().manual_seed(house)) for house in range(3)]


def batch(later: bool):
    """With how many rows each house is left, and which of its rows these are."""
    made = StackedBatch([6, 4, 1], torch.device("cpu"))
    if later:
        walking = torch.tensor(WALKING, dtype=torch.bool).flatten()
        staying = made.staying(walking)
        assert staying is not None and len(staying) == 3 * 4
    rows = made.by_house(made.present)
    assert rows.sum(1).tolist() == made.counts == ([3, 4, 0] if later else [6, 4, 1])
    return made, [row.nonzero().squeeze(1) for row in rows]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("sizes", [(64, 16, 16), (3, 5, 8), (16,)])
def test_masks_of_several_sizes(later, sizes):
    made, present = batch(later)
    own, alone = dropouts(), dropouts()
    drops = StackedDropout(own, made).several(len(made.present), sizes)
    wanted = [one.several(len(rows), sizes) for one, rows in zip(alone, present, strict=True)]
    for number, size in enumerate(sizes):
        x = torch.randn(len(made.present), size)
        got = made.by_house(drops[number](x))
        for house, rows in enumerate(present):
            x_of_house = made.by_house(x)[house, rows]
            assert torch.equal(got[house, rows], wanted[house][number](x_of_house))
    for one, other in zip(own, alone, strict=True):
        assert torch.equal(one.generator.get_state(), other.generator.get_state())


@pytest.mark.parametrize("later", [False, True])
def test_features_as_wide_as_a_house_asks(later):
    """Candidates: 3, 2 and 1 at most in the rows that are there, more in others."""
    made, present = batch(later)
    own, alone = dropouts(), dropouts()
    widths = [3, 2, 1]
    count = torch.full((len(made.present),), 3)
    for width, row in zip(widths, made.by_house(count), strict=True):
        row.fill_(width)
    count[~made.present] = 3
    x = torch.randn(len(made.present), 3, 5)
    got = made.by_house(StackedDropout(own, made).features(x.clone(), count))
    for house, rows in enumerate(present):
        mine = made.by_house(x)[house, rows, : widths[house]]
        want = alone[house].features(mine.clone())
        assert torch.equal(got[house, rows, : widths[house]], want)
    for one, other in zip(own, alone, strict=True):
        assert torch.equal(one.generator.get_state(), other.generator.get_state())


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("width", [8, 5])
def test_panoramas(later, width):
    """Of four views and as many candidates as a house asks; whole words and others."""
    made, present = batch(later)
    own, alone = dropouts(), dropouts()
    widths = [3, 2, 1]
    count = torch.tensor(widths).repeat_interleave(len(made.present) // 3)
    count[~made.present] = 3
    views, candidate = (torch.randn(len(made.present), n, width) for n in (4, 3))
    got = views.clone(), candidate.clone()
    StackedDropout(own, made).panorama(*got, count)
    for house, rows in enumerate(present):
        want = [made.by_house(x)[house, rows].clone() for x in (views, candidate)]
        want[1] = want[1][:, : widths[house]].clone()
        alone[house].panorama(*want, count)
        assert torch.equal(made.by_house(got[0])[house, rows], want[0])
        assert torch.equal(made.by_house(got[1])[house, rows, : widths[house]], want[1])
    for one, other in zip(own, alone, strict=True):
        assert torch.equal(one.generator.get_state(), other.generator.get_state())
