"""Generated houses: file formats, floor plans, paths, determinism."""

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.vln.generator.house_plan import House, draw_house
from fedsuite.vln.generator.houses import SPLITS, HouseSettings, house_numbers, write_houses

pytestmark = pytest.mark.slow

SETTINGS = HouseSettings(
    num_seen=8, num_unseen=2, paths_per_house=24, val_seen_paths=5, unseen_paths=16
)
NUMBERS = house_numbers(SETTINGS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("houses")
    write_houses(SETTINGS, target)
    return target


@pytest.fixture(scope="module")
def plans() -> list[House]:
    return [draw_house(SETTINGS.seed, n) for n in NUMBERS]


def annotations(folder: Path, split: str) -> list[dict]:
    return json.loads((folder / "annotations" / f"R2R_{split}.json").read_text())


def connectivity(folder: Path) -> dict[str, list[dict]]:
    scans = (folder / "connectivity" / "scans.txt").read_text().split()
    return {
        s: json.loads((folder / "connectivity" / f"{s}_connectivity.json").read_text())
        for s in scans
    }


def graph_of(rows: list[dict]) -> nx.Graph:
    """Graph by the R2R rules, from the JSON alone."""
    graph = nx.Graph()
    at = {r["image_id"]: np.array(r["pose"])[[3, 7, 11]] for r in rows}
    for i, a in enumerate(rows):
        for j, b in enumerate(rows[:i]):
            if a["included"] and b["included"] and a["unobstructed"][j]:
                length = float(np.linalg.norm(at[a["image_id"]] - at[b["image_id"]]))
                graph.add_edge(a["image_id"], b["image_id"], weight=length)
    return graph


@pytest.fixture(scope="module")
def graphs(folder: Path) -> dict[str, nx.Graph]:
    return {scan: graph_of(rows) for scan, rows in connectivity(folder).items()}


def test_connectivity_files_have_the_r2r_fields(folder: Path) -> None:
    seen_ids: set[str] = set()
    scans = connectivity(folder)
    assert len(scans) == SETTINGS.num_seen + SETTINGS.num_unseen
    for scan, rows in scans.items():
        assert re.fullmatch("[A-Za-z0-9]{11}", scan)
        assert 25 <= len(rows) <= 120
        assert any(not r["included"] for r in rows)
        for row in rows:
            assert set(row) == {"image_id", "pose", "included", "visible", "unobstructed", "height"}
            assert re.fullmatch("[0-9a-f]{32}", row["image_id"])
            pose = np.array(row["pose"]).reshape(4, 4)
            np.testing.assert_allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-5)
            assert np.linalg.det(pose[:3, :3]) == pytest.approx(1, abs=1e-5)
            assert pose[3].tolist() == [0, 0, 0, 1]
            assert 1.2 < row["height"] < 1.9
        ids = [r["image_id"] for r in rows]
        assert len(set(ids)) == len(ids)
        assert not seen_ids & set(ids)
        seen_ids |= set(ids)
        for name in ("visible", "unobstructed"):
            matrix = np.array([r[name] for r in rows])
            assert matrix.dtype == bool
            assert matrix.shape == (len(rows), len(rows))
            assert (matrix == matrix.T).all()
            assert not matrix.diagonal().any()


def test_graphs_are_connected_with_ordinary_degrees_and_lengths(
    graphs: dict[str, nx.Graph],
) -> None:
    degrees, lengths = [], []
    for graph in graphs.values():
        assert nx.is_connected(graph)
        degrees += [d for _, d in graph.degree()]
        lengths += [e["weight"] for *_, e in graph.edges(data=True)]
    assert max(degrees) <= 13
    assert 3.2 < np.mean(degrees) < 4.8
    # The camera height varies by some centimetres, so that a flat metre may be a little more.
    assert min(lengths) >= 0.99
    assert max(lengths) <= 5.05
    assert 2.0 < np.mean(lengths) < 3.2


def _segments_cross(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> bool:
    def side(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> float:
        return float((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]))

    return side(a, b, c) * side(a, b, d) < -1e-9 and side(c, d, a) * side(c, d, b) < -1e-9


def test_no_edge_goes_through_a_wall(plans: list[House]) -> None:
    checked = 0
    for house in plans:
        for i, j in zip(*np.nonzero(np.triu(house.edge)), strict=True):
            if abs(house.position_m[i, 2] - house.position_m[j, 2]) > 0.5:
                continue
            assert house.floor[i] == house.floor[j]
            p, q = house.position_m[i, :2], house.position_m[j, :2]
            for wall in house.walls[house.floor[i]]:
                assert not _segments_cross(p, q, wall[:2], wall[2:]), (house.scan, i, j, wall)
                checked += 1
    assert checked > 1000


def test_edges_between_floors_are_stairs(plans: list[House]) -> None:
    climbs = 0
    for house in plans:
        for i, j in zip(*np.nonzero(np.triu(house.edge)), strict=True):
            if abs(house.position_m[i, 2] - house.position_m[j, 2]) > 0.5:
                climbs += 1
                assert house.stairs[i] and house.stairs[j]
                assert all(house.rooms[house.room[k]].kind == "stairwell" for k in (i, j))
    assert climbs >= 4
    assert {len(h.walls) for h in plans} >= {1, 2}


def test_panoramas_are_in_their_rooms(plans: list[House]) -> None:
    for house in plans:
        used = house.included & house.edge.any(1)
        for i in np.flatnonzero(used):
            x0, y0, x1, y1 = house.rooms[house.room[i]].rect
            x, y = house.position_m[i, :2]
            assert x0 < x < x1 and y0 < y < y1
        per_room = Counter(house.room[used].tolist())
        assert set(per_room) >= {
            i for i, r in enumerate(house.rooms) if r.tag not in ("stairs", "hall")
        }
        assert max(per_room.values()) <= 7


def test_rooms_of_a_floor_do_not_overlap(plans: list[House]) -> None:
    for house in plans:
        for i, a in enumerate(house.rooms):
            for b in house.rooms[:i]:
                if a.floor == b.floor:
                    wide = min(a.rect[2], b.rect[2]) - max(a.rect[0], b.rect[0])
                    high = min(a.rect[3], b.rect[3]) - max(a.rect[1], b.rect[1])
                    assert wide < 1e-6 or high < 1e-6, (house.scan, a, b)


def test_houses_differ(plans: list[House]) -> None:
    assert len({len(h.position_m) for h in plans}) > len(plans) / 2
    mixes = {tuple(sorted(Counter(r.kind for r in h.rooms).items())) for h in plans}
    assert len(mixes) == len(plans)
    kinds = Counter(r.kind for h in plans for r in h.rooms)
    assert {"kitchen", "bedroom", "bathroom", "living room", "dining room", "hallway"} <= set(kinds)
    assert len(kinds) >= 14
    things = {t.about.name for h in plans for t in h.things}
    assert len(things) >= 40


def test_annotations_follow_the_r2r_rules(folder: Path, graphs: dict[str, nx.Graph]) -> None:
    path_ids: list[int] = []
    pairs: dict[str, set] = defaultdict(set)
    for split in SPLITS:
        for entry in annotations(folder, split):
            assert set(entry) == {"distance", "scan", "path_id", "path", "heading", "instructions"}
            graph, path = graphs[entry["scan"]], entry["path"]
            length = sum(graph.edges[e]["weight"] for e in pairwise(path))
            best = nx.dijkstra_path_length(graph, path[0], path[-1])
            assert length == pytest.approx(best, abs=1e-9)
            assert entry["distance"] == pytest.approx(length, abs=0.0051)
            assert round(entry["distance"], 2) == entry["distance"]
            assert length >= 5
            assert 4 <= len(path) <= 7
            assert 0 < entry["heading"] < 2 * np.pi
            assert round(entry["heading"], 3) == entry["heading"]
            assert len(entry["instructions"]) == 3
            assert len(set(entry["instructions"])) == 3
            pair = (entry["scan"], path[0], path[-1])
            assert all(pair not in p for p in pairs.values())
            pairs[split].add(pair)
            path_ids.append(entry["path_id"])
    assert len(set(path_ids)) == len(path_ids)


def test_splits_use_the_right_houses_in_client_order(folder: Path, plans: list[House]) -> None:
    scans = [p.scan for p in plans]
    first = {s: list(dict.fromkeys(e["scan"] for e in annotations(folder, s))) for s in SPLITS}
    assert first["train"] == scans[: SETTINGS.num_seen]
    assert set(first["val_seen"]) <= set(first["train"])
    assert first["val_unseen"] == scans[SETTINGS.num_seen :]
    order = [e["scan"] for e in annotations(folder, "train")]
    runs = 1 + sum(a != b for a, b in pairwise(order))
    assert runs > len(order) / 2, "houses should be mixed in the file"


def test_clients_have_unequal_numbers_of_paths(folder: Path) -> None:
    counts = Counter(e["scan"] for e in annotations(folder, "train"))
    assert len(set(counts.values())) > len(counts) / 2
    assert sum(4 <= c <= 10 for c in counts.values()) == 1
    assert sum(c >= 15 for c in counts.values()) == SETTINGS.num_seen - 1


def test_a_start_does_not_tell_the_path(folder: Path) -> None:
    """Most paths share their start with an annotated path that goes another way at once."""
    ways = defaultdict(set)
    entries = annotations(folder, "train")
    for e in entries:
        ways[e["path"][0]].add(e["path"][1])
    shared = [len(ways[e["path"][0]]) > 1 for e in entries]
    assert np.mean(shared) > 0.6
    assert len({e["path"][-1] for e in entries}) > len(entries) * 0.4


def test_views_fit_the_panoramas(folder: Path) -> None:
    for scan, rows in connectivity(folder).items():
        views = np.load(folder / "views" / f"{scan}.npy")
        included = np.array([r["included"] for r in rows])
        assert views.dtype == np.float32
        assert views.shape == (len(rows), 36, SETTINGS.feature_size)
        assert not views[~included].any()
        assert views[included].any(-1).all()
        assert 0.4 < np.abs(views[included]).mean() < 1.2


def test_same_settings_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    write_houses(SETTINGS, tmp_path)
    files = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert len(files) == 2 * len(NUMBERS) + 4
    for file in files:
        assert (folder / file).read_bytes() == (tmp_path / file).read_bytes(), file


def test_more_houses_leave_the_earlier_ones_as_they_were(folder: Path, tmp_path: Path) -> None:
    fewer = replace(SETTINGS, num_seen=3, num_unseen=1)
    write_houses(fewer, tmp_path)
    scans = (tmp_path / "connectivity" / "scans.txt").read_text().split()
    for scan in scans:
        for name in (f"connectivity/{scan}_connectivity.json", f"views/{scan}.npy"):
            assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()
    for split in SPLITS:
        kept = [e for e in annotations(folder, split) if e["scan"] in scans]
        assert annotations(tmp_path, split) == kept


def test_other_seeds_give_other_houses() -> None:
    a, b = draw_house(0, 0), draw_house(1, 0)
    assert a.scan != b.scan
    assert a.viewpoint_ids[0] != b.viewpoint_ids[0]
    assert a.rooms != b.rooms


def test_progress_is_reported_per_house(tmp_path: Path) -> None:
    steps: list[tuple[object, ...]] = []
    few = replace(SETTINGS, num_seen=2, num_unseen=1)
    write_houses(few, tmp_path, lambda *step: steps.append(step))
    assert steps == [("generated houses", done, 3) for done in (1, 2, 3)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_seen", 0),
        ("paths_per_house", 0),
        ("feature_size", 4),
        ("seed", -1),
        ("view_noise", -0.1),
    ],
)
def test_bad_settings_are_refused_with_their_name(name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        HouseSettings(**{name: value})
