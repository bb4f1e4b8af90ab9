"""Networks and matrices of users: all forms, and one line for every fault."""

import json

import numpy as np
import pytest

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.topology import build_overlay, cycle_time_ms, load_network
from fedsuite.errors import InputError
from simulations.cdl.system import SYSTEM
from tests.harness import changed
from tests.schedules import make_schedule

NODES = [["Lyon", 45.8, 4.8], ["Turin", 45.1, 7.7], ["Genoa", 44.4, 8.9]]
LINKS = [[0, 1, 250.0], [1, 2, 120.5]]


def written(folder, content, name="net.json"):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_links(tmp_path):
    path = written(tmp_path, {"name": "alps", "nodes": NODES, "links": LINKS})
    net = load_network(path)
    assert (net.name, net.labels, net.num_silos) == ("alps", ("Lyon", "Turin", "Genoa"), 3)
    assert net.position_deg.tolist() == [[45.8, 4.8], [45.1, 7.7], [44.4, 8.9]]
    assert cycle_time_ms(net, "mst", 1e6, 1.0) == pytest.approx(1 + 4 + 0.0085 * 250 + 1)
    assert make_schedule(net, "custom").matrix(1)[0] == pytest.approx([2 / 3, 1 / 3, 0])
    bare = load_network(written(tmp_path, {"nodes": ["a", "b"], "links": [[0, 1, 1]]}))
    assert bare.position_deg is None and bare.labels == ("a", "b") and bare.name == "net"


def test_weights(tmp_path):
    weights = [[0.5, 0.5, 0], [0, 0.5, 0.5], [0.25, 0, 0.75]]
    for content in (weights, {"labels": ["a", "b", "c"], "matrix": weights}):
        net = load_network(written(tmp_path, content))
        assert make_schedule(net, "custom").matrix(1).tolist() == weights
    assert build_overlay(net, "custom").edges == ((0, 2), (1, 0), (2, 1))
    with pytest.raises(InputError, match="has no distances"):
        cycle_time_ms(net, "custom")


@pytest.mark.parametrize(
    "text",
    [
        "0,1,0\n1,0,1\n0,1,0\n",
        "x, y, z\n0,1,0\n1,0,1\n0,1,0\n",
        ",x,y,z\nx,0,1,0\ny,1,0,1\nz,0,1,0\n",
    ],
)
def test_who_hears_whom(tmp_path, text):
    net = load_network(written(tmp_path, text, "net.csv"))
    third = 1 / 3
    assert make_schedule(net, "custom").matrix(1) == pytest.approx(
        np.array([[2 * third, third, 0], [third, third, third], [0, third, 2 * third]])
    )
    assert net.labels == (("x", "y", "z") if "x" in text else ("silo 1", "silo 2", "silo 3"))


def test_one_way_hearing(tmp_path):
    net = load_network(written(tmp_path, [[0, 1, 1], [1, 0, 0], [1, 0, 0]]))
    assert make_schedule(net, "custom").matrix(1)[0] == pytest.approx([1 / 3] * 3)
    net = load_network(written(tmp_path, [[0, 0, 1], [1, 0, 0], [1, 1, 0]]))
    assert make_schedule(net, "custom").matrix(1).tolist() == [
        [0.5, 0, 0.5],
        [0.5, 0.5, 0],
        [pytest.approx(1 / 3)] * 3,
    ]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("1,0\n0.5,0.5,0\n", "a.csv", "row 2 has 3 entries, but there are 2 rows; give a square"),
        ("0.5,0.5\n0.5,half\n", "a.csv", "row 2, entry 2: 'half' is not a number"),
        (
            "x,y\n0.5,0.5\n0.5,0.4\n",
            "a.csv",
            r"row 2 \(y\): sums to 0.9; divide the row by its sum",
        ),
        (
            "0.5,0.5\n1.5,-0.5\n",
            "a.csv",
            r"row 2 \(silo 2\): entry 2 is -0.5; weights must be >= 0",
        ),
        ("0,0\n0.5,0.5\n", "a.csv", r"row 1 \(silo 1\): sums to 0; give it weights that sum to 1"),
        ("0.5;0.5\n0.5;0.5\n", "a.csv", "row 1 has ';' in it; separate the numbers by commas"),
        ("", "a.csv", "is empty"),
        ([[0.5, 0.5], [None, 1]], "a.json", "row 2, entry 1: None is not a number"),
        ([[0.5, 0.5], [0.5, float("nan")]], "a.json", r"row 2 \(silo 2\): entry 2 is nan"),
        (
            [[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]],
            "a.json",
            r"no path from row 1 \(silo 1\) to row 2 \(silo 2\), row 3 \(silo 3\)",
        ),
        (
            [[1, 0], [0.5, 0.5]],
            "a.json",
            r"no path to row 1 \(silo 1\) from row 2 \(silo 2\); join them",
        ),
        (
            {"labels": ["x", "x"], "matrix": [[0, 1], [1, 0]]},
            "a.json",
            "expected 2 distinct labels",
        ),
        ({"nodes": NODES, "links": LINKS[:1]}, "a.json", "no path from Lyon to Genoa; add a link"),
        (
            {"nodes": NODES, "links": [[0, 3, 1]]},
            "a.json",
            r"link 1: expected \[i, j, distance_km\]",
        ),
        ({"nodes": NODES, "links": [[0, 1, -1]]}, "a.json", "link 1: .* distance_km >= 0, got"),
        (
            {"nodes": [*NODES, "Nice"], "links": LINKS},
            "a.json",
            "node 4: expected .label, latitude",
        ),
        ({"nodes": [], "links": []}, "a.json", "'nodes' not empty"),
        ({"edges": []}, "a.json", "expected rows of a matrix, or an object with 'nodes'"),
        ("[[1,", "a.json", "cannot be read"),
        ("0", "a.txt", "expected a .json or .csv file"),
    ],
)
def test_faults_in_one_line(tmp_path, content, name, message):
    path = written(tmp_path, content, name)
    with pytest.raises(InputError, match=message) as caught:
        load_network(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("third_row", "message"),
    [
        ("0,0.4,0.5,0", r"row 3 \(silo 3\): sums to 0.9; divide the row by its sum"),
        ("0,0.7,0.5,-0.2", r"row 3 \(silo 3\): entry 4 is -0.2; weights must be >= 0"),
        ("0,0,1,0", r"not connected: no path from row 1 \(silo 1\) to row 3 \(silo 3\), row 4"),
    ],
)
def test_a_run_with_a_faulty_matrix_is_refused(tmp_path, third_row, message):
    """The ring of four silos, its third row spoilt."""
    good, faulty = tmp_path / "good.csv", tmp_path / "faulty.csv"
    rows = ("0.5,0,0,0.5", "0.5,0.5,0,0", "0,0.5,0.5,0", "0,0,0.5,0.5")
    good.write_text("\n".join(rows))
    faulty.write_text("\n".join((*rows[:2], third_row, rows[3])))
    SYSTEM.validate(changed(CDLConfig(), scenario="custom", underlay_file=str(good)))
    with pytest.raises(InputError, match=f"faulty.csv: {message}") as caught:
        SYSTEM.validate(changed(CDLConfig(), scenario="custom", underlay_file=str(faulty)))
    assert "\n" not in str(caught.value)


def test_links_in_any_order_of_ends(tmp_path):
    path = written(tmp_path, {"nodes": NODES, "links": [[1, 0, 250], [2, 1, 120.5]]})
    assert load_network(path).underlay.edges[0, 1]["distance_km"] == 250
