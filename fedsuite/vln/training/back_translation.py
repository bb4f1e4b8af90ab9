"""Mini-batches whose instructions a speaker makes up at every visit, in a house that environment dropout changes.

Source: EnvDrop (Tan et al. 2019), as used by FedVLN (Zhou & Wang 2022). One mask over the F visual features, kept entries
scaled up, is drawn per mini-batch; the same mask lies over every view of every episode at every step, and over what the
speaker sees, so that the instruction describes the house as the agent finds it. It takes the place of feature dropout.

The speaker stays as it is: it decodes greedily in evaluation mode and without gradients.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from fedsuite.vln.config import ObjectiveSettings
from fedsuite.vln.data.dataset import Sample, make_episodes
from fedsuite.vln.environment import Episodes, World
from fedsuite.vln.model.describing import describe
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.speaker import Speaker


def back_translate(
    speaker: Speaker,
    world: World,
    samples: Sequence[Sample],
    settings: ObjectiveSettings,
    generator: torch.Generator,
) -> Episodes:
    """Episodes of the samples' paths with generated instructions; one mask from `generator`, on the World's device."""
    drop = Dropout(feature_p=settings.environment_dropout, generator=generator)
    mask = drop.features(torch.ones(world.feature_size, device=world.device))
    factor = mask.expand(len(samples), -1)
    spoken = describe(speaker, world, samples, settings.max_generated_length, factor)
    told = [replace(s, tokens=tokens) for s, tokens in zip(samples, spoken, strict=True)]
    return replace(make_episodes(told, world), feature_factor=factor)
