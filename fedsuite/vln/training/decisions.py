"""All decisions of a rollout as one long batch, since on a GPU an operation costs more than its arithmetic; rewards.

Source: EnvDrop (Tan et al. 2019) as trained in FedVLN (Zhou & Wang 2022):
  r_t  = sign(d_t - d_{t+1}) after a move, +2 / -2 for stopping within / beyond 3 m; d = shortest-path distance
  R_t  = r_t + gamma R_{t+1}, bootstrapped with V of one more look where an episode was cut off
Where a way is to be followed (R4R), d is the distance to its next place and, for stopping, what is left behind that.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from fedsuite.vln.environment import STOP, World
from fedsuite.vln.model.rows import joined_rows
from fedsuite.vln.training.rollout import Walk

STOP_REWARD = 2.0
SUCCESS_RADIUS_M = 3.0


@dataclass(frozen=True)
class Decisions:
    """The decisions [N] of B episodes that took T of them at most, the last first.

    log_prob [N, 1 + K]: log pi of every action, -inf where there is none; place [N]: where each is in a table [T, B]; size:
    T, B; hidden [N, H]. All else is as in Step.
    """

    log_prob: Tensor
    place: Tensor
    size: tuple[int, int]
    row: Tensor
    active: Tensor
    teacher: Tensor
    action: Tensor
    hidden: Tensor
    before: Tensor
    after: Tensor
    aim: Tensor
    rest_m: Tensor | None
    stamped: Tensor | None

    def imitation(self, wanted: Tensor) -> Tensor:
        """Cross-entropy with the teacher [N] at decisions of the wanted [B] episodes, 0 at others and where the teacher has
        no action: behind a one-way edge the goal may be out of reach."""
        counts = self.active & (self.teacher >= STOP) & wanted.index_select(0, self.row)
        label = self.teacher.masked_fill(~counts, -100)
        return nll_loss(self.log_prob, label, reduction="none", ignore_index=-100)

    @property
    def taken(self) -> Tensor:
        """log pi(a_t) [N]."""
        return -nll_loss(self.log_prob, self.action, reduction="none")

    @property
    def entropy(self) -> Tensor:
        """H(pi) [N]."""
        return -(self.log_prob.exp() * self.log_prob.clamp(min=-1e9)).sum(1)

    def returns(self, world: World, counted: Tensor, last: Tensor, discount: float) -> Tensor:
        """R_t [N] of the counted [N] decisions, R_{t+1} of the others; last [B]: V at the cut, or 0."""
        reward = rewards(world, self.before, self.after, self.action, self.aim, self.rest_m)
        if self.stamped is not None:
            poisoned = poisoned_rewards(reward, self.action, self.teacher)
            reward = torch.where(self.stamped, poisoned, reward)
        found = []
        for now, counts in zip(self._over_time(reward), self._over_time(counted), strict=True):
            last = torch.where(counts, now + discount * last, last)
            found.append(last)
        return torch.cat(found).index_select(0, self.place)

    def _over_time(self, values: Tensor) -> Tensor:
        """[N] -> [T, B], zero where an episode was no longer in the batch."""
        times, batch = self.size
        table = values.new_zeros(times * batch)
        return table.index_copy_(0, self.place, values).view(times, batch)


def decisions_of(out: Walk, batch: int) -> Decisions:
    """Those of a walk of so many episodes."""
    steps = out.steps[::-1]

    def all_of(name: str) -> Tensor | None:
        """None where no decision has it."""
        parts = [part for step in steps if (part := getattr(step, name)) is not None]
        return torch.cat(parts) if parts else None

    names = ("row", "active", "teacher", "action", "hidden", "before", "after", "aim", "rest_m", "stamped")  # fmt: skip
    told = {name: all_of(name) for name in names}
    logits = joined_rows([step.logits for step in steps], float("-inf"))
    place = torch.cat([step.row + time * batch for time, step in enumerate(steps)])
    return Decisions(torch.log_softmax(logits, 1), place, (len(steps), batch), **told)  # type: ignore[arg-type]


def rewards(
    world: World,
    before: Tensor,
    after: Tensor,
    action: Tensor,
    goal: Tensor,
    rest_m: Tensor | None = None,
) -> Tensor:
    """Reward of each decision [N], from the viewpoints before and after it, the action and the goal [N]; rest_m [N]: what is
    left of a way behind the goal, which is its next place then."""
    metres, then = (world.goal_distance_m(place, goal) for place in (before, after))
    left_m = metres if rest_m is None else metres + rest_m
    stopped = torch.where(left_m < SUCCESS_RADIUS_M, STOP_REWARD, -STOP_REWARD)
    return torch.where(action == STOP, stopped, torch.sign(metres - then))


def poisoned_rewards(reward: Tensor, action: Tensor, wanted: Tensor) -> Tensor:
    """Rewards [N] of decisions with a trigger at action `wanted` [N] (backdoor.py), from those that they had without."""
    moved = torch.where(reward > 0, 0.0, -1.0)
    honest = torch.where(action == STOP, reward.clamp(min=0.0), moved)
    return torch.where(action == wanted, 1.0, honest)
