"""First weights of the text network, as the published code draws them, and their folding.

Convolutions: Xavier-uniform over the unfolded window; fully connected: normal(0, 0.1) cut at two standard deviations;
biases 0.1; embedding: Glorot-uniform. K_2 equal components of a row (the tag, the distance to the action) meet K_2
weights that act by their sum only: they are drawn one by one and replaced by their mean. Everything is drawn
from the given generator, nothing from torch's own.
"""

import math
from dataclasses import dataclass

import torch

BIAS = 0.1


def xavier_bound(fan_in: int, fan_out: int) -> float:
    """Glorot and Bengio's bound of uniform weights."""
    return math.sqrt(6 / (fan_in + fan_out))


@dataclass(frozen=True)
class RowLayout:
    """Components of an unfolded row, in this order: word vector | distance | part of speech | tag; 0 = not there."""

    word: int
    distance: int
    embedding: int
    tag: int

    @property
    def width(self) -> int:
        return self.word + self.distance + self.embedding + self.tag


def folded_filters(
    layout: RowLayout, height: int, filters: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Filters of one height: taps [h F, C], of word, mean distance and embedding, and mean tag taps [h F]."""
    window = height * layout.width
    bound = xavier_bound(window, window * filters)
    drawn = torch.empty(height * filters, layout.width)
    drawn.uniform_(-bound, bound, generator=generator)
    word, distance, embedding, tag = drawn.split(
        [layout.word, layout.distance, layout.embedding, layout.tag], dim=1
    )
    if layout.distance:
        distance = distance.mean(1, keepdim=True)
    return torch.cat([word, distance, embedding], 1), tag.mean(1)
