"""Maps with shortest paths, and the episodes that are played on them (Zhuo et al. 2019, Grid-World).

Symbols: M maps; N cells a side, outer ring of obstacles included; K = 8 paths per map at most; T_m step
limit. Cells are (row, col), 0-based; a *cell index* is row * N + col. All paths of a map end in one cell.
Alpha starts at the first cell of a path, beta at its last.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsuite.errors import InputError
from fedsuite.fedrl.worlds import Split

PATHS_PER_MAP = 8
NO_CELL = 255  # a coordinate, in files, of what does not exist
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
SHARES = {"train": (0, 8), "valid": (8, 9), "test": (9, 10)}  # tenths of the maps, by index


@dataclass(frozen=True)
class OwnStarts:
    """What the file of a party without rewards tells in place of paths (own_maps.py).

    party: whose it is; longest: cells of the longest path; cells: by rule of starts and agent, int64 [M, 2] (row, col),
    NO_CELL in maps that are not played.
    """

    party: str
    longest: int
    cells: Mapping[str, Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class MapSet:
    """maps: uint8 [M, N, N], 1 = free; path_len: int64 [M, K] cells of a path, ends included, 0 = no path;
    cells: int32 [sum of path_len] cell indices of all paths, map by map; name: where it came from; own: None = whole.
    The file of a party without rewards has no paths: path_len is [0, K], cells [0]."""

    maps: np.ndarray
    path_len: np.ndarray
    cells: np.ndarray
    name: str
    own: OwnStarts | None = None

    @property
    def size(self) -> int:
        """N: cells a side."""
        return int(self.maps.shape[1])

    @property
    def party(self) -> str:
        """Whose file it is; "" for a whole one."""
        return self.own.party if self.own else ""

    @property
    def longest(self) -> int:
        """Cells of the longest path."""
        return self.own.longest if self.own else int(self.path_len.max())

    @cached_property
    def first_cell(self) -> np.ndarray:
        """Where path (m, k) begins in `cells`, int64 [M, K]."""
        ends = np.cumsum(self.path_len.ravel())
        return (ends - self.path_len.ravel()).reshape(self.path_len.shape)

    def rows_of(self, split: Split) -> slice:
        low, high = (len(self.maps) * tenth // 10 for tenth in SHARES[split])
        return slice(low, high)


@dataclass(frozen=True)
class Episodes:
    """The episodes of a split, one per map with a usable path; all int64.

    map_index [n]; alpha, beta [n, 2] start cells (row, col); path_len [n]; first_cell [n]: where the
    episode's path begins in MapSet.cells. What a party's own file does not tell has no rows.
    """

    map_index: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    path_len: np.ndarray
    first_cell: np.ndarray

    def __len__(self) -> int:
        return len(self.map_index)


def episodes(maps: MapSet, split: Split, starts: str) -> Episodes:
    """The first usable path of every map of a split; maps without one are left out.

    starts "exact": both ends as stored. "shifted": both one down and to the right, as in the published code,
    which reads 1-based coordinates as 0-based; a path whose shifted end leaves 1..N-2 is not usable; one that
    begins inside an obstacle is.
    """
    rows = maps.rows_of(split)
    if maps.own is not None:
        return _own_episodes(maps.own, rows, starts)
    length, first = maps.path_len[rows], maps.first_cell[rows]
    found = length > 0
    shift = 0 if starts == "exact" else 1
    # Paths of no cells may point one past the end of `cells`; they are masked by `found`.
    padded = np.append(maps.cells, [0])
    ends = [np.where(found, at, 0) for at in (first, first + length - 1)]
    alpha, beta = (
        np.stack(np.divmod(padded[at], maps.size), axis=-1).astype(np.int64) + shift for at in ends
    )
    usable = found & (np.maximum(alpha, beta).max(axis=-1) <= maps.size - 2)
    index = np.flatnonzero(usable.any(axis=1))
    if not index.size:
        raise InputError(
            f"{maps.name}: expected a usable path in the {split} split (starts = {starts}),"
            f" found none in its {len(length)} maps; use more maps or less obstructed ones"
        )
    pick = usable[index].argmax(axis=1)
    return Episodes(
        index + rows.start,
        alpha[index, pick],
        beta[index, pick],
        length[index, pick],
        first[index, pick],
    )


def _own_episodes(own: OwnStarts, rows: slice, starts: str) -> Episodes:
    """The same episodes, of a file that tells some agents' starts alone."""
    cells = {agent: told[rows] for agent, told in own.cells[starts].items()}
    index = np.flatnonzero(cells["beta"][:, 0] != NO_CELL)
    alpha = cells["alpha"][index] if "alpha" in cells else np.zeros((0, 2), np.int64)
    nothing = np.zeros(0, np.int64)
    return Episodes(index + rows.start, alpha, cells["beta"][index], nothing, nothing)


def shared_digest(maps: MapSet, played: Mapping[Split, Episodes]) -> str:
    """Names what every party has: the maps, those that are played, and where beta starts. Parties that differ in it must
    not train together."""
    return _digest(maps, [a for s in SPLITS for a in (played[s].map_index, played[s].beta)])


def digest(maps: MapSet, played: Mapping[Split, Episodes]) -> str:
    """Names maps and starts of a whole file."""
    of_split = ((p.map_index, p.alpha, p.beta) for p in (played[s] for s in SPLITS))
    return _digest(maps, [array for arrays in of_split for array in arrays])


def _digest(maps: MapSet, arrays: Iterable[np.ndarray]) -> str:
    total = hashlib.sha256(np.ascontiguousarray(maps.maps).tobytes())
    for array in arrays:
        total.update(array.astype("<i8").tobytes())
    return total.hexdigest()[:16]
