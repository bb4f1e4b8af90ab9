"""Dropout from a named random stream, fast on CPU.

Inverted dropout: entries are zeroed with probability p, the others divided by 1 - p. Here p is rounded to a multiple of
1/256 (0.3 becomes 0.3008) and the divisor follows, so that expectations stay exact: each byte of a random word then
decides one entry, which on a CPU is about ten times faster than a draw per entry. Rates above 255/256 become that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

Drop = Callable[[Tensor], Tensor]


def _levels(p: float) -> int:
    """How many of a byte's 256 values drop an entry; never all of them."""
    return min(round(256 * p), 255)


def scale(p: float) -> float:
    """What kept entries are multiplied by."""
    return 256 / (256 - _levels(p))


def keep_mask(shape: torch.Size, p: float, generator: torch.Generator) -> Tensor:
    """float32 mask of 0 (dropped, with probability _levels(p) / 256) and 1."""
    count = shape.numel()
    words = torch.empty((count + 7) // 8, dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    return kept(words.view(torch.uint8)[:count], p).view(shape)


def scaled(drawn: Tensor, p: float) -> Tensor:
    """0 where bytes drop an entry, else what it is multiplied by."""
    if drawn.is_cuda:  # no floats between bytes and the result
        return (drawn >= _levels(p)) * scale(p)
    return kept(drawn, p).mul_(scale(p))


def multiply(parts: Sequence[Tensor], mask: Tensor) -> None:
    """Each in place, by as much of the mask as it has numbers, one after another."""
    each = mask.flatten().split([x.numel() for x in parts])
    for x, own in zip(parts, each, strict=True):
        x.mul_(own.view_as(x))


def kept(drawn: Tensor, p: float) -> Tensor:
    """The mask of random bytes."""
    mask = torch.empty(drawn.shape, device=drawn.device)
    # Into floats at once: on the CPU, comparing bytes into bools takes five times as long.
    return torch.ge(drawn, _levels(p), out=mask)


@dataclass
class Dropout:
    """Of states, `dropout(x)`, and of visual features; generator: the stream, on the data's device, None in evaluation."""

    p: float = 0.0
    feature_p: float = 0.0
    generator: torch.Generator | None = None

    @property
    def drops_states(self) -> bool:
        """Whether `dropout(x)` is another than x."""
        return self.generator is not None and self.p > 0

    @property
    def drops_features(self) -> bool:
        """The same of features."""
        return self.generator is not None and self.feature_p > 0

    def __call__(self, x: Tensor) -> Tensor:
        """Dropped-out copy of x, differentiable."""
        if self.generator is None or self.p == 0:
            return x
        return x * keep_mask(x.shape, self.p, self.generator).mul_(scale(self.p))

    def several(self, rows: int, sizes: Sequence[int]) -> list[Drop]:
        """Dropouts of x [rows, size] for each of the sizes, the same as of one x after another, by a single draw."""
        if self.generator is None or self.p == 0:
            return [_unchanged] * len(sizes)
        masks = _masks([rows * size for size in sizes], self.p, self.generator)
        each = zip(masks, sizes, strict=True)
        return [partial(torch.mul, mask.view(rows, size)) for mask, size in each]

    def panorama(self, views: Tensor, candidate: Tensor, count: Tensor) -> None:
        """`features` of views [B, V, F] and of candidate [B, K, F], by a single draw. count [B]: how many of the K there
        are, for dropouts that draw for several batches."""
        if self.generator is None or self.feature_p == 0:
            return
        sizes = [views.numel(), candidate.numel()]
        masks = _masks(sizes, self.feature_p, self.generator)
        for x, mask in zip((views, candidate), masks, strict=True):
            x.mul_(mask.view_as(x))

    def features(self, x: Tensor) -> Tensor:
        """Drop visual features in place; x [.., F] must not need a gradient."""
        if self.generator is None or self.feature_p == 0:
            return x
        return x.mul_(
            keep_mask(x.shape, self.feature_p, self.generator).mul_(scale(self.feature_p))
        )


def _masks(counts: Sequence[int], p: float, generator: torch.Generator) -> list[Tensor]:
    """0 or 1 / (1 - p), so many times each; drawn as one after another."""
    words = [(count + 7) // 8 for count in counts]
    drawn = torch.empty(sum(words), dtype=torch.int64, device=generator.device)
    drawn.random_(-(2**63), None, generator=generator)
    mask = scaled(drawn.view(torch.uint8), p)
    each = mask.split([8 * n for n in words])
    return [own[:count] for own, count in zip(each, counts, strict=True)]


def _unchanged(x: Tensor) -> Tensor:
    return x


NO_DROPOUT = Dropout()
