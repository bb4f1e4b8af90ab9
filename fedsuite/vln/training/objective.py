"""What the agent learns from: imitation on teacher-forced episodes, A2C or imitation on sampled ones.

Source: EnvDrop (Tan et al. 2019) as trained in FedVLN (Zhou & Wang 2022):
  L_IL = 1/B sum_{t,b} CE(logits, teacher)                                   not normalised by length
  L_RL = 1/M sum_{t,b} [ -log pi(a_t) (R_t - V(h_t)) + 0.5 (R_t - V(h_t))^2 - w_H H(pi) ],  M active steps
  L    = teacher_weight L_IL + sampled_weight L_RL                           R_t: decisions.py
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedsuite.vln.config import FedVLNConfig, ObjectiveSettings
from fedsuite.vln.environment import Episodes, World
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.rows import Chosen
from fedsuite.vln.training.decisions import Decisions, decisions_of
from fedsuite.vln.training.rollout import Tamper, Walk, sample, walk

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
    decided = decisions_of(out, len(episodes))
    imitation = decided.imitation(is_forced).sum() / max(num_forced, 1)
    total = teacher_weight * imitation
    by_sampling = torch.zeros((), device=world.device)
    if sampled is not None:
        if rewarded:
            last = torch.zeros(len(episodes), device=world.device)
            if out.unfinished is not None and out.last_hidden is not None:
                with torch.no_grad():
                    last[out.unfinished] = agent.critic(out.last_hidden, dropout)
            counted = decided.active & ~is_forced.index_select(0, decided.row)
            target = decided.returns(world, counted, last, config.objective.discount)
            chosen = Chosen(counted)
            value = agent.critic(chosen.of(decided.hidden), dropout)
            by_sampling = a2c(decided, target, value, chosen, config.objective).sum() / len(chosen)
        else:
            by_sampling = decided.imitation(~is_forced).sum() / len(sampled)
        total = total + config.objective.sampled_weight * by_sampling
    decisions = int(decided.active.sum())
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


def a2c(
    decided: Decisions, target: Tensor, value: Tensor, chosen: Chosen, settings: ObjectiveSettings
) -> Tensor:
    """Parts of L_RL [M] of the chosen decisions, of which `value` [M] is V(h_t); target [N]: R_t."""
    log_prob, entropy = chosen.of(decided.taken), chosen.of(decided.entropy)
    advantage = chosen.of(target) - value
    policy_loss = -(log_prob * advantage.detach())
    return policy_loss + VALUE_WEIGHT * advantage.square() - settings.entropy_weight * entropy
