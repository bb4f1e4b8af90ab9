"""Files of maps, frl_grid_<N>.npz: the published maps converted, or generated ones.

maps uint8 [M, N, N] (1 free, ring of obstacles); path_len [M, 8] cells of path k (0 = none); path_start,
path_end [M, 8, 2] (row, col); moves2bit uint8 [ceil(n_moves / 4)]: all moves of all paths, map by map, 2 bits
each, lowest first: 0 (-1,0), 1 (+1,0), 2 (0,-1), 3 (0,+1); n_moves = sum of max(path_len - 1, 0).
path_start and path_end of paths that do not exist are NO_CELL. A party's own file (own_maps.py) has the same name.
"""

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedsuite.errors import InputError
from fedsuite.fedrl.gridworld.maps import NO_CELL, PATHS_PER_MAP, MapSet
from fedsuite.fedrl.gridworld.own_maps import check, check_maps, decoded_own
from fedsuite.storage.files import check_readable, write_atomically

ARRAYS = ("maps", "path_len", "path_start", "path_end", "moves2bit", "n_moves")


def file_of(data_dir: Path, size: int) -> Path:
    """Where maps of `size` x `size` cells lie."""
    return data_dir / f"frl_grid_{size}.npz"


def load_maps(data_dir: Path, size: int) -> MapSet:
    """The maps of `size` x `size` cells in a folder of frl_grid_<N>.npz."""
    path = file_of(data_dir, size)
    if not path.is_file():
        there = sorted(int(p.stem.rsplit("_", 1)[1]) for p in data_dir.glob("frl_grid_*.npz")
                       if p.stem.rsplit("_", 1)[1].isdecimal())  # fmt: skip
        have = f"the folder has sizes {', '.join(map(str, there))}" if there else "it has no maps"
        raise InputError(
            f"{path}: no such file, and {have}; choose another world.grid-size, or empty data.dir to"
            f" generate maps"
        )
    return read_maps(path, size, "restore it, or empty data.dir to generate maps")


def read_maps(path: Path, size: int, cure: str) -> MapSet:
    """One file, checked whole; every complaint names the file and ends in `cure`. size: 0 = as the file has it."""
    check_readable(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            size = size or int(np.atleast_1d(file["maps"]).shape[-1])
            if "party" in file.files:
                return decoded_own({name: file[name] for name in file.files}, size, str(path))
            arrays = {name: file[name] for name in ARRAYS}
        return _decoded(arrays, size, str(path))
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: not a readable file of maps ({reason}); {cure}") from error


def _check_forms(arrays: Mapping[str, np.ndarray], size: int) -> None:
    count = check_maps(arrays["maps"], size)
    shapes = {
        "path_len": (count, PATHS_PER_MAP),
        "path_start": (count, PATHS_PER_MAP, 2),
        "path_end": (count, PATHS_PER_MAP, 2),
        "n_moves": (),
    }
    for name in ARRAYS:
        check(arrays[name].dtype.kind in "iu", f"{name}: expected whole numbers")
    for name, shape in shapes.items():
        got = arrays[name].shape
        check(got == shape, f"{name}: expected shape {shape}, got {got}")
    moves = int(np.maximum(arrays["path_len"].astype(np.int64) - 1, 0).sum())
    check(int(arrays["path_len"].min()) >= 0, "path_len: expected no negative number")
    check(int(arrays["n_moves"]) == moves, f"n_moves: expected {moves}, got {arrays['n_moves']}")
    got = arrays["moves2bit"].shape
    check(got == (-(-moves // 4),), f"moves2bit: expected shape ({-(-moves // 4)},), got {got}")


def _decoded(arrays: Mapping[str, np.ndarray], size: int, name: str) -> MapSet:
    """Paths as cells; each must start and end where the file says and keep to free cells."""
    _check_forms(arrays, size)
    length = arrays["path_len"].astype(np.int64)
    found = length > 0
    flat = length[found]
    first = np.cumsum(flat) - flat
    codes = (arrays["moves2bit"][:, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
    hops = np.zeros(int(flat.sum()), np.int64)
    is_move = np.ones(len(hops), bool)
    is_move[first] = False
    hops[is_move] = np.array([-size, size, -1, 1])[codes.ravel()[: int(is_move.sum())]]
    start, end = (
        arrays[key][found].astype(np.int64) @ np.array([size, 1])
        for key in ("path_start", "path_end")
    )
    walked = np.cumsum(hops)
    cells = walked + np.repeat(start - walked[first], flat) if len(hops) else walked
    owner = np.repeat(np.nonzero(found)[0], flat)
    inside = bool(((cells >= 0) & (cells < size * size)).all())
    check(inside, "a path leaves its map")
    free = arrays["maps"].reshape(len(length), -1)[owner, cells]
    check(bool(free.all()), "a path runs through an obstacle")
    check(bool((cells[first + flat - 1] == end).all()), "a path does not end at its path_end")
    return MapSet(arrays["maps"].astype(np.uint8), length, cells.astype(np.int32), name)


def write_maps(
    path: Path, maps: np.ndarray, length: np.ndarray, ends: np.ndarray, codes: np.ndarray
) -> None:
    """Write a file that `read_maps` reads. ends: [M, 8, 2, 2] (start or end, row or col); codes: [n_moves]."""
    kind = np.uint8 if int(length.max()) <= 255 else np.uint16
    found = (length > 0)[:, :, None]
    filled = np.append(codes, np.zeros(-len(codes) % 4, codes.dtype)).astype(np.uint8)
    packed = filled.reshape(-1, 4) << np.array([0, 2, 4, 6], np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        maps=maps.astype(np.uint8),
        path_len=length.astype(kind),
        path_start=np.where(found, ends[:, :, 0], NO_CELL).astype(np.uint8),
        path_end=np.where(found, ends[:, :, 1], NO_CELL).astype(np.uint8),
        moves2bit=np.bitwise_or.reduce(packed, axis=1),
        n_moves=np.int64(len(codes)),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
