"""Navigation graphs on handmade houses."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.errors import InputError
from fedsuite.vln.data.candidates import candidates_by_simulator
from fedsuite.vln.data.graph import NavGraph, load_graph, missing_scans

DEGREE = math.pi / 180


def graph_of(place, pairs, included=None) -> NavGraph:
    place = np.array(place, float)
    edge = np.zeros((len(place), len(place)), bool)
    for a, b in pairs:
        edge[a, b] = edge[b, a] = True
    included = np.ones(len(place), bool) if included is None else np.array(included)
    return NavGraph("house", tuple("abcdefghijkl"[: len(place)]), place, included, edge)


# A 3-4-5 triangle with a shortcut that is longer than the way round, and an island of two.
TRIANGLE = graph_of(
    [(0, 0, 0), (3, 0, 0), (3, 4, 0), (0, 0, 9), (0, 1, 9)], [(0, 1), (1, 2), (3, 4)]
)


def test_distances_by_hand():
    d = TRIANGLE.distance_m
    assert d[0, 2] == d[2, 0] == 7 and d[0, 1] == 3 and d[3, 4] == 1
    assert np.isinf(d[:3, 3:]).all() and not d.diagonal().any()


def test_paths_and_next_hops_by_hand():
    assert TRIANGLE.shortest_path(0, 2) == [0, 1, 2]
    assert TRIANGLE.shortest_path(1, 1) == [1]
    assert TRIANGLE.next_hop[0].tolist() == [0, 1, 1, -1, -1]
    with pytest.raises(ValueError, match="no path from panorama 0 to 4"):
        TRIANGLE.shortest_path(0, 4)


def test_one_way_edges():
    place = np.array([(0, 0, 0), (2, 0, 0), (4, 0, 0)], float)
    edge = np.zeros((3, 3), bool)
    edge[0, 1] = edge[1, 2] = edge[2, 0] = True
    ring = NavGraph("ring", ("a", "b", "c"), place, np.ones(3, bool), edge)
    assert ring.shortest_path(1, 0) == [1, 2, 0]
    assert ring.distance_m[1, 0] == 6 and ring.distance_m[0, 1] == 2
    assert ring.no_way_back() is None and TRIANGLE.no_way_back() is None
    edge[2, 0] = False
    assert NavGraph("line", ("a", "b", "c"), place, np.ones(3, bool), edge).no_way_back() == (
        "a",
        "b",
    )


def test_cameras_at_the_same_place_are_joined():
    twins = graph_of([(1, 1, 1), (1, 1, 1), (1, 3, 1)], [(0, 1), (1, 2)])
    assert twins.shortest_path(0, 2) == [0, 1, 2]
    assert twins.distance_m[0, 2] == pytest.approx(2, abs=1e-5)


def test_candidates_by_hand():
    """From the middle: ahead; right and 45 degrees up; left and steeply down; behind, a little to the right."""
    place = [(0, 0, 0), (0, 2, 0), (2, 0, 2), (-1, 0, -3), (0.2, -2, 0)]
    c = graph_of(place, [(0, i) for i in range(1, 5)]).candidates
    assert c.count.tolist() == [4, 1, 1, 1, 1]
    got = dict(zip(c.viewpoint[0].tolist(), c.view[0].tolist(), strict=True))
    # 45 degrees is nearer to the upper row (30) than to the horizon
    assert got == {1: 12 + 0, 2: 24 + 3, 3: 0 + 9, 4: 12 + 6}
    # Single precision: straight ahead may be a millionth of a degree to the left, at 360.
    turned = (c.heading_rad[0] / DEGREE + 1) % 360 - 1
    heading = dict(zip(c.viewpoint[0].tolist(), turned, strict=True))
    assert [heading[i] for i in (1, 2, 3)] == pytest.approx([0, 90, 270], abs=1e-5)
    elevation = dict(zip(c.viewpoint[0].tolist(), c.elevation_rad[0] / DEGREE, strict=True))
    assert elevation[2] == pytest.approx(45) and elevation[3] == pytest.approx(-71.565, abs=1e-3)
    # found when the camera first turns near enough: 0, 60, 150 and 240 degrees
    assert c.viewpoint[0].tolist() == [1, 2, 4, 3]
    assert c.viewpoint[1].tolist() == [0, -1, -1, -1]


def test_candidates_seen_in_the_same_view_are_ordered_by_angle():
    place = [(0, 0, 0), (0.6, 2, 0), (-0.1, 2, 0), (0, 2, -1.1)]
    c = graph_of(place, [(0, 1), (0, 2), (0, 3)]).candidates
    # the scan starts looking down, so the neighbour below comes first
    assert c.viewpoint[0].tolist() == [3, 2, 1]


TIES = [
    (0, 0, 0), (2, 2, 0), (-2, 2, 0), (2, -2, 0), (-2, -2, 0),  # halfway between two headings
    (0, math.cos(math.pi / 12), math.sin(math.pi / 12)),  # and, as far as float32 goes, between two rows
    (1e-4, 1e-4, 0), (1e-4, -2e-4, 3e-4),  # millimetres apart and far from the origin
]  # fmt: skip


@pytest.mark.parametrize("corner_m", [0.0, 31.0625, -123.4567])
def test_ties_and_cameras_that_nearly_touch_come_as_from_the_simulator(
    corner_m, tmp_path, scan_writer
):
    """At 123 m float32 knows places to a hundredth of a millimetre: what the simulator sees, not what the file says."""
    place = np.array(TIES) + corner_m
    edge = ~np.eye(len(place), dtype=bool)
    scan_writer(tmp_path, "house", place, edge, np.ones(len(place), bool))
    (tmp_path / "scans.txt").write_text("house\n")
    graph = load_graph(tmp_path, "house")
    slow, fast = candidates_by_simulator(tmp_path, graph, "graph"), graph.candidates
    for name in ("viewpoint", "view", "heading_rad", "elevation_rad"):
        assert np.array_equal(getattr(slow, name), getattr(fast, name)), name


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_closed_form_equals_the_simulators_scan_on_random_houses(
    seed, tmp_path_factory, scan_writer
):
    """Steep stairs, islands, excluded panoramas."""
    from fedsuite.vln.mattersim import process_nav_graphs

    rng = np.random.default_rng(seed)
    place = rng.normal(0, [2, 2, 1.5], (9, 3))
    edge = np.triu(rng.random((9, 9)) < 0.4, 1)
    folder = tmp_path_factory.mktemp("random")
    scan_writer(folder, "house", place, edge | edge.T, rng.random(9) < 0.9)
    (folder / "scans.txt").write_text("house\n")
    graph = load_graph(folder, "house")
    process_nav_graphs.cache_clear()
    slow, fast = candidates_by_simulator(folder, graph, "graph"), graph.candidates
    process_nav_graphs.cache_clear()
    width = max(slow.viewpoint.shape[1], fast.viewpoint.shape[1])
    assert slow.viewpoint.shape[1] == width == fast.viewpoint.shape[1]
    assert np.array_equal(slow.viewpoint, fast.viewpoint)
    assert np.array_equal(slow.view, fast.view)
    assert np.array_equal(slow.heading_rad, fast.heading_rad)
    assert np.array_equal(slow.elevation_rad, fast.elevation_rad)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_shortest_paths_are_paths_of_the_stated_length(seed):
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(8) for b in range(a) if rng.random() < 0.35]
    g = graph_of(rng.normal(0, 3, (8, 3)), pairs)
    assert np.allclose(g.distance_m, g.distance_m.T)
    for a, b in np.argwhere(np.isfinite(g.distance_m)):
        path = g.shortest_path(a, b)
        assert path[0] == a and path[-1] == b and len(set(path)) == len(path)
        hops = list(pairwise(path))
        assert all(g.edge[i, j] for i, j in hops)
        length = sum(np.linalg.norm(g.position_m[i] - g.position_m[j]) for i, j in hops)
        assert length == pytest.approx(g.distance_m[a, b])
    assert (g.next_hop >= 0).tolist() == np.isfinite(g.distance_m).tolist()


def test_excluded_panoramas_have_no_edges_but_keep_their_row(prepared):
    g = load_graph(prepared.connectivity_dir, "oak")
    assert len(g.viewpoint_ids) == 13 and g.index["oak-12"] == 12
    assert not g.included[1] and not g.edge[1].any() and not g.edge[:, 1].any()
    assert g.candidates.count[1] == 0 and g.candidates.count[12] == 0
    file = prepared.connectivity_dir / "oak_connectivity.json"
    assert any(json.loads(file.read_text())[1]["unobstructed"]), "the file itself has them"


def rows_of(prepared) -> list[dict]:
    return json.loads((prepared.connectivity_dir / "elm_connectivity.json").read_text())


@pytest.mark.parametrize(
    "damage",
    [
        lambda rows: json.dumps(rows)[:-20],
        lambda rows: json.dumps([{**r, "pose": r["pose"][:15]} for r in rows]),
        lambda rows: json.dumps([{**r, "unobstructed": r["unobstructed"][1:]} for r in rows]),
        lambda rows: json.dumps([{k: v for k, v in r.items() if k != "included"} for r in rows]),
        lambda rows: json.dumps(7),
        lambda rows: json.dumps([]),
    ],
    ids=["truncated", "short pose", "short row", "no included", "a number", "no panoramas"],
)
def test_damaged_connectivity_is_named_in_one_line(damage, prepared, tmp_path):
    file = tmp_path / "elm_connectivity.json"
    file.write_text(damage(rows_of(prepared)))
    with pytest.raises(InputError) as error:
        load_graph(tmp_path, "elm")
    assert str(file) in str(error.value) and "\n" not in str(error.value)


def test_missing_connectivity_is_named(prepared, tmp_path):
    with pytest.raises(InputError, match=r"oak_connectivity\.json: no such file"):
        load_graph(tmp_path, "oak")
    assert missing_scans(prepared.connectivity_dir, ["oak", "fir", "ash"]) == ["fir"]


def with_second(**changes):
    """The second row (elm-1) with other values."""
    return lambda rows: [rows[0], {**rows[1], **changes}, *rows[2:]]


@pytest.mark.parametrize(
    "value", ["false", "true", 2, 0.0, None, [True]], ids=["text", "yes", "two", "real", "null", "list"]
)  # fmt: skip
@pytest.mark.parametrize("name", ["included", "unobstructed"])
def test_flags_that_are_no_booleans_are_refused(name, value, prepared, tmp_path):
    flags = value if name == "included" else [value, *rows_of(prepared)[1][name][1:]]
    line = damaged(prepared, tmp_path, with_second(**{name: flags}))
    assert "panorama 1, 'elm-1': " in line


def test_flags_may_be_0_and_1(prepared, tmp_path):
    def change(rows):
        return [
            {**r, "included": int(r["included"]), "unobstructed": [*map(int, r["unobstructed"])]}
            for r in rows
        ]

    (tmp_path / "elm_connectivity.json").write_text(json.dumps(change(rows_of(prepared))))
    got, want = load_graph(tmp_path, "elm"), load_graph(prepared.connectivity_dir, "elm")
    assert np.array_equal(got.edge, want.edge) and np.array_equal(got.included, want.included)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [3, 7, 11, 0])
def test_poses_that_are_not_finite_are_named(bad, place, prepared, tmp_path):
    pose = [*rows_of(prepared)[1]["pose"]]
    pose[place] = bad
    line = damaged(prepared, tmp_path, with_second(pose=pose))
    assert "panorama 1, 'elm-1': ValueError: pose must be 16 finite numbers" in line


@pytest.mark.parametrize("name", ["elm-0", 7, None])
def test_ids_that_repeat_or_are_no_texts_are_named(name, prepared, tmp_path):
    assert "panorama 1, " in damaged(prepared, tmp_path, with_second(image_id=name))


def test_connectivity_that_is_nested_too_deep(tmp_path):
    (tmp_path / "elm_connectivity.json").write_text("[" * 200_000)
    with pytest.raises(InputError, match=r"elm_connectivity\.json: not .*RecursionError"):
        load_graph(tmp_path, "elm")


def damaged(prepared, folder, change) -> str:
    file = folder / "elm_connectivity.json"
    file.write_text(json.dumps(change(rows_of(prepared))))
    with pytest.raises(InputError) as error:
        load_graph(folder, "elm")
    line = str(error.value)
    assert line.startswith(f"{file}: not a Matterport3D connectivity file") and "\n" not in line
    return line
