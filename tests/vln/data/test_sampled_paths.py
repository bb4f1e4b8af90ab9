"""Sampled paths: the rule against networkx, the published numbers of R2R, headings, laziness."""

import itertools
import json
import math
import sys
from collections.abc import Sequence

import networkx as nx
import numpy as np
import pytest

from fedsuite.vln.data.batches import Batches
from fedsuite.vln.data.dataset import House, Sample, load_house
from fedsuite.vln.data.graph import load_graph
from fedsuite.vln.data.prepare import prepare_houses
from fedsuite.vln.data.sampled_paths import SampledPaths, pairs_between, sampled_paths
from fedsuite.vln.generator.houses import HouseSettings, write_houses

# Training houses in the order of R2R_train.json: paths left over per house.
TRAIN = """
2898 1080 2728 3899 6232 1908 1844 1716 3432 984 6672 5988 427 2134 2920 1512 1878 1534 4818 1944 1366 2956 711 1624 4400
2354 418 7848 3512 3344 1510 7054 2309 764 5792 586 2840 5822 2149 1847 4212 10656 1394 447 998 8662 4920 1161 2526 1780
7958 7003 761 5908 1385 492 439 260 35 25 0
"""
# Unseen houses: pairs of 4 to 6 edges, paths left over, optimizer steps of one local epoch with 64 samples.
UNSEEN = {
    "oLBMNvg9in8": (2286, 2186, 35),
    "Z6MFQCViBuw": (602, 542, 9),
    "TbHJrupSAjP": (2640, 2540, 40),
    "8194nk5LbLH": (104, 97, 2),
    "QUCTc6BB5sX": (2704, 2614, 41),
    "pLe4wQe7qrG": (358, 352, 6),
    "X7HyMhZNoso": (1312, 1214, 19),
    "zsNo4HB9uLZ": (980, 880, 14),
    "x8F5xyUWy9e": (640, 593, 10),
    "2azQ1b91cZZ": (6572, 6472, 102),
    "EU6Fwq7SyZv": (1384, 1320, 21),
}


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> House:
    """A generated house with annotated paths of two splits."""
    folder = tmp_path_factory.mktemp("generated")
    settings = HouseSettings(num_seen=1, num_unseen=1, paths_per_house=10, unseen_paths=2)
    write_houses(settings, folder)
    prepare_houses(folder, folder / "houses", 1)
    scan = (folder / "connectivity" / "scans.txt").read_text().split()[0]
    return load_house(folder / "houses", folder / "connectivity", folder / "views", scan, 80)


def rule_by_networkx(house: House) -> dict[tuple[int, int], tuple[int, ...]]:
    """(start, goal) -> shortest path, found pair by pair."""
    graph = nx.DiGraph()
    for a, b in zip(*np.nonzero(house.graph.edge), strict=True):
        graph.add_edge(a, b, metres=math.dist(*house.graph.position_m[[a, b]]))
    ends = {(s.path[0], s.path[-1]) for own in house.samples.values() for s in own}
    found = {}
    for start, goal in itertools.permutations(sorted(graph), 2):
        if (start, goal) not in ends and nx.has_path(graph, start, goal):
            path = nx.dijkstra_path(graph, start, goal, weight="metres")
            if 4 <= len(path) - 1 <= 6:
                found[int(start), int(goal)] = tuple(int(p) for p in path)
    return found


@pytest.mark.slow
def test_rule_equals_networkx(house):
    assert {"train", "val_seen"} <= set(house.samples)
    want, got = rule_by_networkx(house), sampled_paths(house, 0, 0)
    assert len(want) > 100 and {len(p) for p in want.values()} == {5, 6, 7}
    assert list(zip(got.start.tolist(), got.goal.tolist(), strict=True)) == sorted(want)
    length_m = house.graph.distance_m
    for sample in got:
        path = want[sample.path[0], sample.path[-1]]
        walked = sum(length_m[a, b] for a, b in itertools.pairwise(sample.path))
        assert sample.path == path or walked == pytest.approx(length_m[path[0], path[-1]])


def test_annotated_pairs_are_left_out(house):
    bare = House(house.graph, house.views, house.candidates, {})
    mine, every = sampled_paths(house, 0, 0), sampled_paths(bare, 0, 0)
    ends = {(s.path[0], s.path[-1]) for own in house.samples.values() for s in own}
    assert len(ends & pairs_of(every)) > 5
    assert pairs_of(every) - ends == pairs_of(mine) and len(mine) == len(pairs_of(mine))


def pairs_of(samples: Sequence[Sample]) -> set[tuple[int, int]]:
    return {(s.path[0], s.path[-1]) for s in samples}


def test_one_way_doors(oak):
    """Only ways that can be walked count; the isolated and the excluded panorama lead nowhere."""
    edge = np.zeros_like(oak.graph.edge)
    for a, b in itertools.pairwise((0, 2, 3, 4, 5, 6, 7, 8)):
        edge[a, b] = True
    line = type(oak.graph)("line", oak.graph.viewpoint_ids, oak.graph.position_m, oak.graph.included, edge)  # fmt: skip
    got = set(zip(*(r.tolist() for r in np.nonzero(pairs_between(line, 4, 6))), strict=True))
    order = (0, 2, 3, 4, 5, 6, 7, 8)
    assert got == {(order[i], order[j]) for i in range(8) for j in range(i + 4, min(i + 7, 8))}


def test_a_sample_has_no_words_and_looks_level(house):
    paths = sampled_paths(house, 0, 0)
    assert isinstance(paths, SampledPaths) and len({s.instr_id for s in paths}) == len(paths)
    sample = paths[3]
    assert sample.tokens.dtype == np.int64 and len(sample.tokens) == 0 and sample.text == ""
    assert sample.scan == house.graph.scan and all(type(p) is int for p in sample.path)
    views = [s.start_view for s in paths]
    assert set(views) == set(range(12, 24)) and type(sample.start_view) is int


def test_headings_depend_on_seed_and_partition_alone(house):
    def views(seed, partition):
        return tuple(sampled_paths(house, seed, partition).view.tolist())

    assert views(0, 0) == views(0, 0)
    assert len({views(0, 0), views(1, 0), views(0, 1)}) == 3


def test_sequence(house):
    paths = sampled_paths(house, 0, 0)
    assert paths[-1].instr_id == paths[len(paths) - 1].instr_id
    assert [s.instr_id for s in paths] == [paths[k].instr_id for k in range(len(paths))]
    with pytest.raises(IndexError):
        paths[len(paths)]
    batch = Batches(paths, 8, False, np.random.default_rng(0)).next()
    assert len(batch) == 8 and all(isinstance(s, Sample) for s in batch)


def test_a_path_takes_few_bytes(house):
    paths = sampled_paths(house, 0, 0)
    own = sum(sys.getsizeof(a.tobytes()) for a in (paths.start, paths.goal, paths.view))
    assert own < 9 * len(paths) + 200


def test_a_tiny_house_has_no_paths(elm):
    near = elm.graph.edge | elm.graph.edge @ elm.graph.edge
    graph = type(elm.graph)(
        "tiny", elm.graph.viewpoint_ids, elm.graph.position_m, elm.graph.included, near
    )
    paths = sampled_paths(House(graph, elm.views, elm.candidates, elm.samples), 0, 0)
    assert len(paths) == 0 and list(paths) == []


# --- Room-to-Room ------------------------------------------------------------------------------


def counts(r2r, splits: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Per house of the splits: pairs of 4 to 6 edges, and paths left over."""
    out: dict[str, tuple[int, int]] = {}
    ends: dict[str, list[dict]] = {}
    for split in splits:
        for item in json.loads((r2r / "annotations" / f"R2R_{split}.json").read_text()):
            ends.setdefault(item["scan"], []).append(item)
    for scan, items in ends.items():
        graph = load_graph(r2r / "connectivity", scan)
        samples = tuple(
            Sample(str(i["path_id"]), scan, tuple(graph.index[v] for v in i["path"]), 12, np.zeros(0), "")
            for i in items
        )  # fmt: skip
        house = House(graph, np.zeros(0), graph.candidates, {"any": samples})
        out[scan] = int(pairs_between(graph, 4, 6).sum()), len(sampled_paths(house, 0, 0))
    return out


@pytest.mark.slow
@pytest.mark.needs_shared
def test_r2r_training_houses(r2r):
    got = counts(r2r, ("train", "val_seen"))
    assert [left for _, left in got.values()] == [int(n) for n in TRAIN.split()]
    assert sum(every for every, _ in got.values()) == 181_782
    assert sum(left for _, left in got.values()) == 176_776


@pytest.mark.needs_shared
def test_r2r_unseen_houses(r2r):
    got = counts(r2r, ("val_unseen",))
    assert {s: (*n, math.ceil(n[1] / 64)) for s, n in got.items()} == UNSEEN
    assert sum(n for n, _ in got.values()) == 19_582 and sum(n for _, n in got.values()) == 18_810
