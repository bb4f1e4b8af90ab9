"""How a speaker learns in a house, and how well it speaks there.

Source: EnvDrop (Tan et al. 2019) as used by FedVLN (Zhou & Wang 2022). Loss: cross-entropy with the human instruction,
averaged over all tokens after BOS (EOS included) of a mini-batch; one Adam step each (Kingma & Ba 2015).

Scores come as sums that add up over houses; the rows of `SPEAKER_METRICS` make the metrics of them. One description per
path is compared with all human instructions of that path; cross-entropy and word accuracy are teacher-forced on each.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from fedsuite.averaging.gradients import UNCHANGED, Gradients
from fedsuite.randomness import rng_for, torch_generator_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.batches import Batches
from fedsuite.vln.data.dataset import Sample, make_episodes
from fedsuite.vln.data.instructions import Vocabulary, tokenize
from fedsuite.vln.data.path_views import drop_features, path_views
from fedsuite.vln.environment import World
from fedsuite.vln.evaluation.bleu import bleu_counts
from fedsuite.vln.model.describing import describe
from fedsuite.vln.model.dropout import NO_DROPOUT, Dropout
from fedsuite.vln.model.speaker import Speaker


@dataclass(frozen=True)
class SpeakerReport:
    """Means over the steps of a visit, and their number. gradient_norm: of both modules, before clipping."""

    steps: int
    loss: float
    gradient_norm: float


def train_speaker(
    speaker: Speaker,
    optimizer: torch.optim.Optimizer,
    world: World,
    samples: Sequence[Sample],
    config: FedVLNConfig,
    steps: int,
    round: int,
    partition: int,
    gradients: Gradients = UNCHANGED,
    stream: str = "",
) -> SpeakerReport:
    """`steps` optimizer steps; all randomness comes from (seed, round, partition, stream)."""
    own, rng = config.objective, rng_for(config.seed, "mini-batches" + stream, round, partition)
    batches = Batches(samples, own.batch_size, own.fill_batches, rng)
    drawn = torch_generator_for(
        config.seed, "dropout" + stream, round, partition, str(world.device)
    )
    dropout = Dropout(config.agent.dropout, config.agent.feature_dropout, drawn)
    parameters = dict(speaker.named_parameters())
    sums = np.zeros(2)
    for _ in range(steps):
        batch = batches.next()
        path = drop_features(path_views(world, batch), dropout)
        logits, target = speaker(path, make_episodes(batch, world).tokens, dropout)
        loss = cross_entropy(logits, target)
        loss.backward()
        gradients.shape(parameters)
        modules = (speaker.encoder, speaker.decoder)
        norms = [float(clip_grad_norm_(m.parameters(), own.gradient_clip)) for m in modules]
        optimizer.step()
        optimizer.zero_grad()
        sums += (loss.item(), math.hypot(*norms))
    return SpeakerReport(steps, *(sums / max(steps, 1)).tolist())


@dataclass(frozen=True)
class Spoken:
    """One path: tokens that the speaker wrote for it, and those of its human instructions (references)."""

    scan: str
    path_id: int | str
    written: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]


def speak_all(
    speaker: Speaker,
    world: World,
    samples: Sequence[Sample],
    vocabulary: Vocabulary,
    config: FedVLNConfig,
) -> list[Spoken]:
    """One description per path, in order of first appearance."""
    out = []
    most = config.objective.max_generated_length
    for part in _in_parts(samples, config.evaluation.batch_size):
        tokens = describe(speaker, world, [own[0] for own in part], most)
        for own, ids in zip(part, tokens, strict=True):
            written = tuple(vocabulary.words[i] for i in ids[1:-1])
            references = tuple(tuple(tokenize(s.text)) for s in own)
            out.append(Spoken(own[0].scan, own[0].path_id, written, references))
    return out


def score_speaker(
    speaker: Speaker,
    world: World,
    samples: Sequence[Sample],
    vocabulary: Vocabulary,
    config: FedVLNConfig,
    spoken: Sequence[Spoken] | None = None,
) -> dict[str, float]:
    """Sums: of `bleu_counts`, cross-entropy, right-words, target-words, paths (count). spoken: by `speak_all`, if known."""
    if spoken is None:
        spoken = speak_all(speaker, world, samples, vocabulary, config)
    counts = bleu_counts([s.written for s in spoken], [s.references for s in spoken])
    forced = _teacher_forced(speaker, world, samples, config.evaluation.batch_size)
    return {**counts, **forced, "count": float(len(spoken))}


@torch.no_grad()
def _teacher_forced(
    speaker: Speaker, world: World, samples: Sequence[Sample], size: int
) -> dict[str, float]:
    """Sums over all tokens after BOS of all samples, without dropout; `size` paths at once, each read once."""
    loss, right, words = 0.0, 0, 0
    for part in _in_parts(samples, size):
        paths = speaker.encoder(path_views(world, [own[0] for own in part]), NO_DROPOUT)
        row = torch.tensor([i for i, own in enumerate(part) for _ in own], device=world.device)
        tokens = make_episodes([s for own in part for s in own], world).tokens
        logits, target = speaker.forced(paths.rows(row), tokens, NO_DROPOUT)
        loss += cross_entropy(logits, target, reduction="sum").item()
        right += int((logits.argmax(1) == target).sum())
        words += len(target)
    return {"cross-entropy": loss, "right-words": float(right), "target-words": float(words)}


def _in_parts(samples: Sequence[Sample], size: int) -> Iterator[list[list[Sample]]]:
    """The samples of each annotated path together, at most `size` paths at once."""
    own: dict[tuple[str, int | str], list[Sample]] = {}
    for sample in samples:
        own.setdefault((sample.scan, sample.path_id), []).append(sample)
    paths = list(own.values())
    yield from (paths[begin : begin + size] for begin in range(0, len(paths), size))
