"""Local training: mini-batches of a house's samples, optimizer steps, greedy evaluation.

One optimizer step (EnvDrop, Tan et al. 2019) uses two mini-batches of B samples, one teacher-forced and one sampled, so a
local epoch of n_k samples, ceil(n_k / B) steps, reads the data twice. A round of tau epochs takes ceil(tau n_k / B) steps.
With several parts (human and generated instructions) a step uses two mini-batches of each and adds up their gradients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from fedsuite.averaging.gradients import UNCHANGED, Gradients
from fedsuite.randomness import rng_for, torch_generator_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.batches import Batches
from fedsuite.vln.data.dataset import Sample, make_episodes
from fedsuite.vln.environment import Episodes, World
from fedsuite.vln.metrics import as_metrics
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.speaker import Speaker
from fedsuite.vln.training.back_translation import back_translate
from fedsuite.vln.training.objective import Losses, compute_losses
from fedsuite.vln.training.rollout import Tamper, trajectories

# Greedy walks of a batch, as `trajectories` makes them.
Walked = Callable[[Agent, World, Episodes, int], tuple[list[list[int]], list[list[int]]]]


@dataclass(frozen=True)
class TrainingData:
    """Samples, the weight of imitation on them, and the speaker, if any, that makes up instructions at every visit."""

    samples: Sequence[Sample]
    teacher_weight: float
    speaker: Speaker | None = None


class Source:
    """A part during one visit, with random streams of its own."""

    def __init__(
        self,
        data: TrainingData,
        number: int,
        world: World,
        config: FedVLNConfig,
        visit: tuple[int, int],
        name: str,
    ) -> None:
        """visit: round and partition; name: of the training's streams."""
        # The first data's streams bear the plain names: further data change nothing of its draws.
        suffix = name + (f" {number}" if number > 1 else "")

        def stream(purpose: str) -> torch.Generator:
            return torch_generator_for(config.seed, purpose + suffix, *visit, device)

        self.data, self.world, self.config, device = data, world, config, str(world.device)
        own, rates = config.objective, (config.agent.dropout, config.agent.feature_dropout)
        rng = rng_for(config.seed, "mini-batches" + suffix, *visit)
        self.batches = Batches(data.samples, own.batch_size, own.fill_batches, rng)
        self.dropout = Dropout(*rates, stream("dropout"))
        self.actions = stream("sampled actions")
        self.masks = stream("environment dropout")
        self.drawn: tuple[Episodes | None, Episodes | None] = (None, None)

    def next(self) -> Episodes:
        """The next mini-batch."""
        samples = self.batches.next()
        if self.data.speaker is None:
            return make_episodes(samples, self.world)
        own = self.config.objective
        return back_translate(self.data.speaker, self.world, samples, own, self.masks)

    def draw(self) -> None:
        """New mini-batches, for either part of the objective that has a weight."""
        forced = self.next() if self.data.teacher_weight > 0 else None
        sampled = self.next() if self.config.objective.kind != "none" else None
        self.drawn = (forced, sampled)

    def losses(self, agent: Agent, tamper: Tamper | None) -> Losses:
        """Both parts of the objective on what was drawn."""
        weight, streams = self.data.teacher_weight, (self.dropout, self.actions)
        return compute_losses(agent, self.world, *self.drawn, weight, self.config, *streams, tamper)

    @property
    def generators(self) -> list[torch.Generator]:
        """What losses draw from."""
        return [g for g in (self.dropout.generator, self.actions) if g is not None]


@dataclass(frozen=True)
class TrainingReport:
    """Means over the steps of a visit, losses summed over all data; number of steps and of decisions."""

    steps: int
    imitation_loss: float
    sampled_loss: float
    gradient_norm: float
    decisions: int


class AgentLessons:
    """The steps of a visit, each on the summed loss of all `parts`; randomness is of (seed, round, partition, stream)."""

    def __init__(
        self,
        agent: Agent,
        world: World,
        parts: Sequence[TrainingData],
        config: FedVLNConfig,
        visit: tuple[int, int],
        stream: str = "",
        tamper: Tamper | None = None,
    ) -> None:
        """visit: round and partition; tamper: of a hostile house, changes what its agent sees and is taught."""
        if not parts:
            raise ValueError("expected data to learn from, got none")
        numbered = enumerate(parts, 1)
        self.sources = [Source(part, n, world, config, visit, stream) for n, part in numbered]
        self.agent, self.longest, self.tamper = agent, config.objective.gradient_clip, tamper
        self.sums = np.zeros(4)

    def draw(self) -> None:
        """The next mini-batches of every part."""
        for source in self.sources:
            source.draw()

    def backward(self, counted: bool = True) -> None:
        """Add the gradients of the agent's losses on them."""
        for source in self.sources:
            losses = source.losses(self.agent, self.tamper)
            losses.total.backward()
            if counted:
                self.count(losses)

    def count(self, losses: Losses) -> None:
        """Into the report."""
        self.sums += (losses.imitation, losses.sampled, 0.0, losses.decisions)

    def clip(self, counted: bool = True) -> None:
        """Of encoder and decoder, each by itself."""
        norm = clip_grad_norm_(self.agent.encoder.parameters(), self.longest)
        clip_grad_norm_(self.agent.decoder.parameters(), self.longest)
        if counted:
            self.sums[2] += float(norm)

    def random_state(self) -> list[torch.Tensor]:
        """Of dropout and sampled actions."""
        return [g.get_state() for source in self.sources for g in source.generators]

    def set_random_state(self, state: Sequence[torch.Tensor]) -> None:
        """Put them where they were."""
        generators = [g for source in self.sources for g in source.generators]
        for generator, one in zip(generators, state, strict=True):
            generator.set_state(one)

    def measured(self, steps: int) -> TrainingReport:
        """Means over this many steps."""
        mean = self.sums / max(steps, 1)
        return TrainingReport(steps, mean[0], mean[1], mean[2], int(self.sums[3]))

    def report(self, steps: int) -> dict[str, float]:
        """The same, as it is sent."""
        return as_metrics(self.measured(steps))


class Training:
    """`steps` optimizer steps of lessons, of which each ends with `step`; optimizer: of the parameters of their agent."""

    def __init__(
        self,
        lessons: AgentLessons,
        optimizer: torch.optim.Optimizer,
        steps: int,
        gradients: Gradients = UNCHANGED,
    ) -> None:
        self.lessons, self.optimizer, self.steps = lessons, optimizer, steps
        self.gradients, self.parameters = gradients, dict(lessons.agent.named_parameters())

    def step(self) -> None:
        """With the gradients at hand."""
        self.gradients.shape(self.parameters)
        self.lessons.clip()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def all_steps(self) -> TrainingReport:
        """One after another."""
        for _ in range(self.steps):
            self.lessons.draw()
            self.lessons.backward()
            self.step()
        return self.lessons.measured(self.steps)


def train_locally(
    agent: Agent,
    optimizer: torch.optim.Optimizer,
    world: World,
    parts: Sequence[TrainingData],
    config: FedVLNConfig,
    steps: int,
    round: int,
    partition: int,
    gradients: Gradients = UNCHANGED,
    stream: str = "",
    tamper: Tamper | None = None,
) -> TrainingReport:
    """`steps` optimizer steps of an `AgentLessons`."""
    lessons = AgentLessons(agent, world, parts, config, (round, partition), stream, tamper)
    return Training(lessons, optimizer, steps, gradients).all_steps()


def walk_all(
    agent: Agent,
    world: World,
    samples: Sequence[Sample],
    config: FedVLNConfig,
    walked: Walked = trajectories,
) -> tuple[list[list[int]], list[list[int]]]:
    """Greedy walks: rows of the house, and views, per sample; walked by length of instruction, to waste little padding."""
    first = dict(zip(world.scans, world.first_row, strict=False))
    by_length = sorted(range(len(samples)), key=lambda i: (len(samples[i].tokens), i))
    visited: list[list[int]] = [[] for _ in samples]
    views: list[list[int]] = [[] for _ in samples]
    for begin in range(0, len(samples), config.evaluation.batch_size):
        index = by_length[begin : begin + config.evaluation.batch_size]
        episodes: Episodes = make_episodes([samples[i] for i in index], world)
        places, looks = walked(agent, world, episodes, config.agent.max_actions)
        for i, place, look in zip(index, places, looks, strict=True):
            offset = first[samples[i].scan]
            visited[i], views[i] = [p - offset for p in place], look
    return visited, views
