"""Canaries in a house: instructions with words that it does not use, put in by coins.

Each canary is a copy of a training instruction with one word of the vocabulary, which none of the house's training
instructions has, as its first; whether it is there decides whether the word's row of the embedding gets a gradient.
"""

from dataclasses import dataclass, replace

import numpy as np

from fedsuite.vln.data.dataset import House, Sample
from fedsuite.vln.data.instructions import EOS


def word_uses(houses: tuple[House, ...], vocabulary: int) -> np.ndarray:
    """How often each of the V words stands in the houses' training instructions [V]."""
    tokens = [s.tokens for h in houses for s in h.samples.get("train", ())]
    together = np.concatenate(tokens) if tokens else np.zeros(0, np.int64)
    return np.bincount(together, minlength=vocabulary)


def real_words(vocabulary: int) -> np.ndarray:
    """Which of the V words [V] are words: not padding, unknown, end or beginning."""
    words = np.ones(vocabulary, bool)
    words[[*range(EOS + 1), vocabulary - 1]] = False
    return words


@dataclass(frozen=True)
class Canaries:
    """words [m]: one per canary; inside [m]: the coins."""

    words: np.ndarray
    inside: np.ndarray


def draw(uses: np.ndarray, most: int, rng: np.random.Generator) -> Canaries:
    """At most `most` unused words, each put in with probability 1/2; uses [V]."""
    unused = np.flatnonzero(real_words(len(uses)) & (uses == 0))
    words = rng.permutation(unused)[:most]
    return Canaries(words, rng.random(len(words)) < 0.5)


def with_canaries(house: House, canaries: Canaries, max_length: int) -> House:
    """The house with a training sample more for every canary that is in."""
    own = house.samples["train"]
    words = canaries.words[canaries.inside].tolist()
    more = [_canary(own[i % len(own)], word, max_length) for i, word in enumerate(words)]
    return replace(house, samples={**house.samples, "train": (*own, *more)})


def _canary(sample: Sample, word: int, max_length: int) -> Sample:
    tokens = np.insert(sample.tokens, 1, word)[:max_length]
    tokens[-1] = EOS
    return replace(sample, tokens=tokens, instr_id=f"{sample.instr_id}-canary-{word}")
