"""The objective of several houses at once: one walk of all, see fedsuite/vln/model/stacked.py, and a loss for each."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from fedsuite.vln.config import FedVLNConfig, ObjectiveSettings
from fedsuite.vln.environment import STOP, Episodes, World
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.rows import Chosen
from fedsuite.vln.model.stacked import (
    StackedAgent,
    StackedBatch,
    StackedDropout,
    sample_stacked,
)
from fedsuite.vln.training.objective import (
    Losses,
    a2c,
    decisions_of,
    joined,
    values_at_the_cut,
)
from fedsuite.vln.training.rollout import Walk, walk

Drawn = tuple[Episodes | None, Episodes | None]  # forced, sampled


@dataclass(frozen=True)
class StackedWorld:
    """The worlds of S houses as one; first_row [S]: where the rows of each begin."""

    world: World
    first_row: list[int]


def stacked_losses(
    agent: StackedAgent,
    stacked: StackedWorld,
    drawn: Sequence[Drawn],
    weights: Sequence[float],
    config: FedVLNConfig,
    dropouts: Sequence[Dropout],
    actions: Sequence[torch.Generator],
) -> list[Losses]:
    """`compute_losses` of every house. Of each: mini-batches by the rows of its own world, teacher weight and streams."""
    world, pairs = stacked.world, [joined(*one) for one in drawn]
    parts, num_forced = [episodes for episodes, _ in pairs], [n for _, n in pairs]
    batch = StackedBatch([len(own) for own in parts], world.device)
    episodes = _stacked_episodes(parts, stacked.first_row)
    slot = torch.arange(len(episodes) // len(parts), device=world.device)
    forced = (slot < torch.tensor(num_forced, device=world.device).unsqueeze(1)).flatten()
    limit = torch.where(forced, config.agent.max_actions, config.agent.sampled_max_actions)

    def policy(logits: Tensor, teacher: Tensor, row: Tensor) -> Tensor:
        if config.objective.kind == "none":
            return teacher
        drawn = sample_stacked(logits, batch, actions)
        return torch.where(forced.index_select(0, row), teacher, drawn)

    rewarded = config.objective.kind == "a2c"
    dropout = StackedDropout(dropouts, batch)
    out = walk(agent, world, episodes, policy, limit, dropout, bootstrap=rewarded, batch=batch)
    imitation = _imitations(out, forced, num_forced)
    if rewarded:
        sampled = _by_reward(agent, world, out, forced, config.objective, dropouts)
    else:
        sizes = [len(own) - n for own, n in pairs]
        sampled = _imitations(out, ~forced, sizes)
    counts = torch.stack([s.active.view(len(parts), -1).sum(1) for s in out.steps]).sum(0)
    total = torch.tensor(weights, device=world.device) * imitation
    total = total + config.objective.sampled_weight * sampled
    found = zip(total, imitation.tolist(), sampled.tolist(), counts.tolist(), strict=True)
    return [Losses(*one) for one in found]


def _imitations(out: Walk, wanted: Tensor, sizes: Sequence[int]) -> Tensor:
    """Of every house [S] the cross-entropy with the teacher, summed over the steps of the wanted [N] episodes, divided by
    their number."""
    total = out.steps[0].logits.new_zeros(len(sizes))
    for step in out.steps:
        counts = step.active & wanted.index_select(0, step.row) & (step.teacher >= STOP)
        label = torch.where(counts, step.teacher, -100)
        each = cross_entropy(step.logits, label, reduction="none", ignore_index=-100)
        total = total + each.view(len(sizes), -1).sum(1)
    return total / torch.tensor(sizes, device=total.device).clamp(min=1)


def _by_reward(
    agent: StackedAgent,
    world: World,
    out: Walk,
    forced: Tensor,
    settings: ObjectiveSettings,
    dropouts: Sequence[Dropout],
) -> Tensor:
    """Of every house [S]: what its own critic makes of its decisions."""
    number = torch.arange(len(dropouts), device=world.device)
    house = number.repeat_interleave(len(forced) // len(dropouts))
    own = [(h, agent.agents[h].critic, dropout) for h, dropout in enumerate(dropouts)]
    last = [values_at_the_cut(critic, out, house == h, dropout) for h, critic, dropout in own]
    decided = decisions_of(world, out, forced, torch.stack(last).sum(0), settings)
    whose = house.index_select(0, decided.row)
    chosen = [Chosen(decided.counted & (whose == h)) for h, *_ in own]
    return torch.stack([a2c(critic, decided, chosen[h], settings, drop) for h, critic, drop in own])


def _stacked_episodes(parts: Sequence[Episodes], first_row: Sequence[int]) -> Episodes:
    """Mini-batches house by house, each with as many rows as the largest; rows beyond a house's own have no words."""
    rows, longest = max(map(len, parts)), max(p.tokens.shape[1] for p in parts)
    factors = [p.feature_factor for p in parts if p.feature_factor is not None]
    if len(factors) not in (0, len(parts)):
        raise ValueError("all houses of a step need environment dropout, or none")
    ways = any(p.way is not None for p in parts)
    stops = max(p.via.shape[1] for p in parts)

    def filled(x: Tensor, first: int = 0) -> Tensor:
        """[b, ..] -> [B, ..]: rows beyond are those of the first episode."""
        return torch.cat([x, x[:1].expand(rows - len(x), *x.shape[1:])]) + first

    def way(p: Episodes) -> Tensor:
        return torch.cat([p.via, p.goal[:, None].expand(-1, stops - p.via.shape[1])], 1)

    each = list(zip(parts, first_row, strict=True))
    tokens = [pad(p.tokens, (0, longest - p.tokens.shape[1], 0, rows - len(p))) for p in parts]
    return Episodes(
        tokens=torch.cat(tokens),
        length=torch.cat([pad(p.length, (0, rows - len(p))) for p in parts]),
        start=torch.cat([filled(p.start, first) for p, first in each]),
        start_view=torch.cat([filled(p.start_view) for p in parts]),
        goal=torch.cat([filled(p.goal, first) for p, first in each]),
        feature_factor=torch.cat([filled(f) for f in factors]) if factors else None,
        way=torch.cat([filled(way(p), first) for p, first in each]) if ways else None,
    )


def stacked_world(worlds: Sequence[World]) -> StackedWorld:
    """Tables of all, one world after another."""
    sizes = [len(w.candidate) for w in worlds]
    first_row = [sum(sizes[:h]) for h in range(len(worlds))]
    first_pair = [sum(len(w.teacher) for w in worlds[:h]) for h in range(len(worlds))]
    widest = max(w.candidate.shape[1] for w in worlds)

    def wide(x: Tensor) -> Tensor:
        """[n, k, ..] -> [n, K, ..]; what is added is never read: a house counts its candidates."""
        return torch.cat([x, x[:, :1].expand(-1, widest - x.shape[1], *x.shape[2:])], 1)

    each = list(zip(worlds, first_row, first_pair, strict=True))
    rows = [w.first_row[:-1] for w in worlds]
    world = World(
        scans=tuple(scan for w in worlds for scan in w.scans),
        first_row=(
            *(r + first for own, first in zip(rows, first_row, strict=True) for r in own),
            sum(sizes),
        ),
        candidate=torch.cat([wide(w.candidate) + first for w, first, _ in each]),
        candidate_view=torch.cat([wide(w.candidate_view) for w in worlds]),
        relative_angle=torch.cat([wide(w.relative_angle) for w in worlds]),
        candidate_count=torch.cat([w.candidate_count for w in worlds]),
        # A pair's place is its row's number and the goal's row, which is `first` more now.
        pair_row=torch.cat([w.pair_row + pairs - first for w, first, pairs in each]),
        teacher=torch.cat([w.teacher for w in worlds]),
        distance_m=torch.cat([w.distance_m for w in worlds]),
        views=torch.cat([w.views for w in worlds]),
        panorama_angle=worlds[0].panorama_angle,
        pose_angle=worlds[0].pose_angle,
    )
    return StackedWorld(world, first_row)
