"""The shape of the tree: no import circles, no file that is two, few rooms with few arrows between them.

A room is a top-level folder, or what lies in fedsuite/: a folder, or a file by itself. An arrow from one to another is any
number of imports.
"""

import statistics
from collections import Counter
from functools import cache
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).parents[1]
PACKAGES = ("fedsuite", "strategies", "clients", "simulations")
LONGEST_FILE, MEDIAN_FILE = 250, 110
FACE = "fedsuite"  # whose names are imported when they are asked for
ROOMS, ARROWS, LOOSE, SAME_NAME = 28, 150, 12, 3
OFTEN = {"__init__", "config", "metrics"}  # names that every system has


def sources() -> list[Path]:
    return [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@cache
def imports_of(*packages: str) -> nx.DiGraph:
    """From every module to those that it imports, without the face."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    return nx.DiGraph(
        (module, imported)
        for module in graph.modules - {FACE}
        for imported in graph.find_modules_directly_imported_by(module) - {FACE}
    )


def room_of(module: str) -> str:
    top, *rest = module.split(".")
    return top if top != "fedsuite" or not rest else f"fedsuite.{rest[0]}"


def test_no_module_imports_itself_by_a_detour() -> None:
    imports = imports_of(*PACKAGES)
    assert len(imports) > 200
    circles = [sorted(c) for c in nx.strongly_connected_components(imports) if len(c) > 1]
    assert circles == []


def test_rooms_are_few_and_no_import_goes_back_up() -> None:
    imports = imports_of(*PACKAGES, "benchmarks")
    rooms = {room_of(module) for module in imports}
    arrows = nx.DiGraph(
        (room_of(a), room_of(b)) for a, b in imports.edges if room_of(a) != room_of(b)
    )
    assert 20 < len(rooms) <= ROOMS
    assert arrows.number_of_edges() <= ARROWS
    assert nx.is_directed_acyclic_graph(arrows)


def test_few_files_lie_loose_in_the_cores() -> None:
    assert len([*(ROOT / "fedsuite").glob("*.py")]) <= LOOSE


def test_a_name_stands_for_few_files() -> None:
    names = Counter(path.stem for path in sources())
    assert {n: c for n, c in names.items() if c > SAME_NAME and n not in OFTEN} == {}


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    long = {str(p.relative_to(ROOT)): lines_of(p) for p in sources() if lines_of(p) > LONGEST_FILE}
    assert long == {}


def test_files_are_short_on_the_whole() -> None:
    real = [n for n in map(lines_of, sources()) if n > 5]  # not the packages' own lines
    assert statistics.median(real) <= MEDIAN_FILE
