"""A played episode of Grid-World: the map, where both agents stood, what each party saw (Zhuo et al. 2019)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.fedrl.episode import Episode, Step
from fedsuite.fedrl.gridworld.walkers import NUM_MOVES
from fedsuite.fedrl.gridworld.world import AGENTS, GridWorld

MOVE_NAMES = ("left", "right", "up", "down")
SEEN_BY: Mapping[str, tuple[str, ...]] = {
    "alpha": ("alpha",), "beta": ("beta",), "full": ("alpha", "beta"), "gamma": ()
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class GridEpisode(Episode):
    """T steps. grid: uint8 [N, N], 1 = free; cells: int [T + 1, 2, 2], (row, col) of alpha and beta before each step and at
    the end, each of whom is the other's target; windows: float32 [T, H, w, w] by agent, 1 = free, newest last: what the
    parties saw; optimum: steps in which the agents can meet on their path."""

    grid: np.ndarray
    cells: np.ndarray
    windows: Mapping[str, np.ndarray]
    optimum: int

    @property
    def met(self) -> bool:
        return self.scores["success-rate"] == 1


def moves_of(action: int) -> tuple[str, str]:
    """Alpha's move and beta's in a joint action."""
    return MOVE_NAMES[action // NUM_MOVES], MOVE_NAMES[action % NUM_MOVES]


def grid_episode(
    world: GridWorld,
    number: int,
    row: int,
    steps: Sequence[Step],
    roles: Sequence[str],
    scores: Mapping[str, float],
) -> GridEpisode:
    """Row `row` of the test split, walked again by the actions of `steps`; roles: parties of the run."""
    seen = {agent for role in roles for agent in SEEN_BY[role]}
    cells, windows = [], {}
    for agent in AGENTS:
        view = world.view("alpha" if agent == "alpha" else "beta", "test", 1)
        view.begin(np.zeros(1, np.int64), np.array([row]))
        trail, frames = [view.records()[0, -1]], []
        for step in steps:
            frames.append(view.inputs(view.records())[0][0].numpy())
            view.move(np.array([step.action]))
            trail.append(view.records()[0, -1])
        cells.append(world.ground.cells(np.array(trail)))
        if agent in seen:
            windows[agent] = np.stack(frames)
    played = world.episodes["test"]
    grid = world.maps.maps[played.map_index[row]]
    optimum = int(played.path_len[row] // 2)
    return GridEpisode(
        number, tuple(steps), scores, grid, np.stack(cells, axis=1), windows, optimum
    )
