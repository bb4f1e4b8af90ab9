"""Exact regression values of Room-to-Room: annotations, vocabulary, graphs, candidates, shortest paths.

The files are not part of the repository; without them all of this is skipped. Values of the data set and of the
shortest-path agent were computed independently from the files; primitive-entry means are those that EnvDrop's
trajectory recording gives (Tan et al. 2019).
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from fedsuite.averaging.step import Step
from fedsuite.federation import ClientInfo
from fedsuite.vln.data import split_files
from fedsuite.vln.data.annotations import check_items, read_annotations
from fedsuite.vln.data.candidates import candidates_by_simulator
from fedsuite.vln.data.dataset import start_view
from fedsuite.vln.data.graph import NavGraph, load_graph
from fedsuite.vln.data.instructions import build_vocabulary, tokenize
from fedsuite.vln.data.prepare import prepare_houses
from fedsuite.vln.environment import STOP, World, build_world
from fedsuite.vln.evaluation.metrics import episode_metrics, published_trajectory
from fedsuite.vln.mattersim import Simulator
from fedsuite.vln.stages import local_steps
from strategies.participation import Published

pytestmark = pytest.mark.needs_shared

# Training houses in file order: scan, paths, instructions, graph nodes.
CLIENTS = [
    "VLzqgDo317F",
    "93",
    "280",
    "123",
    "sT4fr6TAbpF",
    "93",
    "279",
    "81",
    "8WUmhLawc2A",
    "93",
    "279",
    "95",
    "p5wJjkQkbXX",
    "83",
    "250",
    "152",
    "SN83YJsR3w2",
    "99",
    "300",
    "265",
    "XcA2TqTSSAj",
    "92",
    "276",
    "109",
    "7y3sRwLe3Va",
    "95",
    "286",
    "106",
    "ZMojNkEp431",
    "75",
    "225",
    "77",
    "Uxmj2M2itWa",
    "95",
    "285",
    "137",
    "EDJbREhghzL",
    "89",
    "267",
    "70",
    "D7N2EKCX4Sj",
    "93",
    "279",
    "260",
    "2n8kARJN3HM",
    "96",
    "289",
    "186",
    "HxpKQynjfin",
    "17",
    "51",
    "34",
    "ur6pFq6Qu1A",
    "96",
    "288",
    "118",
    "29hnd4uzFmX",
    "92",
    "276",
    "102",
    "ULsKaCPVFJR",
    "92",
    "276",
    "101",
    "e9zR4mvMWw7",
    "89",
    "267",
    "87",
    "b8cTxDM8gDG",
    "90",
    "270",
    "114",
    "mJXqzFtmKg4",
    "93",
    "279",
    "189",
    "rPc6DW4iMge",
    "91",
    "273",
    "118",
    "r47D5H71a5s",
    "93",
    "279",
    "61",
    "qoiz87JEwZ2",
    "95",
    "285",
    "131",
    "i5noydFURQK",
    "61",
    "183",
    "56",
    "JmbYfDe2QKZ",
    "97",
    "291",
    "79",
    "82sE5b5pLXE",
    "93",
    "279",
    "135",
    "1LXtFkjw3qL",
    "89",
    "267",
    "131",
    "17DRP5sb8fy",
    "30",
    "90",
    "44",
    "E9uDoFAP3SH",
    "92",
    "277",
    "217",
    "VFuaQ6m2Qom",
    "93",
    "279",
    "167",
    "5LpN3gDmAk7",
    "90",
    "270",
    "140",
    "1pXnuDYAj8r",
    "90",
    "271",
    "95",
    "VzqfbhrpDEA",
    "93",
    "279",
    "289",
    "pRbA3pwrgk9",
    "79",
    "237",
    "123",
    "759xd9YjKW5",
    "84",
    "252",
    "61",
    "kEZ7cmS4wCh",
    "88",
    "265",
    "199",
    "JF19kD82Mey",
    "60",
    "180",
    "49",
    "V2XKFyX4ASd",
    "93",
    "279",
    "157",
    "Vvot9Ly1tCj",
    "94",
    "282",
    "141",
    "r1Q1Z4BcV1o",
    "76",
    "228",
    "113",
    "cV4RVeZvu5T",
    "85",
    "255",
    "90",
    "uNb9QFRL6hY",
    "95",
    "285",
    "213",
    "vyrNrziPKCB",
    "94",
    "282",
    "337",
    "JeFG25nYj2p",
    "93",
    "279",
    "84",
    "s8pcmisQ38h",
    "45",
    "135",
    "50",
    "aayBHfsNo7d",
    "93",
    "280",
    "71",
    "PX4nDJXEHrG",
    "96",
    "288",
    "282",
    "ac26ZMwG7aT",
    "92",
    "276",
    "165",
    "5q7pvUzZiYa",
    "82",
    "246",
    "89",
    "S9hNv5qa7GM",
    "93",
    "279",
    "110",
    "sKLMLpTHeUy",
    "92",
    "276",
    "127",
    "dhjEzFoUFzH",
    "18",
    "54",
    "218",
    "B6ByNegPMKs",
    "89",
    "267",
    "345",
    "VVfe2KiqLaN",
    "41",
    "123",
    "61",
    "gTV8FGcVJC9",
    "96",
    "290",
    "231",
    "PuKPg4mmafe",
    "24",
    "72",
    "90",
    "jh4fc5c5qoQ",
    "56",
    "168",
    "48",
    "D7G3Y4RVNrH",
    "21",
    "64",
    "49",
    "Pm6F8kyY3z2",
    "12",
    "36",
    "34",
    "YmJkqBEsHnH",
    "3",
    "9",
    "11",
    "GdvgFV5R1Z5",
    "7",
    "21",
    "12",
    "gZ6f7yhEvPG",
    "2",
    "6",
    "8",
]
UNSEEN = [
    "8194nk5LbLH",
    "EU6Fwq7SyZv",
    "QUCTc6BB5sX",
    "TbHJrupSAjP",
    "X7HyMhZNoso",
    "2azQ1b91cZZ",
    "zsNo4HB9uLZ",
    "oLBMNvg9in8",
    "Z6MFQCViBuw",
    "x8F5xyUWy9e",
    "pLe4wQe7qrG",
]
SPLITS = ("train", "val_seen", "val_unseen")


@dataclass
class R2R:
    """All of R2R, read with the project's own functions."""

    folder: Path
    items: dict[str, list[dict]]
    graphs: dict[str, NavGraph]

    def instructions(self, split: str) -> list[str]:
        return [t for i in self.items[split] for t in i["instructions"]]


@pytest.fixture(scope="module")
def data(r2r: Path) -> R2R:
    scans = (r2r / "connectivity" / "scans.txt").read_text().split()
    files = {s: r2r / "annotations" / f"R2R_{s}.json" for s in SPLITS}
    return R2R(
        r2r,
        {s: read_annotations(f) for s, f in files.items()},
        {s: load_graph(r2r / "connectivity", s) for s in scans},
    )


@pytest.fixture(scope="module")
def world(data: R2R) -> World:
    """All 90 houses without views."""
    graphs = list(data.graphs.values())
    return build_world(
        graphs, [np.zeros((len(g.viewpoint_ids), 36, 0), np.float32) for g in graphs]
    )


# --- annotations and vocabulary ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("split", "paths", "instructions", "scans", "mean", "sd"),
    [
        ("train", 4675, 14_039, 61, 29.41, 12.61),
        ("val_seen", 340, 1021, 56, 29.66, 12.53),
        ("val_unseen", 783, 2349, 11, 29.25, 12.49),
    ],
)
def test_split_counts_and_token_lengths(data, split, paths, instructions, scans, mean, sd):
    items, texts = data.items[split], data.instructions(split)
    assert (len(items), len(texts)) == (paths, instructions)
    assert len({i["scan"] for i in items}) == scans
    lengths = [len(tokenize(t)) for t in texts]
    assert (round(np.mean(lengths), 2), round(np.std(lengths), 2)) == (mean, sd)


@pytest.mark.slow
def test_vocabulary(data):
    """990 lines without BOS; the shipped file has one more, "tot", which this copy of train lacks (val_seen has it once)."""
    vocabulary = build_vocabulary(data.instructions("train"))
    assert len(vocabulary) == 990 + 1 and vocabulary.bos == 990
    tokens = [t for text in data.instructions("train") for t in tokenize(text)]
    assert len(set(tokens)) == 2599
    for split, percent in (("train", 0.64), ("val_seen", 0.81), ("val_unseen", 0.92)):
        words = [t for text in data.instructions(split) for t in tokenize(text)]
        unknown = sum(w not in vocabulary.index for w in words)
        assert round(100 * unknown / len(words), 2) == percent


@pytest.mark.slow
def test_longest_instructions_are_cut_to_80_words(data):
    vocabulary = build_vocabulary(data.instructions("train"))
    lengths = [len(vocabulary.encode(t, 80)) for t in data.instructions("train")]
    uncut = [len(vocabulary.encode(t, 1000)) for t in data.instructions("train")]
    assert max(lengths) == 80 and max(uncut) == 156 + 2
    assert round(100 * np.mean(np.array(uncut) > 80), 2) == 0.57


@pytest.mark.slow
def test_clients(data, r2r, tmp_path):
    """Order of first appearance, paths, instructions, graph nodes; as prepared for a run that submits."""
    prepare_houses(r2r, tmp_path / "houses", min_word_count=5, test=split_files.test_file(r2r))
    manifest = json.loads((tmp_path / "houses" / "manifest.json").read_text())
    assert manifest["vocabulary"] == 991
    assert manifest["splits"]["train"] == CLIENTS[::4] and len(CLIENTS[::4]) == 61
    assert manifest["splits"]["val_unseen"] == UNSEEN
    others = {s for split in ("train", "val_unseen") for s in manifest["splits"][split]}
    assert len(manifest["splits"]["test"]) == 18 and not others & set(manifest["splits"]["test"])
    assert sum(own["test"] for own in manifest["samples"].values()) == 4173
    missing = {"YmJkqBEsHnH", "VVfe2KiqLaN", "HxpKQynjfin", "D7G3Y4RVNrH", "GdvgFV5R1Z5"}
    assert set(CLIENTS[::4]) - set(manifest["splits"]["val_seen"]) == missing
    for scan, paths, instructions, nodes in zip(*(CLIENTS[k::4] for k in range(4)), strict=True):
        assert manifest["samples"][scan]["train"] == int(instructions)
        assert int((data.graphs[scan].edge.sum(1) > 0).sum()) == int(nodes)
        own = json.loads((tmp_path / "houses" / scan / "episodes.json").read_text())
        assert len(own["train"]) == int(paths)


@pytest.mark.slow
def test_every_path_passes_the_checks(data):
    for split, items in data.items.items():
        check_items(data.folder / split, items, data.graphs)


def test_initial_view_of_the_first_item(data):
    first = data.items["train"][0]
    assert round(first["heading"], 3) == 3.751 and start_view(first["heading"]) == 19


# --- graphs and candidates --------------------------------------------------------------------


def test_graph_totals(data):
    graphs = list(data.graphs.values())
    assert len(graphs) == 90
    assert sum(len(g.viewpoint_ids) for g in graphs) == 10_800
    assert sum(int(g.included.sum()) for g in graphs) == 10_567
    assert sum(int((g.edge.sum(1) > 0).sum()) for g in graphs) == 10_559
    assert sum(int(g.edge.sum()) for g in graphs) == 2 * 21_468
    assert all(np.array_equal(g.edge, g.edge.T) for g in graphs)
    nodes = [int((g.edge.sum(1) > 0).sum()) for g in graphs]
    assert (min(nodes), max(nodes)) == (8, 345)
    for g in graphs:
        inside = g.edge.sum(1) > 0
        assert np.isfinite(g.distance_m[np.ix_(inside, inside)]).all(), "one component each"
    lengths = np.concatenate(
        [np.linalg.norm(g.position_m[:, None] - g.position_m, axis=-1)[g.edge] for g in graphs]
    )
    assert round(lengths.mean(), 2) == 2.27 and round(lengths.max(), 1) == 16.8


def test_candidates(data):
    counts = np.concatenate([g.candidates.count for g in data.graphs.values()])
    counts = counts[counts > 0]
    assert len(counts) == 10_559 and round(counts.mean(), 3) == 4.066
    assert (counts.min(), counts.max()) == (1, 13)
    for g in data.graphs.values():
        for row, targets in enumerate(g.candidates.viewpoint):
            assert sorted(targets[targets >= 0]) == np.flatnonzero(g.edge[row]).tolist()


def assert_scan_equals_tables(data: R2R, scan: str) -> None:
    """Candidates in order of discovery, best views and directions, to the last bit."""
    graph = data.graphs[scan]
    slow = candidates_by_simulator(data.folder / "connectivity", graph, "graph")
    for name in ("viewpoint", "view", "heading_rad", "elevation_rad"):
        assert np.array_equal(getattr(slow, name), getattr(graph.candidates, name)), (scan, name)


@pytest.mark.parametrize("scan", ["8194nk5LbLH", "gZ6f7yhEvPG", "r47D5H71a5s", "759xd9YjKW5"])
def test_tables_equal_the_simulators_scan(data, scan):
    assert_scan_equals_tables(data, scan)


@pytest.mark.slow
def test_tables_equal_the_simulators_scan_in_all_houses(data):
    for scan in data.graphs:
        assert_scan_equals_tables(data, scan)


# --- the environment against the simulator ----------------------------------------------------

DECISIONS = 12


def episode_in_every_house(data: R2R, rng) -> tuple[list[str], list[str], list[int]]:
    scans, places, views = [], [], []
    for scan, g in data.graphs.items():
        scans.append(scan)
        places.append(g.viewpoint_ids[int(rng.choice(np.flatnonzero(g.edge.sum(1))))])
        views.append(int(rng.integers(36)))
    return scans, places, views


def turn_to(simulator: Simulator, wanted: list[int]) -> None:
    """Turn all cameras, one primitive action after another, each the shorter way."""
    while True:
        headings, elevations = [], []
        for state, view in zip(simulator.getState(), wanted, strict=True):
            right = (view - state.viewIndex) % 12
            headings.append(0.0 if right == 0 else 1.0 if right <= 6 else -1.0)
            elevations.append(float(np.sign(view // 12 - state.viewIndex // 12)))
        if not any(headings) and not any(elevations):
            return
        simulator.makeAction([0] * len(wanted), headings, elevations)


def assert_same_surroundings(world, simulator, viewpoint, view) -> None:
    """Places, camera, and every neighbour in the simulator's field of view with its angles."""
    near = world.observe(viewpoint, view)
    for b, state in enumerate(simulator.getState()):
        start = world.first_row[b]
        assert (state.location.ix, state.viewIndex) == (int(viewpoint[b]) - start, int(view[b]))
        count = int(near.count[b])
        targets = (world.candidate[viewpoint[b], :count] - start).tolist()
        relative = torch.atan2(near.angle[b, :count, 0], near.angle[b, :count, 1])
        visible = {
            t for t, a in zip(targets, relative.tolist(), strict=True) if abs(a) <= np.radians(40)
        }
        listed = state.navigableLocations[1:]
        assert {p.ix for p in listed} == visible
        for p in listed:
            slot = targets.index(p.ix)
            elevation = state.elevation + p.rel_elevation
            want = [
                np.sin(p.rel_heading),
                np.cos(p.rel_heading),
                np.sin(elevation),
                np.cos(elevation),
            ]
            np.testing.assert_allclose(near.angle[b, slot], want, atol=3e-6)


@pytest.mark.slow
def test_environment_agrees_with_the_simulator_on_random_walks(data, world):
    """90 agents, one per house; a move is a turn towards the candidate's view and one step."""
    rng = np.random.default_rng(0)
    scans, places, views = episode_in_every_house(data, rng)
    simulator = Simulator()
    simulator.setRenderingEnabled(False)
    simulator.setNavGraphPath(str(data.folder / "connectivity"))
    simulator.setDiscretizedViewingAngles(True)
    simulator.setCameraResolution(640, 480)
    simulator.setCameraVFOV(float(np.radians(60)))
    simulator.setBatchSize(90)
    simulator.initialize()
    heading = [np.pi / 6 * (v % 12) for v in views]
    simulator.newEpisode(scans, places, heading, [np.pi / 6 * (v // 12 - 1) for v in views])
    rows = [
        data.graphs[s].index[p] + world.first_row[b]
        for b, (s, p) in enumerate(zip(scans, places, strict=True))
    ]
    viewpoint, view = torch.tensor(rows), torch.tensor(views)
    assert_same_surroundings(world, simulator, viewpoint, view)
    for _ in range(DECISIONS):
        count = world.candidate_count[viewpoint].numpy()
        action = torch.from_numpy(rng.integers(0, count + 1))
        after, look = world.step(viewpoint, view, action)
        turn_to(simulator, look.tolist())
        index = []
        for b, state in enumerate(simulator.getState()):
            listed = [p.ix for p in state.navigableLocations]
            index.append(listed.index(int(after[b]) - world.first_row[b]))
        assert [i > 0 for i in index] == (action > STOP).tolist()
        simulator.makeAction(index, [0.0] * 90, [0.0] * 90)
        viewpoint, view = after, look
        assert_same_surroundings(world, simulator, viewpoint, view)


# --- the shortest-path agent ------------------------------------------------------------------


def shortest_walks(data: R2R, world: World, split: str) -> tuple[list[dict], list, list]:
    """Every path of a split walked by the teacher in one batch: items, rows and views per path."""
    items = data.items[split]
    first = dict(zip(world.scans, world.first_row, strict=False))
    ends = [
        [first[i["scan"]] + data.graphs[i["scan"]].index[i["path"][k]] for k in (0, -1)]
        for i in items
    ]
    viewpoint, goal = torch.tensor(ends).T
    view = torch.tensor([start_view(i["heading"]) for i in items])
    visited, views = [[v] for v in viewpoint.tolist()], [[v] for v in view.tolist()]
    while True:
        action = world.teacher_action(viewpoint, goal)
        if not action.any():
            return items, visited, views
        viewpoint, view = world.step(viewpoint, view, action)
        for b in action.nonzero().flatten().tolist():
            visited[b].append(int(viewpoint[b]))
            views[b].append(int(view[b]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("split", "entries"), [("train", 24.994), ("val_seen", 25.214), ("val_unseen", 24.678)]
)
def test_shortest_path_agent(data, world, split, entries):
    """Perfect but for the 8 unseen references that are no shortest paths; means over instructions."""
    items, visited, views = shortest_walks(data, world, split)
    first = dict(zip(world.scans, world.first_row, strict=False))
    scores: dict[str, dict[str, list]] = {"clean": {}, "published": {}}
    weights: list[int] = []
    for scan in dict.fromkeys(i["scan"] for i in items):
        own = [b for b, i in enumerate(items) if i["scan"] == scan]
        graph = data.graphs[scan]
        clean = [[v - first[scan] for v in visited[b]] for b in own]
        published = [published_trajectory(c, views[b]) for c, b in zip(clean, own, strict=True)]
        reference = [[graph.index[v] for v in items[b]["path"]] for b in own]
        weights += [len(items[b]["instructions"]) for b in own]
        for name, walks in (("clean", clean), ("published", published)):
            for metric, values in episode_metrics(graph.distance_m, walks, reference).items():
                scores[name].setdefault(metric, []).extend(values)
    mean = {
        name: {m: float(np.average(v, weights=weights)) for m, v in own.items()}
        for name, own in scores.items()
    }
    assert sum(weights) == len(data.instructions(split))
    for name, got in mean.items():
        assert got["sr"] == got["osr"] == 1 and got["spl"] == pytest.approx(1) and got["ne"] == 0
        if split == "val_unseen":
            assert 0.99 < got["ndtw"] < 1 and 0.99 < got["cls"] < 1, name
            imperfect = np.array(scores[name]["ndtw"]) < 1 - 1e-9
            assert imperfect.sum() == 8
        else:
            assert got["ndtw"] == pytest.approx(1) and got["cls"] == pytest.approx(1), name
    assert round(mean["published"]["steps"], 3) == entries
    assert mean["clean"]["tl"] == pytest.approx(mean["published"]["tl"])


# --- rounds of the published runs -------------------------------------------------------------


@pytest.mark.parametrize(
    ("epochs", "steps"),
    [
        (5, [233, 227, 209, 253, 227]),
        (2, [95, 94, 87, 104, 94]),
        (10, [460, 451, 413, 503, 451]),
    ],
)
def test_local_steps_of_the_first_five_rounds(epochs, steps):
    clients = [ClientInfo(p, CLIENTS[4 * p], int(CLIENTS[4 * p + 2])) for p in range(61)]
    got = [
        sum(local_steps(c.num_examples, epochs, 64) for c in Published(0.2)(Step(round=r), clients))
        for r in range(1, 6)
    ]
    assert got == steps
