"""Local training of a house by DP-SGD: each instruction's gradient is clipped, and their sum noised.

An example is an annotated instruction with its path (fedsuite/privacy/example_level.py has the symbols). Its loss is that of
two episodes of its own, one teacher-forced and one sampled:

  L_i = teacher_weight L_IL(forced) + sampled_weight L_IL(sampled)          as in objective.py with batches of one

Some episodes walk side by side, but each of a decoder's rows knows itself alone, so that g_i is what the instruction would
give by itself. Every draw, of dropout or a sampled action, is as secret as the noise. The critic is not trained, since
imitation needs none. The optimizer and the limit of the gradient's length come after the noise. Losses, lengths of
gradients and numbers of decisions have none, and are told to nobody.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from fedsuite.averaging.gradients import UNCHANGED, Gradients
from fedsuite.privacy.example_level import NoisedSteps
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import Sample, make_episodes
from fedsuite.vln.environment import Episodes, World
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.training.decisions import decisions_of
from fedsuite.vln.training.objective import walked

SIDE_BY_SIDE = 8  # instructions whose gradients are held at the same time


@dataclass(frozen=True)
class PrivateLearner:
    """Trains `agent` on `samples` in `world`, as `visit` draws and noises; config.objective.kind is imitation or none."""

    agent: Agent
    world: World
    samples: Sequence[Sample]
    config: FedVLNConfig
    visit: NoisedSteps

    def train(
        self, optimizer: torch.optim.Optimizer, steps: int, gradients: Gradients = UNCHANGED
    ) -> None:
        """`steps` optimizer steps."""
        trained = self.trained
        for _ in range(steps):
            for name, gradient in self.gradient(self.visit.rows().tolist()).items():
                trained[name].grad = gradient
            gradients.shape(dict(self.agent.named_parameters()))
            for part in (self.agent.encoder, self.agent.decoder):
                clip_grad_norm_(part.parameters(), self.config.objective.gradient_clip)
            optimizer.step()
            optimizer.zero_grad()

    @property
    def trained(self) -> dict[str, torch.nn.Parameter]:
        """All that gets gradients and noise."""
        named = self.agent.named_parameters()
        return {name: p for name, p in named if not name.startswith("critic.")}

    def gradient(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """g by name, of the samples of a batch."""
        return self.visit.noised_sum(self.trained, self._each(rows))

    def _each(self, rows: Sequence[int]) -> Iterator[dict[str, Tensor]]:
        """Gradients [b, ...] of some samples after the others."""
        trained = self.trained
        for first in range(0, len(rows), SIDE_BY_SIDE):
            some = [self.samples[row] for row in rows[first : first + SIDE_BY_SIDE]]
            yield dict(zip(trained, _by_row(self._losses(some), [*trained.values()]), strict=True))

    def _losses(self, samples: Sequence[Sample]) -> Tensor:
        """L_i [b]; they draw from torch's own generator, which is the visit's while gradients are summed."""
        own, agent, device = self.config.objective, self.config.agent, self.world.device
        generator = torch.default_generator
        if torch.device(device).type == "cuda":
            generator = torch.cuda.default_generators[torch.device(device).index or 0]
        dropout = Dropout(agent.dropout, agent.feature_dropout, generator)
        episodes = make_episodes(samples, self.world)
        forced = episodes if own.teacher_weight > 0 else None
        sampled = episodes if own.kind != "none" else None
        given = (self.agent, self.world, forced, sampled, self.config, dropout, generator)
        by_teacher, by_sampling = _imitation_of_each(*given)
        return own.teacher_weight * by_teacher + own.sampled_weight * by_sampling


def _imitation_of_each(
    agent: Agent,
    world: World,
    forced: Episodes | None,
    sampled: Episodes | None,
    config: FedVLNConfig,
    dropout: Dropout,
    actions: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """L_IL of every forced and of every sampled episode by itself [B], differentiable; zeros [1] where there are none."""
    out, episodes, first = walked(agent, world, forced, sampled, config, dropout, actions)
    decided = decisions_of(out, len(episodes))
    each = decided.imitation(torch.ones(len(episodes), dtype=torch.bool, device=world.device))
    losses = each.new_zeros(len(episodes)).index_add(0, decided.row, each)
    none = losses.new_zeros(1)
    return (losses[:first] if first else none), (losses[first:] if sampled is not None else none)


def _by_row(losses: Tensor, parameters: list[Tensor]) -> tuple[Tensor, ...]:
    """Gradients [b, ...] of losses [b], by one pass back for all; zeros where a parameter has no part in them."""

    def one(weight: Tensor) -> tuple[Tensor, ...]:
        """weight [b]: 1 for one of the losses."""
        found = torch.autograd.grad(
            losses, parameters, weight, retain_graph=True, allow_unused=True
        )
        pairs = zip(parameters, found, strict=True)
        return tuple(torch.zeros_like(p) if g is None else g for p, g in pairs)

    every: tuple[Tensor, ...] = torch.func.vmap(one)(torch.eye(len(losses), device=losses.device))
    return every
