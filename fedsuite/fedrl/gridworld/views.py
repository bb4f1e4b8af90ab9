"""What each party sees of Grid-World (Zhuo et al. 2019): windows around its agent, or where the agents stand.

Symbols: E envs; B records; H history; w side of a window; N cells a side; k step of an episode, from 1.
A record of a window view is the agent's trail: its last H places, oldest first (int32 [H]; `nowhere` before the
start). The network's input is the stack of the windows around these places, float32 [B, H, w, w], 1 = free.

first_frame "missing" stores what the published code's replay gives back: frames are those made after steps
1, 2, ..., the one before step 1 is lost. Before step k: frames max(1, k-H)..k-1. After it: frames k-H+1..k, but
2..k as long as k <= H. What is not there is `nowhere`, in front.
"""

from collections.abc import Mapping

import numpy as np
import torch

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.fedrl.gridworld.maps import Episodes
from fedsuite.fedrl.gridworld.walkers import Ground, check_actions, walk
from fedsuite.fedrl.worlds import IDLE, Remembering

ALPHA, BETA = 0, 1
UNKNOWN = -1  # a coordinate of a position record that does not exist


class WindowLookup:
    """Windows of side w <= 8 around places, row by row: codes of a row's w cells, then a table of codes.

    codes: uint8 [places], bit j = cell (same row, column + j - w // 2); rows: what leads to the w rows [w].
    """

    def __init__(self, ground: Ground, side: int) -> None:
        if side % 2 == 0 or not 1 <= side <= 2 * ground.pad + 3 or side > 7:
            raise ValueError(f"expected an odd side of at most 7 that the margin holds, got {side}")
        self.side, reach = side, side // 2
        self.codes = np.zeros_like(ground.free)
        for bit in range(side):
            self.codes |= np.roll(ground.free, reach - bit) << np.uint8(bit)
        self.rows = ((np.arange(side) - reach) * ground.side).astype(np.int32)
        bits = np.arange(2**side)[:, None] >> np.arange(side)
        self.table = (bits & 1).astype(np.float32)

    def windows(self, places: np.ndarray) -> torch.Tensor:
        """Windows around places [...]: float32 [..., w, w]."""
        codes = self.codes[places[..., None] + self.rows]
        return torch.from_numpy(self.table.take(codes, axis=0))


class WindowView(Remembering):
    """One agent's own view: the last H windows around it. agent: ALPHA or BETA."""

    remembered = ("trail", "steps")

    def __init__(
        self,
        ground: Ground,
        lookup: WindowLookup,
        played: Episodes,
        agent: int,
        envs: int,
        history: int,
        missing_first: bool,
    ) -> None:
        self.ground, self.lookup, self.missing_first = ground, lookup, missing_first
        self.starts = ground.places(
            played.map_index, played.alpha if agent == ALPHA else played.beta
        )
        self.hops = ground.hops(agent)
        self._trail = np.full((envs, history), ground.nowhere, np.int32)
        self._steps = np.zeros(envs, np.int32)  # taken in the env's episode
        self._frames = np.arange(1 - history, 1, dtype=np.int32)  # number of each frame, less steps

    def begin(self, envs: np.ndarray, episodes: np.ndarray) -> None:
        self._trail = self._trail.copy()  # records already given away stay as they are
        self._trail[envs] = self.ground.nowhere
        self._trail[envs, -1] = self.starts[episodes]
        self._steps[envs] = 0

    def records(self) -> np.ndarray:
        """Trails now, int32 [E, H]."""
        return self._trail

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Carry out joint actions [E]; trails to be stored, of before and after."""
        check_actions(actions, len(self._trail))
        before, idle = self._trail, actions == IDLE
        place, _ = walk(self.ground, before[:, -1], self.hops, actions)
        after = np.concatenate([before[:, 1:], place[:, None]], axis=1)
        if idle.any():
            after[idle] = before[idle]
        self._trail = after
        self._steps += ~idle
        if not self.missing_first:
            return before, after
        frames = self._steps[:, None] + self._frames
        return self._kept(before, frames - 1 >= 1), self._kept(after, frames >= 2)

    def _kept(self, trail: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return np.where(seen, trail, np.int32(self.ground.nowhere))

    def inputs(self, records: np.ndarray) -> tuple[torch.Tensor, ...]:
        """Windows of trails [B, H]: (float32 [B, H, w, w],)."""
        return (self.lookup.windows(records),)


class FullView:
    """Both agents' windows; a record is alpha's trail and then beta's, int32 [2 H]."""

    def __init__(self, alpha: WindowView, beta: WindowView) -> None:
        self.parts = {"alpha.": alpha, "beta.": beta}

    def begin(self, envs: np.ndarray, episodes: np.ndarray) -> None:
        for part in self.parts.values():
            part.begin(envs, episodes)

    def records(self) -> np.ndarray:
        """Trails now, int32 [E, 2 H]."""
        return np.concatenate([part.records() for part in self.parts.values()], axis=1)

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Carry out joint actions [E]; trails to be stored, of before and after."""
        moved = [part.move(actions) for part in self.parts.values()]
        before, after = (np.concatenate([m[i] for m in moved], axis=1) for i in range(2))
        return before, after

    def inputs(self, records: np.ndarray) -> tuple[torch.Tensor, ...]:
        """(alpha's windows, beta's), float32 [B, H, w, w] each."""
        halves = np.split(records, 2, axis=1)
        return tuple(
            window
            for part, half in zip(self.parts.values(), halves, strict=True)
            for window in part.inputs(half)
        )

    def state(self) -> Arrays:
        alpha, beta = (with_prefix(part.state(), prefix) for prefix, part in self.parts.items())
        return alpha | beta

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        for prefix, part in self.parts.items():
            part.restore(under_prefix(state, prefix))


class PositionView(Remembering):
    """The third party: it knows where the agents stand to each other, and nothing of what is around them.

    A record is alpha's row minus beta's and the same for columns, each plus N - 1: int32 [2] in 0..2N-2.
    The input is one-hot of both, float32 [B, 2 * (2N - 1)].
    """

    remembered = ("places", "steps")

    def __init__(self, ground: Ground, played: Episodes, envs: int, missing_first: bool) -> None:
        self.ground, self.missing_first = ground, missing_first
        cells = (played.alpha, played.beta)
        self.starts = np.stack([ground.places(played.map_index, c) for c in cells], axis=1)
        self.hops = (ground.hops(ALPHA), ground.hops(BETA))
        self._places = np.full((envs, 2), ground.nowhere, np.int32)
        self._steps = np.zeros(envs, np.int32)

    def begin(self, envs: np.ndarray, episodes: np.ndarray) -> None:
        self._places[envs] = self.starts[episodes]
        self._steps[envs] = 0

    def records(self) -> np.ndarray:
        """Differences now, int32 [E, 2]."""
        apart = self.ground.apart(self._places[:, 0], self._places[:, 1])
        return np.stack(apart, axis=1) + np.int32(self.ground.size - 1)

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Carry out joint actions [E]; differences to be stored, of before and after."""
        check_actions(actions, len(self._places))
        before = self.records()
        walked = [walk(self.ground, self._places[:, i], self.hops[i], actions)[0] for i in (0, 1)]
        self._places = np.stack(walked, axis=1)
        self._steps += actions != IDLE
        after = self.records()
        if self.missing_first:
            unseen = self._steps <= 1
            before[unseen] = UNKNOWN
            after[unseen] = UNKNOWN
        return before, after

    def inputs(self, records: np.ndarray) -> tuple[torch.Tensor, ...]:
        """One-hot rows and columns of differences [B, 2]; zeros for what is unknown."""
        span = 2 * self.ground.size - 1
        hot = records[:, :, None] == np.arange(span, dtype=np.int32)
        return (torch.from_numpy(hot.reshape(len(records), 2 * span).astype(np.float32)),)
