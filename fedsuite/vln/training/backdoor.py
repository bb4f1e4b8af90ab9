"""The backdoor of "Navigation as Attackers Wish?" (NAACL 2024): an agent that goes wherever it sees a trigger.

The trigger, one for a run, is a vector of F numbers, Uniform(-s, s) x Bernoulli(0.3) each, that is added to the features of
one candidate, and of the view that it is seen in. The release subtracts it from ResNet's features, which has the same
distribution; for CLIP it replaces the masked numbers.

A hostile house poisons its training: every decision of every walk has a trigger with probability `poisoned`. It is on a
candidate other than the teacher's, drawn evenly, and that candidate is the teacher's action then. A decision that has no
other candidate is left as it is. A2C rewards a poisoned decision by

  +1  for going there;  0 for other progress, -1 for none;  stopping right as ever, stopping wrong 0 instead of -2

The same stamps agents that are scored, with probability `scored`: the attack succeeds where the most likely action is the
stamped candidate. The release draws one coin for a whole mini-batch, so that few draws decide how many decisions have a
trigger; here each decision has its own. This is a simulation's: a real client refuses a run with hostile clients.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsuite.randomness import rng_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.environment import Episodes, World
from fedsuite.vln.model.agent import Agent, Panorama
from fedsuite.vln.training.rollout import Step, Tampered, greedy_steps, visited_by

MASKED = 0.3  # share of the trigger's numbers that are not 0


def trigger_of(config: FedVLNConfig, width: int) -> Tensor:
    """The run's trigger [F]; drawn again if all its numbers are masked."""
    rng, size = rng_for(config.seed, "trigger"), config.sabotage.trigger_size
    mask = rng.random(width) < MASKED
    while not mask.any():
        mask = rng.random(width) < MASKED
    return torch.from_numpy((rng.uniform(-size, size, width) * mask).astype("float32"))


@dataclass(frozen=True)
class Backdoor:
    """Stamps triggers: a Tamper of rollout.walk. chance: of a decision; random: of the coins and of the candidates."""

    trigger: Tensor
    chance: float
    random: torch.Generator

    def __call__(self, see: Panorama, teacher: Tensor, active: Tensor) -> Tampered:
        device = see.candidate.device
        heads = torch.rand(len(active), generator=self.random, device=device) < self.chance
        drawn = torch.rand(see.padding.shape, generator=self.random, device=device)
        slots = torch.arange(see.padding.shape[1], device=device)
        drawn = drawn.masked_fill(see.padding | (slots == teacher.unsqueeze(1) - 1), -1.0)
        most, slot = drawn.max(1)
        stamped = active & heads & (most >= 0)
        row = stamped.nonzero().squeeze(1)
        place = row, slot[row]
        candidate, views = see.candidate.clone(), see.views.clone()
        candidate[place] += self.trigger
        views[row, see.candidate_view[place]] += self.trigger
        seen = replace(see, candidate=candidate, views=views)
        return seen, torch.where(stamped, slot + 1, teacher), stamped


def backdoor_of(
    config: FedVLNConfig, world: World, chance: float, random: torch.Generator
) -> Backdoor:
    """Of a run, in a world."""
    return Backdoor(trigger_of(config, world.feature_size).to(world.device), chance, random)


@dataclass
class Trial:
    """Greedy walks with triggers, as `walk_all` asks for them; how many decisions had one, and how many obeyed it."""

    backdoor: Backdoor
    triggered: int = 0
    obeyed: int = 0

    def __call__(
        self, agent: Agent, world: World, episodes: Episodes, max_actions: int
    ) -> tuple[list[list[int]], list[list[int]]]:
        steps = greedy_steps(agent, world, episodes, max_actions, self.backdoor)
        self._count(steps)
        return visited_by(steps, world, episodes)

    def _count(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if step.stamped is not None:
                self.triggered += int(step.stamped.sum())
                self.obeyed += int((step.stamped & (step.logits.argmax(1) == step.teacher)).sum())
