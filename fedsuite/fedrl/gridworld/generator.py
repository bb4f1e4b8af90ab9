"""Generated maps whose statistics are those of the published ones (Zhuo et al. 2019, Grid-World).

A map of N x N cells: draw k uniformly from 0..most_obstacles(N), then k obstacles, each at a uniform interior
cell; from N = 16 on, half of them are a plus (the cell and its four neighbours, cut at the ring). A goal at a
free cell; up to 8 different free starts; the 4-connected shortest path of each to the goal, if there is one.
Shortest paths: one wave from all goals at once, then all starts walk down the distances at once.
"""

from pathlib import Path

import numpy as np

from fedsuite.fedrl.gridworld.maps import PATHS_PER_MAP
from fedsuite.fedrl.gridworld.reader import write_maps
from fedsuite.randomness import rng_for
from fedsuite.storage.progress import Progress, silent

GENERATOR_VERSION = 1  # raise it when generated maps change, so that cached ones are made anew
BLOCK = 250  # maps per random stream: more maps leave the earlier ones as they were
PLUS_FROM = 16
MOST_OBSTACLES = ((8, 14), (16, 40), (32, 90))  # N and the most obstacles drawn
UNREACHED = -1


def most_obstacles(size: int) -> int:
    """Linear between the published sizes and, with the last slope, beyond; below 8 in proportion to the interior."""
    (small, least), *_ = MOST_OBSTACLES
    if size < small:
        return round(least * ((size - 2) / (small - 2)) ** 2)
    (n0, k0), (n1, k1) = MOST_OBSTACLES[:2] if size < MOST_OBSTACLES[1][0] else MOST_OBSTACLES[1:]
    return round(k0 + (k1 - k0) * (size - n0) / (n1 - n0))


def draw_maps(count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Maps uint8 [count, N, N], 1 = free."""
    most = most_obstacles(size)
    number = rng.integers(0, most + 1, count)
    at = rng.integers(1, size - 1, (count, most, 2))
    plus = rng.random((count, most)) < (0.5 if size >= PLUS_FROM else 0.0)
    drawn = np.arange(most) < number[:, None]
    maps = np.zeros((count, size, size), np.uint8)
    maps[:, 1:-1, 1:-1] = 1
    for hop, chosen in (
        ((0, 0), drawn), ((-1, 0), drawn & plus), ((1, 0), drawn & plus),
        ((0, -1), drawn & plus), ((0, 1), drawn & plus),
    ):  # fmt: skip
        which, _ = np.nonzero(chosen)
        row, col = (at + hop)[chosen].T
        maps[which, row, col] = 0
    return maps


def draw_ends(
    maps: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts [M, 8] and goal [M] as cell indices, and which starts exist [M, 8]."""
    flat = maps.reshape(len(maps), -1) > 0
    order = np.argsort(np.where(flat, rng.random(flat.shape), 2.0), axis=1)[:, :PATHS_PER_MAP]
    goal = np.where(flat, rng.random(flat.shape), -1.0).argmax(axis=1)
    starts = np.zeros((len(maps), PATHS_PER_MAP), np.int64)
    starts[:, : order.shape[1]] = order
    exists = np.arange(PATHS_PER_MAP) < flat.sum(axis=1, keepdims=True)
    return starts, goal, exists


def distances(maps: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Moves from every cell to its map's goal, int32 [M * N * N]; UNREACHED for obstacles and closed-off cells."""
    size = maps.shape[1]
    # Obstacles count as visited, so that the ring keeps the wave inside its map.
    away = np.where(maps.ravel() > 0, UNREACHED, UNREACHED - 1).astype(np.int32)
    front = np.arange(len(maps)) * size * size + goal
    front = front[away[front] == UNREACHED]
    away[front] = 0
    mark = np.zeros(len(away), np.int64)
    hops, moves = np.array([-size, size, -1, 1]), 0
    while front.size:
        moves += 1
        reached = (front[:, None] + hops).ravel()
        reached = reached[away[reached] == UNREACHED]
        mark[reached] = np.arange(len(reached))
        front = reached[mark[reached] == np.arange(len(reached))]  # each cell once
        away[front] = moves
    return np.maximum(away, UNREACHED)


def walk_down(away: np.ndarray, start: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Shortest paths from cells [P] of the joined maps: lengths in cells [P] and all moves (codes 0..3) in a row.

    Of equally short ways the first of the four moves is taken.
    """
    hops = np.array([-size, size, -1, 1])
    length = away[start].astype(np.int64) + 1
    moves = np.maximum(length - 1, 0)
    offset = np.cumsum(moves) - moves
    codes = np.zeros(int(moves.sum()), np.uint8)
    at, left = start.copy(), np.flatnonzero(moves > 0)
    for step in range(int(moves.max(initial=0))):
        left = left[moves[left] > step]
        near = at[left, None] + hops
        code = (away[near] == (away[at[left]] - 1)[:, None]).argmax(axis=1)
        codes[offset[left] + step] = code
        at[left] = near[np.arange(len(left)), code]
    return length, codes


def generate_block(block: int, size: int, seed: int) -> tuple[np.ndarray, ...]:
    """Maps [BLOCK, N, N], path lengths [BLOCK, 8], ends [BLOCK, 8, 2, 2] and the moves of each path in a row."""
    rng = rng_for(seed, f"maps-{size}", partition=block)
    maps = draw_maps(BLOCK, size, rng)
    starts, goal, exists = draw_ends(maps, rng)
    base = np.arange(BLOCK)[:, None] * size * size
    away = distances(maps, goal)
    # A start that does not exist stands on a corner of its map, which nothing reaches.
    length, codes = walk_down(away, (base + np.where(exists, starts, 0)).ravel(), size)
    ends = np.stack([starts, np.broadcast_to(goal[:, None], starts.shape)], axis=-1)
    places = np.stack(np.divmod(ends, size), axis=-1)
    return maps, length.reshape(starts.shape), places, codes


def write_generated(
    path: Path, count: int, size: int, seed: int, progress: Progress = silent
) -> None:
    """`count` maps into one file; map k depends on (seed, N, k) alone."""
    blocks = []
    for block in range(-(-count // BLOCK)):
        blocks.append(generate_block(block, size, seed))
        progress(f"generated maps of {size} x {size} cells", min((block + 1) * BLOCK, count), count)
    maps, length, ends = (np.concatenate([b[i] for b in blocks])[:count] for i in range(3))
    moves = int(np.maximum(length - 1, 0).sum())
    codes = np.concatenate([b[3] for b in blocks])[:moves]
    write_maps(path, maps, length, ends, codes)
