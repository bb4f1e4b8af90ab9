"""The only source of randomness: one independent stream per (seed, purpose, round, partition).

A stream does not depend on which process draws from it, nor on what was drawn before, so a run gives the
same bytes with any number of workers and after a restart at any round.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
_WORD = 2**32 - 1
EVALUATION = "evaluation clients"
# Metrics of a round whose evaluation asked some clients only.
ASKED, OF = "evaluation-clients", "evaluation-clients-of"


def rng_for(seed: int, purpose: str, round: int = 0, partition: int = 0) -> np.random.Generator:
    """NumPy generator of the stream; the purpose enters by its SHA-256, so similar names do not collide."""
    if seed < 0 or round < 0 or partition < 0:
        raise ValueError(
            f"seed, round and partition must be >= 0, got {seed}, {round}, {partition}"
        )
    words = [w for n in (seed, _number_of(purpose), round, partition) for w in _words(n)]
    # As uint32 they are what SeedSequence makes of the four numbers, and it need not make it.
    return np.random.default_rng(np.random.SeedSequence(np.array(words, np.uint32)))


@lru_cache(maxsize=256)
def _number_of(purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")


def _words(number: int) -> list[int]:
    """The 32-bit words of a number, lowest first; one for 0."""
    words = [number & _WORD]
    while number := number >> 32:
        words.append(number & _WORD)
    return words


def torch_generator_for(
    seed: int, purpose: str, round: int = 0, partition: int = 0, device: str = "cpu"
) -> "torch.Generator":
    """Torch generator seeded from the stream."""
    import torch  # which reports do without

    state = int(rng_for(seed, purpose, round, partition).integers(2**63))
    return torch.Generator(device=device).manual_seed(state)


def some_of(items: Sequence[T], most: int, seed: int, number: int, group: int = 0) -> list[T]:
    """`most` of the items, drawn without replacement for the evaluation after round `number`, in their order.

    All of them if there are no more, or if `most` is 0. group: draws of its own for each kind of client.
    """
    if not 0 < most < len(items):
        return list(items)
    drawn = rng_for(seed, EVALUATION, number, group).choice(len(items), most, replace=False)
    return [items[i] for i in sorted(drawn.tolist())]
