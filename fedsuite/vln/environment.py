"""Vectorised navigation: whole batches of agents on index tables, no loop over episodes.

A World joins the tables of one or more houses. Viewpoints are global row numbers 0..N-1; a pair (viewpoint, goal) of one
house is found in flat pair tables. Everything is a gather, on CPU or GPU.

Action a of the B agents: 0 = stop, k = go to candidate k-1 of the viewpoint. After a move the camera looks where the
candidate was seen best; after a stop nothing changes (EnvDrop, Tan et al. 2019).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedsuite.vln.data.graph import HEADINGS, NUM_VIEWS, VIEW_STEP_RAD, Candidates, NavGraph

STOP = 0


def angle_feature(heading_rad: Tensor, elevation_rad: Tensor) -> Tensor:
    """[sin h, cos h, sin e, cos e] in a new last axis of 4."""
    return torch.stack(
        [heading_rad.sin(), heading_rad.cos(), elevation_rad.sin(), elevation_rad.cos()], -1
    )


@dataclass(frozen=True)
class World:
    """Tables of the joined houses. N panoramas, K candidates at most, F feature width.

    scans: house names; first_row: first global row per house, with N at the end;
    candidate [N, K] int64 target row (own row where padded); candidate_view [N, K] int64;
    relative_angle [12 N, K, 4] float32, angle feature of each candidate for each camera heading; candidate_count [N] int64;
    pair_row [N] int64 + goal = position in the flat pair tables; teacher [pairs] int64 action towards the goal
    (-1 unreachable); distance_m [pairs] float32; views [N, 36, F] float32.
    """

    scans: tuple[str, ...]
    first_row: tuple[int, ...]
    candidate: Tensor
    candidate_view: Tensor
    relative_angle: Tensor
    candidate_count: Tensor
    pair_row: Tensor
    teacher: Tensor
    distance_m: Tensor
    views: Tensor
    panorama_angle: Tensor  # [12, 36, 4]: directions of the views relative to each camera heading
    pose_angle: Tensor  # [36, 4]: absolute direction of each view

    @property
    def device(self) -> torch.device:
        """Where the tables live."""
        return self.views.device

    @property
    def feature_size(self) -> int:
        """F."""
        return self.views.shape[-1]

    def goal_distance_m(self, viewpoint: Tensor, goal: Tensor) -> Tensor:
        """Shortest-path length from each viewpoint to its goal [B], metres."""
        return self.distance_m.index_select(0, self.pair(viewpoint, goal))

    def teacher_action(self, viewpoint: Tensor, goal: Tensor) -> Tensor:
        """Next action on the shortest path [B]: stop at the goal, -1 where it cannot be reached."""
        return self.teacher.index_select(0, self.pair(viewpoint, goal))

    def pair(self, viewpoint: Tensor, goal: Tensor) -> Tensor:
        """Where each pair [B] is in the pair tables."""
        return self.pair_row.index_select(0, viewpoint) + goal

    def step(self, viewpoint: Tensor, view: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """New viewpoint and view [B] after `action` [B]."""
        slot = (action - 1).clamp_(min=0)
        moved = action > STOP
        flat = viewpoint * self.candidate.shape[1] + slot
        return (
            torch.where(moved, self.candidate.view(-1).index_select(0, flat), viewpoint),
            torch.where(moved, self.candidate_view.view(-1).index_select(0, flat), view),
        )

    def observe(self, viewpoint: Tensor, view: Tensor, width: int | None = None) -> "Surroundings":
        """What each of the B agents can do next; width: K, by default that of the busiest."""
        count = self.candidate_count.index_select(0, viewpoint)
        width = max(int(count.max()), 1) if width is None else width
        # [B, K] tables of the camera heading: angles relative to all 12 headings are precomputed.
        row = viewpoint * HEADINGS + view % HEADINGS
        return Surroundings(
            count=count,
            view=self.candidate_view[:, :width].index_select(0, viewpoint),
            angle=self.relative_angle[:, :width].index_select(0, row),
        )


@dataclass(frozen=True)
class Surroundings:
    """Candidates of B agents, trimmed to the K of the busiest: count [B], view [B, K], angle [B, K, 4] to the camera."""

    count: Tensor
    view: Tensor
    angle: Tensor

    @property
    def padding(self) -> Tensor:
        """[B, K], True where there is no candidate."""
        return torch.arange(self.view.shape[1], device=self.view.device) >= self.count.unsqueeze(1)


@dataclass(frozen=True)
class Episodes:
    """tokens [B, L] int64 padded with 0; length [B] int64 on the CPU; start, start_view, goal [B] int64.

    start and goal are rows of the World. feature_factor [B, F] multiplies all that an episode sees at all its steps and
    takes the place of feature dropout (environment dropout, Tan et al. 2019); None = ordinary feature dropout. way [B, M]:
    places that are to be visited in this order, from the start to the goal, which is repeated at the end; None = the goal
    alone matters.
    """

    tokens: Tensor
    length: Tensor
    start: Tensor
    start_view: Tensor
    goal: Tensor
    feature_factor: Tensor | None = None
    way: Tensor | None = None

    def __len__(self) -> int:
        return len(self.start)

    @property
    def via(self) -> Tensor:
        """The way [B, M], from the start straight to the goal where there is none."""
        return torch.stack([self.start, self.goal], 1) if self.way is None else self.way


@dataclass(frozen=True)
class Pursuit:
    """B walks along their ways (Jain et al. 2019 for R4R): what comes next, and what is left behind that.

    way [B, M] as in Episodes; reached [B]: the last place of it that was visited in order; beyond_m [B, M]: length of the
    way behind each place, metres.
    """

    way: Tensor
    reached: Tensor
    beyond_m: Tensor

    @property
    def next(self) -> Tensor:
        """Column [B] of the place that is to be visited next: the last one where all have been."""
        return (self.reached + 1).clamp(max=self.way.shape[1] - 1)

    @property
    def aim(self) -> Tensor:
        """Row of that place [B]."""
        return self.way.gather(1, self.next.unsqueeze(1)).squeeze(1)

    @property
    def rest_m(self) -> Tensor:
        """Length of the way behind it [B]."""
        return self.beyond_m.gather(1, self.next.unsqueeze(1)).squeeze(1)

    def rows(self, of: Callable[[Tensor], Tensor]) -> "Pursuit":
        """Some of them."""
        return Pursuit(of(self.way), of(self.reached), of(self.beyond_m))

    def moved(self, viewpoint: Tensor) -> "Pursuit":
        """After the walks have come to `viewpoint` [B]."""
        return replace(self, reached=torch.where(viewpoint == self.aim, self.next, self.reached))


def pursuit(world: World, way: Tensor) -> Pursuit:
    """At the start of the ways [B, M]."""
    legs = world.goal_distance_m(way[:, :-1].flatten(), way[:, 1:].flatten())
    legs = legs.view(len(way), -1)
    beyond = torch.cat([legs, legs.new_zeros(len(way), 1)], 1).flip(1).cumsum(1).flip(1)
    return Pursuit(way, torch.zeros_like(way[:, 0]), beyond)


def _teacher_table(graph: NavGraph, candidates: Candidates) -> np.ndarray:
    """Action towards every goal [P, P] int64."""
    hop = graph.next_hop
    action = np.full(hop.shape, -1, np.int64)
    for slot in range(candidates.viewpoint.shape[1]):
        target = candidates.viewpoint[:, slot : slot + 1]
        action[(target >= 0) & (hop == target)] = slot + 1
    np.fill_diagonal(action, STOP)
    return action


def build_world(
    graphs: Sequence[NavGraph],
    views: Sequence[np.ndarray],
    candidates: Sequence[Candidates] | None = None,
    device: str | torch.device = "cpu",
) -> World:
    """Join houses. views: one [P, 36, F] float32 array per graph (a memory map stays one if there is one house)."""
    tables = list(candidates) if candidates is not None else [g.candidates for g in graphs]
    sizes = [len(g.viewpoint_ids) for g in graphs]
    first = np.concatenate([[0], np.cumsum(sizes)])
    width = max(t.viewpoint.shape[1] for t in tables)
    rows = int(first[-1])
    target, view = np.arange(rows)[:, None].repeat(width, 1), np.zeros((rows, width), np.int64)
    angle, pair_row = np.zeros((rows, width, 2), np.float32), np.zeros(rows, np.int64)
    pairs = 0
    for size, table, start in zip(sizes, tables, first[:-1], strict=True):
        here, k = slice(start, start + size), table.viewpoint.shape[1]
        target[here, :k] = np.where(table.viewpoint >= 0, table.viewpoint + start, target[here, :k])
        view[here, :k] = table.view
        angle[here, :k] = np.stack([table.heading_rad, table.elevation_rad], -1)
        pair_row[here] = pairs + np.arange(size) * size - start
        pairs += size * size
    teacher = np.concatenate(
        [_teacher_table(g, t).ravel() for g, t in zip(graphs, tables, strict=True)]
    )
    distance = np.concatenate([g.distance_m.astype(np.float32).ravel() for g in graphs])
    panorama_angle = _panorama_angles().to(device)
    return World(
        scans=tuple(g.scan for g in graphs),
        first_row=tuple(int(f) for f in first),
        candidate=torch.from_numpy(target).to(device),
        candidate_view=torch.from_numpy(view).to(device),
        relative_angle=_relative_angles(torch.from_numpy(angle)).to(device),
        candidate_count=torch.from_numpy(np.concatenate([t.count for t in tables])).to(device),
        pair_row=torch.from_numpy(pair_row).to(device),
        teacher=torch.from_numpy(teacher).to(device),
        distance_m=torch.from_numpy(distance).to(device),
        views=torch.from_numpy(views[0] if len(views) == 1 else np.concatenate(views)).to(device),
        panorama_angle=panorama_angle,
        pose_angle=panorama_angle[0],
    )


def _relative_angles(angle_rad: Tensor) -> Tensor:
    """[N, K, 2] absolute heading and elevation -> [12 N, K, 4], row 12 n + h for camera heading h."""
    heading = angle_rad[:, None, :, 0] - VIEW_STEP_RAD * torch.arange(HEADINGS)[:, None]
    return angle_feature(heading, angle_rad[:, None, :, 1].expand_as(heading)).flatten(0, 1)


def _panorama_angles() -> Tensor:
    index = torch.arange(NUM_VIEWS)
    heading = (index % HEADINGS - torch.arange(HEADINGS)[:, None]) * VIEW_STEP_RAD
    elevation = ((index // HEADINGS - 1) * VIEW_STEP_RAD).expand_as(heading)
    return angle_feature(heading, elevation)
