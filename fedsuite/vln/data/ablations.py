"""Controls: what the agent can do without one of its inputs, or with instructions that belong to other paths.

blind-to = language   every instruction becomes the empty one (start, end)
blind-to = vision     all view features are zero; where candidates lie is still known
shuffle-instructions  training instructions are dealt at random among the paths of the same house; validation is not
"""

from dataclasses import replace

import numpy as np

from fedsuite.randomness import rng_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, Sample
from fedsuite.vln.data.instructions import EOS


def apply_ablations(house: House, config: FedVLNConfig, partition: int) -> House:
    """The house as the run's ablations let the agent know it."""
    if config.ablations.blind_to == "language":
        house = replace(
            house, samples={s: tuple(map(_without_words, v)) for s, v in house.samples.items()}
        )
    if config.ablations.blind_to == "vision":
        house = replace(house, views=np.zeros_like(house.views))
    if config.ablations.shuffle_instructions and "train" in house.samples:
        shuffled = _shuffled(house.samples["train"], config.seed, partition)
        house = replace(house, samples={**house.samples, "train": shuffled})
    return house


def _without_words(sample: Sample) -> Sample:
    return replace(sample, tokens=np.array([sample.tokens[0], EOS]), text="")


def _shuffled(samples: tuple[Sample, ...], seed: int, partition: int) -> tuple[Sample, ...]:
    order = rng_for(seed, "shuffled instructions", 0, partition).permutation(len(samples))
    return tuple(
        replace(s, tokens=samples[i].tokens, text=samples[i].text)
        for s, i in zip(samples, order, strict=True)
    )
