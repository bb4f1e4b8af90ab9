"""Worlds of several houses as one, and a mini-batch of each as one, house by house with as many rows for each."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedsuite.vln.environment import Episodes, World


@dataclass(frozen=True)
class StackedWorld:
    """The worlds of S houses as one; first_row [S]: where the rows of each begin."""

    world: World
    first_row: list[int]


def stacked_episodes(parts: Sequence[Episodes], first_row: Sequence[int], rows: int) -> Episodes:
    """Mini-batches house by house, each with so many rows; those beyond a house's own have no words."""
    longest = max(p.tokens.shape[1] for p in parts)
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
