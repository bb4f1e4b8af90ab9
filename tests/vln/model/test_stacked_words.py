"""Sentences of several houses are packed as each packs its own."""

import pytest
import torch

from fedsuite.vln.model.lstm import Packing
from fedsuite.vln.model.stacked_words import StackedPacking

SENTENCES, WIDTH = (40, 23, 1), 21


@pytest.mark.parametrize("rounded", [False, True])
def test_every_word_is_where_its_house_has_it(rounded):
    draw = torch.Generator().manual_seed(3)
    length = torch.zeros(3, 40, dtype=torch.int64)
    for row, number in zip(length, SENTENCES, strict=True):
        row[:number] = torch.randint(1, 18, (number,), generator=draw)  # many are equally long
    made = StackedPacking(length, WIDTH, torch.device("cpu"), rounded)
    alone = [Packing(row[:number], WIDTH) for row, number in zip(length, SENTENCES, strict=True)]
    assert made.counts == [len(one.place) for one in alone]
    starts = [sum(made.sizes[:position]) for position in range(len(made.sizes))]
    total, begin = sum(made.sizes), 0
    for house, one in enumerate(alone):
        assert all(own <= all_ for own, all_ in zip(one.sizes, made.sizes, strict=False))
        own = slice(begin, begin + len(one.place))
        position, row = one.words
        column = torch.tensor(starts)[position] + row + house * total
        assert torch.equal(made.words.index[own], house * 40 * WIDTH + one.place)
        assert torch.equal(made.ahead.index[own], column)
        assert torch.equal(made.mirrored.index[own], column[one.mirror])
        assert made.house[own].eq(house).all()
        first = int(made.place[begin])
        assert torch.equal(made.place[own], first + torch.arange(len(column)))
        assert first % 8 == 0 and first >= house * max(made.counts)
        last = torch.tensor(starts)[one.longest - 1] + torch.arange(len(one.longest))
        sentences = slice(sum(SENTENCES[:house]), sum(SENTENCES[: house + 1]))
        assert torch.equal(made.ends.index[sentences], (last + house * total)[one.row])
        assert torch.equal(made.rows.index[sentences], house * 40 + torch.arange(SENTENCES[house]))
        begin = own.stop
    assert made.widths.tolist() == length.amax(1).tolist()
    chosen = (made.words, made.rows, made.ahead, made.mirrored, made.ends)
    for one in chosen:
        assert torch.equal(one.mask.nonzero().squeeze(1), one.index.sort().values)
        assert torch.equal(one.place[one.index], torch.arange(len(one)))
