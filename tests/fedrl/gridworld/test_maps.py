"""Maps of Grid-World: the published files, generated sets, shortest paths, usable episodes, complaints."""

from collections import deque
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.generator import BLOCK, most_obstacles, write_generated
from fedsuite.fedrl.gridworld.maps import SPLITS, MapSet, episodes
from fedsuite.fedrl.gridworld.reader import ARRAYS, load_maps, read_maps
from fedsuite.fedrl.gridworld.world import generated_file, open_gridworld, prepare
from fedsuite.storage.progress import in_lines
from tests.harness import changed

CURE = "make it anew"
SIZES = (8, 16, 32)
LIMITS = {8: 38, 16: 86, 32: 178}
USABLE = {
    (8, "exact"): [6330, 792, 791],
    (16, "exact"): [6184, 769, 776],
    (32, "exact"): [6377, 796, 797],
    (8, "shifted"): [4404, 576, 541],
    (16, "shifted"): [5366, 667, 687],
    (32, "shifted"): [5928, 746, 756],
}
# Obstacles a map: mean, standard deviation; share of starts without a path; mean path, cells.
PUBLISHED = {
    8: (6.1, 3.8, 0.061, 5.1),
    16: (47.4, 25.7, 0.124, 11.0),
    32: (120.8, 66.4, 0.010, 21.9),
}


def statistics(maps: MapSet) -> tuple[float, float, float, float]:
    obstacles = (maps.maps[:, 1:-1, 1:-1] == 0).sum(axis=(1, 2))
    length = maps.path_len
    return obstacles.mean(), obstacles.std(), (length == 0).mean(), length[length > 0].mean()


def generated(folder: Path, size: int, count: int, seed: int = 0) -> MapSet:
    path = folder / f"maps{size}-{count}-{seed}.npz"
    write_generated(path, count, size, seed)
    return read_maps(path, size, CURE)


def distances_from(grid: np.ndarray, goal: tuple[int, int]) -> dict[tuple[int, int], int]:
    """Breadth-first search on one map, cell by cell."""
    found, queue = {goal: 0}, deque([goal])
    while queue:
        row, col = queue.popleft()
        for cell in ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)):
            if grid[cell] and cell not in found:
                found[cell] = found[(row, col)] + 1
                queue.append(cell)
    return found


def assert_shortest(maps: MapSet, index: int) -> None:
    """Every stored path of a map is a walk over free neighbours, as short as there is, to the common goal."""
    goals = set()
    for k in np.flatnonzero(maps.path_len[index]):
        first = maps.first_cell[index, k]
        flat = maps.cells[first : first + maps.path_len[index, k]]
        path = [divmod(int(cell), maps.size) for cell in flat]
        goals.add(path[-1])
        away = distances_from(maps.maps[index], path[-1])
        assert len(path) == away[path[0]] + 1
        assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in pairwise(path))
        assert all(maps.maps[index][cell] for cell in path)
    assert len(goals) <= 1


@pytest.fixture(scope="module")
def published(shared: Path) -> Path:
    folder = shared / "data" / "fedrl"
    if not (folder / "frl_grid_8.npz").is_file():
        pytest.skip(f"published maps not found at {folder}")
    return folder


@pytest.mark.slow
@pytest.mark.needs_shared
@pytest.mark.parametrize("size", SIZES)
def test_published_maps(published: Path, size: int) -> None:
    maps = load_maps(published, size)
    assert 2 * maps.path_len.max() == LIMITS[size]
    for starts in ("exact", "shifted"):
        assert [len(episodes(maps, s, starts)) for s in SPLITS] == USABLE[size, starts]
    assert statistics(maps) == pytest.approx(PUBLISHED[size], rel=0.02, abs=0.0006)
    for index in range(0, 8000, 400):
        assert_shortest(maps, index)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "count"), [(8, 4000), (16, 3000), (32, 1000)])
def test_generated_maps_have_the_published_statistics(
    tmp_path: Path, size: int, count: int
) -> None:
    maps = generated(tmp_path, size, count)
    mean, deviation, empty, path = statistics(maps)
    want = PUBLISHED[size]
    assert mean == pytest.approx(want[0], rel=0.06)
    assert deviation == pytest.approx(want[1], rel=0.06)
    assert empty == pytest.approx(want[2], abs=0.015)
    assert path == pytest.approx(want[3], rel=0.03)
    starts = maps.cells[maps.first_cell[maps.path_len.min(axis=1) > 0]]
    assert all(len(set(row)) == 8 for row in starts.tolist())  # different starts


@pytest.mark.slow
@pytest.mark.parametrize("size", [5, 6, 7, 8, 12, 16, 24, 32])
def test_generated_paths_are_shortest_and_missing_only_where_there_is_none(
    tmp_path: Path, size: int
) -> None:
    maps = generated(tmp_path, size, 40)
    assert maps.maps.shape == (40, size, size)
    for index in range(40):
        assert_shortest(maps, index)
        there = np.flatnonzero(maps.path_len[index])
        if there.size and there.size < 8:
            first = maps.first_cell[index, there[0]]
            goal = divmod(int(maps.cells[first + maps.path_len[index, there[0]] - 1]), size)
            assert len(distances_from(maps.maps[index], goal)) < maps.maps[index].sum() or (
                maps.maps[index].sum() < 8
            )


def test_map_k_depends_on_seed_size_and_k_alone(tmp_path: Path) -> None:
    few, many = generated(tmp_path, 8, 30), generated(tmp_path, 8, BLOCK + 30)
    other = generated(tmp_path, 8, 30, seed=1)
    np.testing.assert_array_equal(few.maps, many.maps[:30])
    np.testing.assert_array_equal(few.path_len, many.path_len[:30])
    np.testing.assert_array_equal(few.cells, many.cells[: len(few.cells)])
    assert not np.array_equal(few.maps, other.maps)
    assert not np.array_equal(many.maps[:30], many.maps[BLOCK:])


def test_most_obstacles_runs_through_the_published_sizes_and_on() -> None:
    assert [most_obstacles(n) for n in (8, 16, 32)] == [14, 40, 90]
    numbers = [most_obstacles(n) for n in range(5, 129)]
    assert numbers == sorted(numbers)
    assert [most_obstacles(n) for n in (5, 7)] == [round(14 * (n / 6) ** 2) for n in (3, 5)]
    assert most_obstacles(12) == 27 and most_obstacles(64) == 190


def test_prepare_writes_once_and_open_asks_for_it(tmp_path: Path) -> None:
    config = changed(FedRLConfig(), cache_dir=str(tmp_path / "cache"), maps=60)
    with pytest.raises(InputError, match="prepare the run"):
        open_gridworld(config)
    told: list[str] = []
    prepare(config, in_lines(told.append))
    stamp = generated_file(config).stat().st_mtime_ns
    prepare(config, in_lines(told.append))
    assert generated_file(config).stat().st_mtime_ns == stamp
    assert [line.startswith("generated maps") for line in told] == [True, False, False]
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [generated_file(config).name]


def test_cache_is_named_by_what_maps_depend_on() -> None:
    base = changed(FedRLConfig(), cache_dir="c")
    changes = ({"maps": 50}, {"grid_size": 16}, {"generated_seed": 1}, {"cache_dir": "d"})
    names = {generated_file(changed(base, **c)) for c in changes}
    assert len(names | {generated_file(base)}) == 5
    assert generated_file(
        changed(FedRLConfig(), cache_dir="c", seed=5, history=4)
    ) == generated_file(base)
    ends = changed(FedRLConfig(), cache_dir="c", seed=1, generated_seed=-1)  # the run's own seed
    assert generated_file(ends) == generated_file(changed(base, generated_seed=1))


def hand_made(paths: list[list[tuple[int, int]]]) -> MapSet:
    """Twenty empty 6 x 6 maps with the given paths on each."""
    maps = np.zeros((20, 6, 6), np.uint8)
    maps[:, 1:-1, 1:-1] = 1
    length = np.zeros((20, 8), np.int64)
    length[:, : len(paths)] = [len(p) for p in paths]
    cells = [row * 6 + col for path in paths for row, col in path]
    return MapSet(maps, length, np.tile(np.array(cells, np.int32), 20), "hand-made")


def test_first_usable_path_and_shifted_starts() -> None:
    maps = hand_made([[], [(4, 1), (3, 1)], [(1, 2), (2, 2), (2, 3)]])
    exact, shifted = episodes(maps, "valid", "exact"), episodes(maps, "valid", "shifted")
    assert exact.map_index.tolist() == shifted.map_index.tolist() == [16, 17]
    assert exact.alpha[0].tolist() == [4, 1] and exact.beta[0].tolist() == [3, 1]
    # Row 4 + 1 would be in the ring, so the next path is taken.
    assert shifted.alpha[0].tolist() == [2, 3] and shifted.beta[0].tolist() == [3, 4]
    assert exact.path_len.tolist() == [2, 2] and shifted.path_len.tolist() == [3, 3]
    assert maps.cells[shifted.first_cell[1]] == 8


def test_a_start_inside_an_obstacle_is_kept() -> None:
    maps = hand_made([[(1, 2), (2, 2), (2, 3)]])
    maps.maps[:, 2, 3] = 0
    assert len(episodes(maps, "test", "shifted")) == 2


def test_a_split_without_a_path_is_refused() -> None:
    maps = hand_made([[(4, 4), (4, 3)]])
    assert len(episodes(maps, "train", "exact")) == 16
    with pytest.raises(InputError, match=r"hand-made: .*train split .*none in its 16 maps"):
        episodes(maps, "train", "shifted")


def test_missing_files_are_named_with_the_sizes_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"frl_grid_64\.npz: no such file, and it has no maps"):
        load_maps(tmp_path, 64)
    write_generated(tmp_path / "frl_grid_8.npz", 20, 8, 0)
    with pytest.raises(InputError, match=r"frl_grid_64\.npz: .*the folder has sizes 8; choose"):
        load_maps(tmp_path, 64)
    assert len(load_maps(tmp_path, 8).maps) == 20


def damaged(tmp_path: Path, change: str) -> Path:
    path = tmp_path / "frl_grid_8.npz"
    write_generated(path, 20, 8, 0)
    with np.load(path) as file:
        arrays = {name: file[name].copy() for name in ARRAYS}
    found = tuple(np.argwhere(arrays["path_len"] > 2)[0])
    if change == "key":
        del arrays["moves2bit"]
    elif change == "value":
        arrays["maps"][3, 2, 2] = 2
    elif change == "ring":
        arrays["maps"][3, 0, 2] = 1
    elif change == "shape":
        arrays["path_end"] = arrays["path_end"][:, :4]
    elif change == "float":
        arrays["maps"] = arrays["maps"].astype(float)
    elif change == "few":
        arrays = {k: v[:9] if v.ndim and k != "moves2bit" else v for k, v in arrays.items()}
    elif change == "number":
        arrays["n_moves"] = arrays["n_moves"] + 1
    elif change == "moves":
        arrays["moves2bit"] = arrays["moves2bit"][:-1]
    elif change == "turned":
        arrays["moves2bit"] = arrays["moves2bit"] ^ 0b01010101
    elif change == "end":
        arrays["path_end"][found] = arrays["path_start"][found]
    elif change == "outside":
        arrays["path_start"][found] = 200
    np.savez(path, **arrays)
    if change == "cut":
        path.write_bytes(path.read_bytes()[:700])
    elif change == "text":
        path.write_text("no zip")
    return path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("key", "moves2bit"),
        ("value", "0 and 1 only"),
        ("ring", "obstacles all around"),
        ("shape", r"path_end: expected shape \(20, 8, 2\)"),
        ("float", "maps: expected whole numbers"),
        ("few", "at least 20 maps, got 9"),
        ("number", "n_moves: expected"),
        ("moves", "moves2bit: expected shape"),
        ("turned", "a path"),
        ("end", "does not end at its path_end"),
        ("outside", "leaves its map"),
        ("cut", "not a readable file"),
        ("text", "not a readable file"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path: Path, change: str, reason: str) -> None:
    damaged(tmp_path, change)
    with pytest.raises(InputError, match=reason) as caught:
        load_maps(tmp_path, 8)
    assert "frl_grid_8.npz" in str(caught.value) and "\n" not in str(caught.value)
    assert "restore it" in str(caught.value)
