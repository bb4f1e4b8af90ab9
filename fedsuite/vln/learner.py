"""Local training: mini-batches of a house's samples, optimizer steps, greedy evaluation.

One optimizer step (EnvDrop, Tan et al. 2019) uses two mini-batches of B samples, one teacher-forced and one sampled, so a
local epoch of n_k samples, ceil(n_k / B) steps, reads the data twice. A round of tau epochs takes ceil(tau n_k / B) steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from fedsuite.randomness import rng_for, torch_generator_for
from fedsuite.vln.agent import Agent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.dataset import Sample, make_episodes
from fedsuite.vln.dropout import Dropout
from fedsuite.vln.environment import World
from fedsuite.vln.objective import compute_losses
from fedsuite.vln.optimizer import RMSprop
from fedsuite.vln.rollout import Episodes, trajectories


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
class TrainingReport:
    """Means over the steps of a visit, and their number."""

    steps: int
    imitation_loss: float
    sampled_loss: float
    gradient_norm: float
    decisions: int


def train_locally(
    agent: Agent,
    optimizer: RMSprop,
    world: World,
    samples: Sequence[Sample],
    config: FedVLNConfig,
    steps: int,
    round: int,
    partition: int,
) -> TrainingReport:
    """`steps` optimizer steps; all randomness comes from (seed, round, partition)."""

    def stream(purpose: str) -> torch.Generator:
        return torch_generator_for(config.seed, purpose, round, partition, str(world.device))

    rng = rng_for(config.seed, "mini-batches", round, partition)
    batches = Batches(samples, config.batch_size, config.fill_batches, rng)
    dropout = Dropout(config.dropout, config.feature_dropout, stream("dropout"))
    actions = stream("sampled actions")
    sums = np.zeros(4)
    for _ in range(steps):
        forced = make_episodes(batches.next(), world) if config.teacher_weight > 0 else None
        sampled = make_episodes(batches.next(), world) if config.objective != "none" else None
        losses = compute_losses(agent, world, forced, sampled, config, dropout, actions)
        losses.total.backward()
        norm = clip_grad_norm_(agent.encoder.parameters(), config.gradient_clip)
        clip_grad_norm_(agent.decoder.parameters(), config.gradient_clip)
        optimizer.step()
        sums += (losses.imitation, losses.sampled, float(norm), losses.decisions)
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
