"""Local training: mini-batches of a house's samples, optimizer steps, greedy evaluation.

One optimizer step (EnvDrop, Tan et al. 2019) uses two mini-batches of B samples, one teacher-forced and one sampled, so a
local epoch of n_k samples, ceil(n_k / B) steps, reads the data twice. A round of tau epochs takes ceil(tau n_k / B) steps.
With several feeds (human and generated instructions) a step uses two mini-batches of each and adds up their gradients.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from fedsuite.randomness import rng_for, torch_generator_for
from fedsuite.vln.agent import Agent
from fedsuite.vln.back_translation import back_translate
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.dataset import Sample, make_episodes
from fedsuite.vln.dropout import Dropout
from fedsuite.vln.environment import World
from fedsuite.vln.objective import Losses, compute_losses
from fedsuite.vln.optimizer import RMSprop
from fedsuite.vln.rollout import Episodes, trajectories
from fedsuite.vln.speaker import Speaker


def local_steps(num_samples: int, epochs: int, batch_size: int) -> int:
    """Optimizer steps of `epochs` local epochs."""
    return math.ceil(epochs * num_samples / batch_size)


class Batches:
    """Endless mini-batches: a shuffled pass, reshuffled when it wraps around.

    With `fill`, every batch holds batch_size samples even if the house has fewer (official code); otherwise at most n.
    """

    def __init__(
        self, samples: Sequence[Sample], batch_size: int, fill: bool, rng: np.random.Generator
    ) -> None:
        if not samples:
            raise ValueError("no samples to draw mini-batches from")
        self.samples, self.rng = samples, rng
        self.size = batch_size if fill else min(batch_size, len(samples))
        self.order = rng.permutation(len(samples))
        self.cursor = 0

    def next(self) -> list[Sample]:
        """The next mini-batch."""
        picked: list[int] = []
        while len(picked) < self.size:
            if self.cursor == len(self.order):
                self.order, self.cursor = self.rng.permutation(len(self.samples)), 0
            take = self.order[self.cursor : self.cursor + self.size - len(picked)]
            picked.extend(int(i) for i in take)
            self.cursor += len(take)
        return [self.samples[i] for i in picked]


@dataclass(frozen=True)
class Feed:
    """A source of mini-batches: samples, the weight of imitation on them, and who makes up their instructions.

    With a speaker, instructions are generated at every visit under environment dropout; without, they are the samples'.
    """

    samples: Sequence[Sample]
    teacher_weight: float
    speaker: Speaker | None = None


class _Source:
    """A feed during one visit, with random streams of its own."""

    def __init__(
        self,
        feed: Feed,
        number: int,
        world: World,
        config: FedVLNConfig,
        round: int,
        partition: int,
    ) -> None:
        # The first feed's streams bear the plain names: a further feed changes nothing of its draws.
        suffix = f" {number}" if number > 1 else ""

        def stream(purpose: str) -> torch.Generator:
            name, device = purpose + suffix, str(world.device)
            return torch_generator_for(config.seed, name, round, partition, device)

        self.feed, self.world, self.config = feed, world, config
        rng = rng_for(config.seed, "mini-batches" + suffix, round, partition)
        self.batches = Batches(feed.samples, config.batch_size, config.fill_batches, rng)
        self.dropout = Dropout(config.dropout, config.feature_dropout, stream("dropout"))
        self.actions = stream("sampled actions")
        self.masks = stream("environment dropout")

    def next(self) -> Episodes:
        """The next mini-batch."""
        samples = self.batches.next()
        if self.feed.speaker is None:
            return make_episodes(samples, self.world)
        return back_translate(self.feed.speaker, self.world, samples, self.config, self.masks)

    def losses(self, agent: Agent) -> Losses:
        """Both parts of the objective on new mini-batches."""
        weight = self.feed.teacher_weight
        forced = self.next() if weight > 0 else None
        sampled = self.next() if self.config.objective != "none" else None
        return compute_losses(
            agent, self.world, forced, sampled, weight, self.config, self.dropout, self.actions
        )


@dataclass(frozen=True)
class TrainingReport:
    """Means over the steps of a visit, losses summed over the feeds; number of steps and of decisions."""

    steps: int
    imitation_loss: float
    sampled_loss: float
    gradient_norm: float
    decisions: int


def train_locally(
    agent: Agent,
    optimizer: RMSprop,
    world: World,
    feeds: Sequence[Feed],
    config: FedVLNConfig,
    steps: int,
    round: int,
    partition: int,
) -> TrainingReport:
    """`steps` optimizer steps, each on the summed loss of all feeds; randomness comes from (seed, round, partition)."""
    if not feeds:
        raise ValueError("expected at least one feed to learn from, got none")
    sources = [
        _Source(feed, number, world, config, round, partition)
        for number, feed in enumerate(feeds, 1)
    ]
    sums = np.zeros(4)
    for _ in range(steps):
        for source in sources:
            losses = source.losses(agent)
            losses.total.backward()
            sums += (losses.imitation, losses.sampled, 0.0, losses.decisions)
        norm = clip_grad_norm_(agent.encoder.parameters(), config.gradient_clip)
        clip_grad_norm_(agent.decoder.parameters(), config.gradient_clip)
        optimizer.step()
        sums[2] += float(norm)
    mean = sums / max(steps, 1)
    return TrainingReport(steps, mean[0], mean[1], mean[2], int(sums[3]))


def walk_all(
    agent: Agent, world: World, samples: Sequence[Sample], config: FedVLNConfig
) -> tuple[list[list[int]], list[list[int]]]:
    """Greedy trajectories of all samples of one house: rows of the house, and views, per sample in order.

    Samples are walked in order of instruction length, so that batches waste little padding.
    """
    first = dict(zip(world.scans, world.first_row, strict=False))
    by_length = sorted(range(len(samples)), key=lambda i: (len(samples[i].tokens), i))
    visited: list[list[int]] = [[] for _ in samples]
    views: list[list[int]] = [[] for _ in samples]
    for begin in range(0, len(samples), config.evaluation_batch_size):
        index = by_length[begin : begin + config.evaluation_batch_size]
        episodes: Episodes = make_episodes([samples[i] for i in index], world)
        places, looks = trajectories(agent, world, episodes, config.max_actions)
        for i, place, look in zip(index, places, looks, strict=True):
            offset = first[samples[i].scan]
            visited[i], views[i] = [p - offset for p in place], look
    return visited, views
