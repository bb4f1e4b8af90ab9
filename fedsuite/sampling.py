"""Samples of clients: the same for a seed, a purpose and a round, wherever they are drawn."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
EVALUATION = "evaluation clients"
ASKED, OF = (
    "evaluation-clients",
    "evaluation-clients-of",
)  # metrics of a round whose evaluation asked some only


def some_of(items: Sequence[T], most: int, seed: int, number: int, group: int = 0) -> list[T]:
    """`most` of the items, drawn without replacement for the evaluation after round `number`, in their order; all of them if
    there are no more, or if `most` is 0. group: draws of its own for each kind of client."""
    from fedsuite.randomness import rng_for  # loads torch, which reports do without

    if not 0 < most < len(items):
        return list(items)
    drawn = rng_for(seed, EVALUATION, number, group).choice(len(items), most, replace=False)
    return [items[i] for i in sorted(drawn.tolist())]
