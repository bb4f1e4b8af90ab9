"""A file of maps for a party without rewards: the maps, and where its own agent starts, in place of paths.

Rewards, the length of an episode's path and where the other agent is follow from paths (reader.py), so a party that is to
have none of these gets no path: `party` (beta or gamma), `maps` uint8 [M, N, N], `longest` (cells of the longest path, from
which the step limit follows), and for each rule of starts the start cells `exact_beta`, `shifted_beta` uint8 [M, 2], NO_CELL
in maps without a usable path. gamma sees where both agents stand (views.PositionView): its file has `exact_alpha` and
`shifted_alpha` too. alpha, whose rewards follow from all of it, has the whole file.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.fedrl.gridworld.maps import (
    NO_CELL,
    PATHS_PER_MAP,
    SPLITS,
    MapSet,
    OwnStarts,
    episodes,
)
from fedsuite.storage.files import write_atomically

AGENTS_OF = {"beta": ("beta",), "gamma": ("alpha", "beta")}  # whose starts a party's file has
RULES = ("exact", "shifted")
LEAST_MAPS = 20  # so that a tenth of them is a split


def check(holds: bool, complaint: str) -> None:
    """ValueError with the complaint unless something holds."""
    if not holds:
        raise ValueError(complaint)


def check_maps(maps: np.ndarray, size: int) -> int:
    """How many maps these are; ValueError if they are no maps of `size` x `size` cells."""
    count = len(maps) if maps.ndim else 0
    check(count >= LEAST_MAPS, f"expected at least {LEAST_MAPS} maps, got {count}")
    check(maps.dtype.kind in "iu", "maps: expected whole numbers")
    shape = (count, size, size)
    check(maps.shape == shape, f"maps: expected shape {shape}, got {maps.shape}")
    check(bool(((maps == 0) | (maps == 1)).all()), "maps: expected 0 and 1 only")
    ring = maps.sum(dtype=np.int64) - maps[:, 1:-1, 1:-1].sum(dtype=np.int64)
    check(int(ring) == 0, "maps: expected obstacles all around")
    return count


def write_own_maps(path: Path, maps: MapSet, party: str) -> None:
    """Write what `party` (beta or gamma) may have of a whole set of maps; InputError where a split has no usable path."""
    arrays: dict[str, Any] = {"party": np.array(party), "maps": maps.maps}
    arrays["longest"] = np.int64(maps.longest)
    for rule in RULES:
        for agent, told in _starts(maps, rule, AGENTS_OF[party]).items():
            arrays[f"{rule}_{agent}"] = told
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def _starts(maps: MapSet, rule: str, agents: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Start cells of these agents in every map, uint8 [M, 2]."""
    told = {agent: np.full((len(maps.maps), 2), NO_CELL, np.uint8) for agent in agents}
    for split in SPLITS:
        played = episodes(maps, split, rule)
        of_agent = {"alpha": played.alpha, "beta": played.beta}
        for agent, cells in told.items():
            cells[played.map_index] = of_agent[agent]
    return told


def decoded_own(arrays: Mapping[str, np.ndarray], size: int, name: str) -> MapSet:
    """The maps of such a file, without paths; ValueError or KeyError where it is damaged."""
    party = str(arrays["party"])
    check(party in AGENTS_OF, f"party: expected {' or '.join(AGENTS_OF)}, got {party[:20]!r}")
    maps, longest = arrays["maps"], arrays["longest"]
    check_maps(maps, size)
    check(longest.shape == () and longest.dtype.kind in "iu", "longest: expected a whole number")
    check(1 <= int(longest) <= size * size, f"longest: expected a path's cells, got {longest}")
    cells: dict[str, dict[str, np.ndarray]] = {}
    for rule in RULES:
        told = {agent: arrays[f"{rule}_{agent}"] for agent in AGENTS_OF[party]}
        for agent, found in told.items():
            _check_starts(found, f"{rule}_{agent}", maps, blocked=rule == "shifted")
        played = {found[:, 0].tobytes() for found in (t == NO_CELL for t in told.values())}
        check(len(played) == 1, f"{rule}: expected starts of all agents in the same maps")
        cells[rule] = {agent: found.astype(np.int64) for agent, found in told.items()}
    own = OwnStarts(party, int(longest), cells)
    paths = np.zeros((0, PATHS_PER_MAP), np.int64)
    return MapSet(maps.astype(np.uint8), paths, np.zeros(0, np.int32), name, own)


def _check_starts(cells: np.ndarray, name: str, maps: np.ndarray, blocked: bool) -> None:
    """ValueError unless these are start cells [M, 2]; blocked: a start may lie in an obstacle (maps.episodes)."""
    shape = (len(maps), 2)
    check(cells.dtype.kind in "iu", f"{name}: expected whole numbers")
    check(cells.shape == shape, f"{name}: expected shape {shape}, got {cells.shape}")
    played = np.flatnonzero(cells[:, 0] != NO_CELL)
    row, column = cells[played].T.astype(np.int64)
    inside = (np.minimum(row, column) >= 1) & (np.maximum(row, column) <= maps.shape[1] - 2)
    check(bool(inside.all()), f"{name}: a start lies outside of its map")
    check(blocked or bool(maps[played, row, column].all()), f"{name}: a start lies in an obstacle")
