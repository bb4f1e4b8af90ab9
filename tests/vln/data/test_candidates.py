"""The slow 36-view scan: the same world as the tables, house by house (R2R: test_r2r.py)."""

import numpy as np
import pytest
import torch

from fedsuite.vln.data.candidates import candidates_by_simulator
from fedsuite.vln.data.dataset import join_houses, load_house
from fedsuite.vln.mattersim import process_nav_graphs


@pytest.fixture(autouse=True)
def forget_graphs():
    """Simulators of one process share their graphs by scan name."""
    process_nav_graphs.cache_clear()
    yield
    process_nav_graphs.cache_clear()


@pytest.mark.parametrize("scan", ["oak", "elm", "ash"])
def test_scan_equals_closed_form(prepared, scan):
    fast = prepared.house(scan)
    slow = load_house(
        prepared.houses_dir,
        prepared.connectivity_dir,
        prepared.views_dir,
        scan,
        20,
        simulator="graph",
    )
    assert np.array_equal(slow.candidates.viewpoint, fast.candidates.viewpoint)
    assert np.array_equal(slow.candidates.view, fast.candidates.view)
    a, b = join_houses([slow]), join_houses([fast])
    assert torch.equal(a.relative_angle, b.relative_angle)
    assert torch.equal(a.teacher, b.teacher)


def test_excluded_and_isolated_panoramas_have_no_candidates(prepared):
    graph = prepared.house("oak").graph
    table = candidates_by_simulator(prepared.connectivity_dir, graph, "graph")
    assert table.count[1] == 0 and table.count[12] == 0
    assert np.array_equal(table.count, graph.edge.sum(1))


def test_a_house_without_any_edge(tmp_path, scan_writer):
    from fedsuite.vln.data.graph import load_graph

    scan_writer(tmp_path, "hut", np.zeros((1, 3)), np.zeros((1, 1), bool), np.ones(1, bool))
    (tmp_path / "scans.txt").write_text("hut\n")
    graph = load_graph(tmp_path, "hut")
    slow = candidates_by_simulator(tmp_path, graph, "graph")
    assert slow.viewpoint.tolist() == graph.candidates.viewpoint.tolist() == [[-1]]
