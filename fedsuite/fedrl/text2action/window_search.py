"""Where each filter of a text network responds most, found without gradients and without dense convolutions.

A row of a text is one of few *types* (a part of speech, a word, ...), so a filter of height h responds to a window with
a sum of h table entries R[type, tap], plus what the window's tags 0, 1, 2 add, which takes one of 3^h values.
Both tables fit into a cache; a window's responses are then one bag of h + 1 rows summed by `embedding_bag`.

Windows past a text's last word all see the same padded rows; one of them is enough (`num_windows`).

Letters: B records, T rows (padded ones included), N types in the batch, F filters of one height,
K = F times the sum of the heights (one column per filter and tap, ordered by height, tap, filter).
"""

from collections.abc import Iterator, Sequence
from itertools import product

import torch
import torch.nn.functional as nn

# Windows looked at in one go: their responses (times F = 32 filters, float32) stay within a core's second-level cache.
WINDOWS_AT_ONCE = 8192
STEEP = 1e30


def num_windows(length: int, height: int, max_words: int) -> int:
    """Windows of a text of `length` words that differ: all that touch a word, and one of padding if N_w has room."""
    return min(length, max_words - height) + 1


def tag_patterns(height: int) -> torch.Tensor:
    """All tags of a window, float32 [3^h, h]; pattern sum(tag_i 3^i) is in that row."""
    return torch.tensor([p[::-1] for p in product((0.0, 1.0, 2.0), repeat=height)])


def groups(lengths: Sequence[int], at_once: int = WINDOWS_AT_ONCE) -> Iterator[tuple[int, int]]:
    """Consecutive ranges [first, last) of ascending `lengths`, each of at most `at_once` windows (or one text)."""
    first = 0
    for i, length in enumerate(lengths):
        if i > first and (i + 1 - first) * (length + 1) > at_once:
            yield first, i
            first = i
    yield first, len(lengths)


def response_table(
    responses: torch.Tensor, tag_taps: torch.Tensor, patterns: torch.Tensor, columns: slice
) -> torch.Tensor:
    """Rows to be summed for one height: [N h + 3^h, F], row n h + i tap i of type n, then the tag patterns.

    responses: [N, K]; tag_taps: [K], response to tag 1; patterns: [3^h, h]; columns: those of this height.
    """
    height = patterns.shape[1]
    taps = tag_taps[columns].view(height, -1)
    entries = len(responses) * height
    table = responses.new_empty(entries + len(patterns), taps.shape[1])
    table[:entries].view(len(responses), -1).copy_(responses[:, columns])
    torch.mm(patterns, taps, out=table[entries:])
    return table


def window_responses(
    table: torch.Tensor, types: torch.Tensor, tags: torch.Tensor, height: int, windows: int
) -> torch.Tensor:
    """Responses [B, windows, F] of one height; types and tags are int32 [B, T], T >= windows + h - 1."""
    rows = types.shape[0]
    index = types.new_empty(rows, windows, height + 1)
    code = index[..., height]
    code.fill_(len(table) - 3**height)
    for tap in range(height):
        torch.add(types[:, tap : tap + windows] * height, tap, out=index[..., tap])
        code.add_(tags[:, tap : tap + windows], alpha=3**tap)
    bags = nn.embedding_bag(index.view(-1, height + 1), table, mode="sum")
    return bags.view(rows, windows, -1)


def first_best(responses: torch.Tensor) -> torch.Tensor:
    """The first window [B, F] with the largest of `responses` [B, T, F], which are overwritten.

    The difference to the best, made steep, is 0 where it is reached and far below 0 elsewhere; with a ramp added,
    the largest value tells the first window. This is several times faster than argmax over a middle axis.
    """
    windows = responses.shape[1]
    responses.sub_(responses.amax(1, keepdim=True))
    ramp = torch.arange(windows, 0, -1, dtype=responses.dtype, device=responses.device)
    last = torch.add(ramp.view(-1, 1), responses, alpha=STEEP, out=responses).amax(1)
    return (windows - last).long().clamp_(0, windows - 1)  # clamped: NaN responses have no best
