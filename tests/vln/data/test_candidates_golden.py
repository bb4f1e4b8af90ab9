"""The tables of candidates against recordings of the original simulator: all viewpoints of the 90 R2R houses."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.vln.data.graph import NUM_VIEWS, Candidates, NavGraph, load_graph

pytestmark = pytest.mark.needs_shared
TOLERANCE_RAD = 1e-6


@pytest.fixture(scope="module")
def golden(shared: Path) -> Path:
    folder = shared / "golden" / "mattersim"
    if not folder.is_dir():
        pytest.skip(f"recordings not found at {folder}")
    return folder


@pytest.fixture(scope="module")
def graphs(r2r: Path) -> dict[str, NavGraph]:
    scans = (r2r / "connectivity" / "scans.txt").read_text().split()
    return {scan: load_graph(r2r / "connectivity", scan) for scan in scans}


def recorded(file: Path) -> Any:
    with gzip.open(file) as stream:
        return json.load(stream)


def in_order_of_discovery(level: list[list[int]], others: dict[str, list[int]]) -> list[int]:
    """Neighbours as a scan of views 0..35 meets them; `others`: rows whose order is not the level row's."""
    views = [others.get(str(v), level[v % 12]) for v in range(NUM_VIEWS)]
    return list(dict.fromkeys(ix for view in views for ix in view))


@pytest.mark.slow
def test_all_places_list_their_neighbours_in_the_recorded_order(
    golden: Path, graphs: dict[str, NavGraph]
) -> None:
    lists, places = recorded(golden / "view_sweep.json.gz")["lists"], 0
    for scan, graph in graphs.items():
        for ix, (level, others) in lists[scan].items():
            row = graph.candidates.viewpoint[int(ix)]
            assert row[row >= 0].tolist() == in_order_of_discovery(level, others), (scan, ix)
            places += 1
    assert places == 10_567


def errors_rad(table: Candidates, state: list[Any]) -> list[float]:
    """How far a recorded state's neighbours stand from where the tables have them: headings, elevations."""
    _, here, _, heading, elevation, neighbours = state
    slots = {int(ix): slot for slot, ix in enumerate(table.viewpoint[here]) if ix >= 0}
    off = []
    for ix, relative_heading, relative_elevation, _ in neighbours:
        turn = table.heading_rad[here, slots[ix]] - heading - relative_heading
        off.append(abs((turn + np.pi) % (2 * np.pi) - np.pi))
        off.append(abs(table.elevation_rad[here, slots[ix]] - elevation - relative_elevation))
    return off


@pytest.mark.parametrize("name", ["discrete_single", "batch8_discrete", "continuous_single"])
def test_directions_are_the_recorded_ones(
    golden: Path, graphs: dict[str, NavGraph], name: str
) -> None:
    off = []
    for episode in recorded(golden / f"{name}.json.gz")["episodes"]:
        scans = episode.get("scans", [episode.get("scan")])
        for step in [episode["init"], *episode["states"]]:
            states = step if "scans" in episode else [step]
            for scan, state in zip(scans, states, strict=True):
                off += errors_rad(graphs[scan].candidates, state)
    assert len(off) > 1000 and max(off) < TOLERANCE_RAD, max(off)
