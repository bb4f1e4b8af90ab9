"""How agents stand and move: all maps in one flat array, all envs at once (Zhuo et al. 2019, Grid-World).

Symbols: M maps; N cells a side; S = N + 2 * pad; E envs; u joint action 0..15: alpha's move is u div 4, beta's u mod 4.
Moves as (row, col): 0 (0,-1), 1 (0,+1), 2 (-1,0), 3 (+1,0). A *place* is an index into the flat array
[(M + 1) * S * S] of padded maps, so that a move adds one number. The last map is empty of free cells: its
middle, `nowhere`, is where an observation that does not exist was made.
"""

from dataclasses import dataclass

import numpy as np

from fedsuite.fedrl import actions
from fedsuite.fedrl.worlds import IDLE

NUM_MOVES = 4
NUM_ACTIONS = actions.NUM_ACTIONS["gridworld"]
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))


@dataclass(frozen=True)
class Ground:
    """free: uint8 [(M + 1) * S * S], 1 = free; size N; pad: cells of margin on each side."""

    free: np.ndarray
    size: int
    pad: int

    @property
    def side(self) -> int:
        """S: cells a side of a padded map."""
        return self.size + 2 * self.pad

    @property
    def nowhere(self) -> int:
        """Middle of the map without free cells."""
        middle = self.side // 2
        return len(self.free) - self.side**2 + middle * self.side + middle

    def places(self, map_index: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """Places of cells (row, col) [..., 2] on maps [...]."""
        row, col = cells[..., 0] + self.pad, cells[..., 1] + self.pad
        return ((map_index * self.side + row) * self.side + col).astype(np.int32)

    def cells(self, places: np.ndarray) -> np.ndarray:
        """Cells (row, col) [..., 2] of places [...], on whichever map they are."""
        row, col = np.divmod(places % self.side**2, self.side)
        return np.stack([row, col], axis=-1) - self.pad

    def hops(self, agent: int) -> np.ndarray:
        """What joint action u adds to the place of agent 0 (alpha) or 1 (beta) [17]; the last entry, IDLE's, is 0."""
        hop = np.array([row * self.side + col for row, col in MOVES], np.int32)
        moves = np.arange(NUM_ACTIONS)
        moves = moves // NUM_MOVES if agent == 0 else moves % NUM_MOVES
        return np.append(hop[moves], np.int32(0))

    def apart(self, alpha: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Alpha's row minus beta's, and the same for columns, of places on the same maps."""
        rows = alpha // self.side - beta // self.side
        return rows, alpha - beta - rows * self.side


def make_ground(maps: np.ndarray, widest_window: int) -> Ground:
    """Pad maps [M, N, N] so that a window around an interior cell never leaves its map."""
    count, size, _ = maps.shape
    pad = max(0, widest_window // 2 - 1)  # the ring is one cell of margin already
    side = size + 2 * pad
    free = np.zeros((count + 1, side, side), np.uint8)
    free[:count, pad : pad + size, pad : pad + size] = maps
    return Ground(free.ravel(), size, pad)


def check_actions(actions: np.ndarray, envs: int) -> None:
    """ValueError unless there is one joint action, or IDLE, per env."""
    if actions.shape != (envs,):
        raise ValueError(f"expected joint actions of shape ({envs},), got {actions.shape}")
    if envs and not (int(actions.min()) >= IDLE and int(actions.max()) < NUM_ACTIONS):
        raise ValueError(
            f"joint actions must be {IDLE} (idle) to {NUM_ACTIONS - 1}, got"
            f" {int(actions.min())} to {int(actions.max())}"
        )


def walk(
    ground: Ground, places: np.ndarray, hops: np.ndarray, actions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """New places [E], and 1 where the cell that was aimed at is free, else 0 [E]; whoever is blocked stays."""
    hop = hops[actions]
    free = ground.free[places + hop]
    return places + hop * free, free
