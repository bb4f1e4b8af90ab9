"""Controls: what the agent can do without one of its inputs, or with instructions that belong to other paths.

blind-to = language   every instruction becomes the empty one (start, end)
blind-to = vision     all view features are zero; where candidates lie is still known
shuffle-instructions  training instructions are dealt at random among the paths of the same house; validation is not
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedsuite.errors import InputError
from fedsuite.randomness import rng_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, Sample
from fedsuite.vln.data.instructions import EOS, Vocabulary


def apply_ablations(house: House, config: FedVLNConfig, number: int) -> House:
    """The house as the run's ablations let the agent know it; number: the house's own, whoever holds it."""
    if config.ablations.blind_to == "language":
        house = replace(
            house, samples={s: tuple(map(without_words, v)) for s, v in house.samples.items()}
        )
    if config.ablations.blind_to == "vision":
        house = replace(house, views=np.zeros_like(house.views))
    if config.ablations.shuffle_instructions and "train" in house.samples:
        shuffled = _shuffled(house.samples["train"], config.seed, number)
        house = replace(house, samples={**house.samples, "train": shuffled})
    return house


def with_false_directions(houses: Sequence[House], words: Vocabulary) -> tuple[House, ...]:
    """The houses of a saboteur: left and right swapped in training instructions; it is scored on true ones."""
    swapped = np.arange(len(words))
    if not {"left", "right"} <= words.index.keys():
        raise InputError(
            "sabotage.attack: label-flip swaps left and right, but the vocabulary has not both; choose another"
        )
    left, right = words.index["left"], words.index["right"]
    swapped[[left, right]] = [right, left]
    true = [s.tokens for house in houses for s in house.samples.get("train", ())]
    if true and not any(np.isin(tokens, (left, right)).any() for tokens in true):
        raise InputError(
            f"sabotage.attack: label-flip swaps left and right, but no training instruction of {houses[0].graph.scan} says "
            "either; choose another, or other sabotage.clients"
        )
    return tuple(_swapped(house, swapped) for house in houses)


def _swapped(house: House, swapped: np.ndarray) -> House:
    train = tuple(replace(s, tokens=swapped[s.tokens]) for s in house.samples.get("train", ()))
    return replace(house, samples={**house.samples, "train": train} if train else house.samples)


def without_words(sample: Sample) -> Sample:
    """The sample with the empty instruction (start, end)."""
    return replace(sample, tokens=np.array([sample.tokens[0], EOS]), text="")


def _shuffled(samples: tuple[Sample, ...], seed: int, number: int) -> tuple[Sample, ...]:
    order = rng_for(seed, "shuffled instructions", 0, number).permutation(len(samples))
    return tuple(
        replace(s, tokens=samples[i].tokens, text=samples[i].text)
        for s, i in zip(samples, order, strict=True)
    )
