"""What the agent learns from: imitation on teacher-forced episodes, A2C or imitation on sampled ones.

Source: EnvDrop (Tan et al. 2019) as trained in FedVLN (Zhou & Wang 2022):
  L_IL = 1/B sum_{t,b} CE(logits, teacher)                                   not normalised by length
  r_t  = sign(d_t - d_{t+1}) after a move, +2 / -2 for stopping within / beyond 3 m; d = shortest-path distance
  R_t  = r_t + gamma R_{t+1}, bootstrapped with V of one more look where an episode was cut off
  L_RL = 1/M sum_{t,b} [ -log pi(a_t) (R_t - V(h_t)) + 0.5 (R_t - V(h_t))^2 - w_H H(pi) ],  M active steps
  L    = teacher_weight L_IL + sampled_weight L_RL
Where a way is to be followed (R4R), d is the distance to its next place and, for stopping, what is left behind that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, nll_loss, pad

from fedsuite.vln.config import FedVLNConfig, ObjectiveSettings
from fedsuite.vln.environment import STOP, Episodes, World
from fedsuite.vln.model.agent import Agent, Critic
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.rows import Chosen
from fedsuite.vln.training.rollout import Tamper, Walk, sample, walk

STOP_REWARD = 2.0
SUCCESS_RADIUS_M = 3.0
VALUE_WEIGHT = 0.5


@dataclass(frozen=True)
class Losses:
    """total (differentiable) and its unweighted parts."""

    total: Tensor
    imitation: float
    sampled: float
    decisions: int


def compute_losses(
    agent: Agent,
    world: World,
    forced: Episodes | None,
    sampled: Episodes | None,
    teacher_weight: float,
    config: FedVLNConfig,
    dropout: Dropout,
    actions: torch.Generator,
    tamper: Tamper | None = None,
) -> Losses:
    """Roll out both mini-batches as one batch and add up the objective, imitation by `teacher_weight`."""
    rewarded = sampled is not None and config.objective.kind == "a2c"
    out, episodes, num_forced = walked(
        agent, world, forced, sampled, config, dropout, actions, rewarded, tamper
    )
    is_forced = torch.arange(len(episodes), device=world.device) < num_forced
    imitation = _imitation(out, 0, num_forced)
    total = teacher_weight * imitation
    by_sampling = torch.zeros((), device=world.device)
    if sampled is not None:
        if rewarded:
            last = values_at_the_cut(agent.critic, out, torch.ones_like(is_forced), dropout)
            decided = decisions_of(world, out, is_forced, last, config.objective)
            chosen = Chosen(decided.counted)
            by_sampling = a2c(agent.critic, decided, chosen, config.objective, dropout)
        else:
            by_sampling = _imitation(out, num_forced, len(episodes))
        total = total + config.objective.sampled_weight * by_sampling
    decisions = sum(int(s.active.sum()) for s in out.steps)
    return Losses(total, imitation.item(), by_sampling.item(), decisions)


def walked(
    agent: Agent,
    world: World,
    forced: Episodes | None,
    sampled: Episodes | None,
    config: FedVLNConfig,
    dropout: Dropout,
    actions: torch.Generator,
    bootstrap: bool = False,
    tamper: Tamper | None = None,
) -> tuple[Walk, Episodes, int]:
    """Both mini-batches rolled out as one, forced rows first, and how many of these there are."""
    episodes, num_forced = joined(forced, sampled)
    rows = torch.arange(len(episodes), device=world.device)
    is_forced = rows < num_forced
    limit = torch.where(is_forced, config.agent.max_actions, config.agent.sampled_max_actions)

    def policy(logits: Tensor, teacher: Tensor, row: Tensor) -> Tensor:
        if num_forced == len(episodes):
            return teacher
        return torch.where(row < num_forced, teacher, sample(logits, actions))

    out = walk(agent, world, episodes, policy, limit, dropout, bootstrap, tamper)
    return out, episodes, num_forced


def joined(forced: Episodes | None, sampled: Episodes | None) -> tuple[Episodes, int]:
    """One batch of both, forced rows first."""
    parts = [p for p in (forced, sampled) if p is not None]
    if not parts:
        raise ValueError(
            "expected forced or sampled episodes, got neither; nothing could be learnt"
        )
    if len(parts) == 1:
        return parts[0], len(parts[0]) if forced is not None else 0
    longest = max(p.tokens.shape[1] for p in parts)
    tokens = torch.cat([pad(p.tokens, (0, longest - p.tokens.shape[1])) for p in parts])
    places = [(p.length, p.start, p.start_view, p.goal) for p in parts]
    factors = [p.feature_factor for p in parts if p.feature_factor is not None]
    if len(factors) == 1:
        raise ValueError("both mini-batches of a step need environment dropout, or neither")
    factor = torch.cat(factors) if factors else None
    length, start, view, goal = map(torch.cat, zip(*places, strict=True))
    way = _joined_ways(parts) if any(p.way is not None for p in parts) else None
    return Episodes(tokens, length, start, view, goal, factor, way), len(parts[0])


def _joined_ways(parts: Sequence[Episodes]) -> Tensor:
    """Ways of all [B, M]; shorter ones end with their goal again and again."""
    longest = max(p.via.shape[1] for p in parts)
    return torch.cat(
        [torch.cat([p.via, p.goal[:, None].expand(-1, longest - p.via.shape[1])], 1) for p in parts]
    )


def _imitation(out: Walk, first: int, last: int) -> Tensor:
    """Cross-entropy with the teacher, summed over the steps of rows first..last-1, divided by their number."""
    total = out.steps[0].logits.new_zeros(())
    if last <= first:
        return total
    for step in out.steps:
        wanted = step.active & (step.row >= first) & (step.row < last)
        wanted &= step.teacher >= STOP  # behind a one-way edge the goal may be out of reach
        label = torch.where(wanted, step.teacher, -100)
        total = total + cross_entropy(step.logits, label, reduction="sum", ignore_index=-100)
    return total / (last - first)


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


def _returns(reward: Tensor, counted: Tensor, last: Tensor, discount: float) -> Tensor:
    """R_t [T, B], last decision first; where a decision does not count, that of the one after it. last [B]: V at the cut."""
    found = []
    for now, counts in zip(reward, counted, strict=True):
        last = torch.where(counts, now + discount * last, last)
        found.append(last)
    return torch.stack(found)


@dataclass(frozen=True)
class Decisions:
    """All decisions of a walk as one long batch [N], the last first: on a GPU an operation costs more than its arithmetic.

    row: of the episode; counted: whether it is learnt from by reward; target: R_t; log_prob, entropy: of pi; hidden [N, H].
    """

    row: Tensor
    counted: Tensor
    target: Tensor
    log_prob: Tensor
    entropy: Tensor
    hidden: Tensor


def decisions_of(
    world: World, out: Walk, forced: Tensor, last: Tensor, settings: ObjectiveSettings
) -> Decisions:
    """forced [B]: whether an episode is teacher-forced; last [B]: V of one more look where it was cut off, else 0."""
    steps, batch = out.steps[::-1], len(forced)
    row, active, action, before, after, hidden = (
        torch.cat([getattr(step, name) for step in steps])
        for name in ("row", "active", "action", "before", "after", "hidden")
    )
    rest = [step.rest_m for step in steps if step.rest_m is not None]
    aim, rest_m = torch.cat([step.aim for step in steps]), torch.cat(rest) if rest else None
    counted = active & ~forced.index_select(0, row)
    place = torch.cat([step.row + time * batch for time, step in enumerate(steps)])

    def over_time(values: Tensor) -> Tensor:
        """[N] -> [T, B], zero where an episode was no longer in the batch."""
        table = values.new_zeros(len(steps) * batch)
        table[place] = values
        return table.view(-1, batch)

    reward = rewards(world, before, after, action, aim, rest_m)
    if stamps := [step.stamped for step in steps if step.stamped is not None]:
        wanted = torch.cat([step.teacher for step in steps])
        reward = torch.where(torch.cat(stamps), poisoned_rewards(reward, action, wanted), reward)
    returns = _returns(over_time(reward), over_time(counted), last, settings.discount)
    every = [torch.log_softmax(step.logits, 1) for step in steps]
    pairs = zip(every, steps, strict=True)
    taken = torch.cat([-nll_loss(own, step.action, reduction="none") for own, step in pairs])
    entropy = torch.cat([-(own.exp() * own.clamp(min=-1e9)).sum(1) for own in every])
    return Decisions(row, counted, returns.flatten()[place], taken, entropy, hidden)


def a2c(
    critic: Critic,
    decided: Decisions,
    chosen: Chosen,
    settings: ObjectiveSettings,
    dropout: Dropout,
) -> Tensor:
    """L_RL of the chosen decisions."""
    target, log_prob, entropy, hidden = (
        chosen.of(rows)
        for rows in (decided.target, decided.log_prob, decided.entropy, decided.hidden)
    )
    advantage = target - critic(hidden, dropout)
    policy_loss = -(log_prob * advantage.detach()).sum()
    value_loss = VALUE_WEIGHT * advantage.square().sum()
    bonus = settings.entropy_weight * entropy.sum()
    return (policy_loss + value_loss - bonus) / len(target)


@torch.no_grad()
def values_at_the_cut(critic: Critic, out: Walk, own: Tensor, dropout: Dropout) -> Tensor:
    """V of one more look [B] of the episodes that are `own` [B] and were cut off, 0 of all others."""
    last = torch.zeros(len(own), device=own.device)
    if out.unfinished is not None and out.last_hidden is not None:
        here = own.index_select(0, out.unfinished)
        rows, hidden = out.unfinished[here], out.last_hidden[here]
        if len(rows):
            last[rows] = critic(hidden, dropout)
    return last
