"""Reader and checker of networks and mixing matrices that users bring.

Three forms:

    network JSON   {"name": ..., "nodes": [[label, latitude, longitude] or label, ...],
                    "links": [[i, j, distance_km], ...]}
    matrix JSON    [[...], ...] or {"labels": [...], "matrix": [[...], ...]}
    matrix CSV     rows of numbers; labels may stand in a first line, then also in front of every row

A matrix is N x N, row = receiver. If all its entries are 0 or 1 it says only who hears whom (entry (i, j) = 1: silo i
hears silo j); otherwise it is the mixing matrix itself, non-negative with rows that sum to 1. Rows are counted from 1.
"""

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from fedsuite.driving.topology.underlay import Network
from fedsuite.errors import InputError
from fedsuite.settings.values import is_number
from fedsuite.storage.files import check_readable
from fedsuite.storage.read_once import read_once

ROW_SUM_TOLERANCE = 1e-6


def check_stochastic(
    matrix: np.ndarray, name: str, labels: Sequence[str] | None = None, *, signed: bool = False
) -> np.ndarray:
    """The matrix as float64 [N, N] if it can mix models: finite, square, non-negative unless `signed`, rows that sum to 1.

    InputError names the first faulty row.
    """
    a = np.asarray(matrix, dtype=np.float64)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not a.size:
        raise InputError(f"{name}: expected a square matrix, got shape {a.shape}; give N rows of N")
    for i, row in enumerate(a):
        where = f"{name}: row {i + 1}" + (f" ({labels[i]})" if labels is not None else "")
        if not np.isfinite(row).all():
            j = int(np.argmin(np.isfinite(row)))
            raise InputError(f"{where}: entry {j + 1} is {row[j]}; every entry must be a number")
        if not signed and row.min() < 0:
            j = int(row.argmin())
            raise InputError(f"{where}: entry {j + 1} is {row[j]:g}; weights must be >= 0")
        if abs(row.sum() - 1) > ROW_SUM_TOLERANCE:
            cure = "divide the row by its sum" if row.sum() > 0 else "give it weights that sum to 1"
            raise InputError(f"{where}: sums to {row.sum():.6g}; {cure}")
    return a


@read_once(lambda path: [path], kept=32)
def read_network(path: Path) -> Network:
    """A network or matrix file (.json, .csv); InputError names what is wrong with it."""
    if path.suffix.lower() not in (".json", ".csv"):
        raise InputError(f"{path}: expected a .json or .csv file; rename or convert it")
    check_readable(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        content = json.loads(text) if path.suffix.lower() == ".json" else None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}); correct the file or its name"
        ) from None
    if content is None:
        labels, rows = _csv_rows(text, path)
        return _matrix_network(path, rows, labels)
    if isinstance(content, list):
        return _matrix_network(path, content, None)
    if isinstance(content, dict) and "matrix" in content:
        return _matrix_network(path, content["matrix"], content.get("labels"))
    if isinstance(content, dict) and {"nodes", "links"} <= content.keys():
        return _linked_network(path, content)
    raise InputError(f"{path}: expected rows of a matrix, or an object with 'nodes' and 'links'")


def _csv_rows(text: str, path: Path) -> tuple[list[str] | None, list[list[str]]]:
    """Labels, if the first line holds them, and the cells of all other lines."""
    lines = [
        [c.strip() for c in row]
        for row in csv.reader(text.splitlines())
        if any(map(str.strip, row))
    ]
    if not lines:
        raise InputError(f"{path}: is empty; give N rows of N numbers")
    if any(";" in cell for cell in lines[0]):
        raise InputError(f"{path}: row 1 has ';' in it; separate the numbers by commas")
    if any(is_number(cell) for cell in lines[0]):
        return None, lines
    labels, rows = lines[0], lines[1:]
    if rows and all(not is_number(row[0]) for row in rows):
        labels, rows = labels[-len(rows) :], [row[1:] for row in rows]
    return labels, rows


def _numbers(path: Path, rows: object) -> np.ndarray:
    """float64 [N, N]."""
    if not isinstance(rows, list) or not rows or not all(isinstance(r, list) for r in rows):
        raise InputError(f"{path}: expected N rows of N numbers; write each row as a list")
    for i, row in enumerate(rows):
        if len(row) != len(rows):
            raise InputError(
                f"{path}: row {i + 1} has {len(row)} entries, but there are {len(rows)} rows; "
                "give a square matrix"
            )
        bad = next((j for j, cell in enumerate(row) if not is_number(cell)), None)
        if bad is not None:
            raise InputError(f"{path}: row {i + 1}, entry {bad + 1}: {row[bad]!r} is not a number")
    return np.array([[float(cell) for cell in row] for row in rows])


def _labels(path: Path, labels: object, size: int) -> tuple[str, ...]:
    if labels is None:
        return tuple(f"silo {i + 1}" for i in range(size))
    names = tuple(map(str, labels)) if isinstance(labels, list) else ()
    if len(names) != size or len(set(names)) != size:
        raise InputError(f"{path}: expected {size} distinct labels, got {labels!r}; correct them")
    return names


def hearing_weights(hears: np.ndarray) -> np.ndarray:
    """Mixing matrix of a 0/1 matrix: Metropolis weights if symmetric, else equal weights over oneself and those heard."""
    linked = hears.astype(bool) & ~np.eye(len(hears), dtype=bool)
    degree = linked.sum(axis=1)
    if (linked == linked.T).all():
        a = np.where(linked, 1.0 / (1 + np.maximum(degree[:, None], degree[None, :])), 0.0)
    else:
        a = linked / (1.0 + degree[:, None])
    np.fill_diagonal(a, 1 - a.sum(axis=1))
    return a


def _matrix_network(path: Path, rows: object, names: object) -> Network:
    matrix = _numbers(path, rows)
    labels = _labels(path, names, len(matrix))
    binary = bool(np.isin(matrix, (0.0, 1.0)).all())
    weights = hearing_weights(matrix) if binary else check_stochastic(matrix, str(path), labels)
    size = len(labels)
    heard = nx.DiGraph([(int(j), int(i)) for i, j in np.argwhere(weights > 0) if i != j])
    heard.add_nodes_from(range(size))
    rows_by_name = [f"row {i + 1} ({label})" for i, label in enumerate(labels)]
    check_connected(path, heard, rows_by_name, "join them by weights > 0")
    underlay: nx.Graph[int] = nx.Graph()
    underlay.add_nodes_from(range(size))
    underlay.add_edges_from(sorted((min(e), max(e)) for e in heard.edges))
    return Network(path.stem, labels, None, underlay, weights)


def check_connected(
    path: Path, graph: "nx.DiGraph[Any]", labels: Sequence[str], cure: str = "add a link"
) -> None:
    """InputError that names silos whose models never reach silo 1, or that silo 1's model never reaches, and the cure."""
    for unreachable, direction in (
        (set(graph) - {0} - nx.descendants(graph, 0), "from"),
        (set(graph) - {0} - nx.ancestors(graph, 0), "to"),
    ):
        if unreachable:
            names = ", ".join(labels[i] for i in sorted(unreachable)[:5])
            more = f" and {len(unreachable) - 5} more" if len(unreachable) > 5 else ""
            raise InputError(
                f"{path}: not connected: no path {direction} {labels[0]} "
                f"{'to' if direction == 'from' else 'from'} {names}{more}; {cure}"
            )


def _linked_network(path: Path, content: dict[str, Any]) -> Network:
    nodes, links = content["nodes"], content["links"]
    if not isinstance(nodes, list) or not isinstance(links, list) or not nodes:
        raise InputError(f"{path}: 'nodes' and 'links' must be lists, 'nodes' not empty")
    labels = _labels(path, [n[0] if isinstance(n, list) and n else n for n in nodes], len(nodes))
    position_deg = _positions(path, nodes)
    underlay: nx.Graph[int] = nx.Graph()
    underlay.add_nodes_from(range(len(nodes)))
    for number, link in enumerate(links, 1):
        i, j, km = _link(path, number, link, len(nodes))
        underlay.add_edge(i, j, distance_km=km)
    check_connected(path, underlay.to_directed(as_view=True), labels)
    name = str(content.get("name", path.stem))
    return Network(name, labels, position_deg, underlay)


def _link(path: Path, number: int, link: object, size: int) -> tuple[int, int, float]:
    good = isinstance(link, list) and len(link) == 3 and all(map(is_number, link))
    if good and isinstance(link, list):
        i, j, km = link
        whole = isinstance(i, int) and isinstance(j, int) and 0 <= min(i, j) < max(i, j) < size
        if whole and math.isfinite(float(km)) and float(km) >= 0:
            return i, j, float(km)
    raise InputError(
        f"{path}: link {number}: expected [i, j, distance_km] with 0 <= i != j < {size} "
        f"and distance_km >= 0, got {link!r}; correct it"
    )


def _positions(path: Path, nodes: list[Any]) -> np.ndarray | None:
    """[N, 2] latitude and longitude, or None if no node has them."""
    given = [isinstance(n, list) and len(n) == 3 and all(map(is_number, n[1:])) for n in nodes]
    if all(given):
        return np.array([[float(n[1]), float(n[2])] for n in nodes])
    bare = [not isinstance(n, list) or len(n) == 1 for n in nodes]
    if all(bare):
        return None
    raise InputError(
        f"{path}: node {given.index(False) + 1}: expected [label, latitude, longitude] "
        f"for every node or for none, got {nodes[given.index(False)]!r}; correct it"
    )
