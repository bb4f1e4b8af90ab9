"""Maps with shortest paths, and the episodes that are played on them (Zhuo et al. 2019, Grid-World).

Symbols: M maps; N cells a side, outer ring of obstacles included; K = 8 paths per map at most; T_m step
limit. Cells are (row, col), 0-based; a *cell index* is row * N + col. All paths of a map end in one cell.
Alpha starts at the first cell of a path, beta at its last.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsuite.errors import InputError
from fedsuite.fedrl.worlds import Split

PATHS_PER_MAP = 8
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
SHARES = {"train": (0, 8), "valid": (8, 9), "test": (9, 10)}  # tenths of the maps, by index


@dataclass(frozen=True)
class MapSet:
    """maps: uint8 [M, N, N], 1 = free; path_len: int64 [M, K] cells of a path, ends included, 0 = no path;
    cells: int32 [sum of path_len] cell indices of all paths, map by map; name: where it came from."""

    maps: np.ndarray
    path_len: np.ndarray
    cells: np.ndarray
    name: str

    @property
    def size(self) -> int:
        """N: cells a side."""
        return int(self.maps.shape[1])

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
    episode's path begins in MapSet.cells.
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


def digest(maps: MapSet, played: dict[Split, Episodes]) -> str:
    """Names maps and starts: parties that play on different ones must not train together."""
    total = hashlib.sha256(np.ascontiguousarray(maps.maps).tobytes())
    for split in SPLITS:
        part = played[split]
        for array in (part.map_index, part.alpha, part.beta):
            total.update(array.astype("<i8").tobytes())
    return total.hexdigest()[:16]
