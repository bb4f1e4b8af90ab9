"""The shape of the tree: no import circles, no file that is two, rooms that are short enough to read."""

import statistics
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).parents[1]
PACKAGES = ("fedsuite", "strategies", "clients", "simulations")
LONGEST_FILE, MEDIAN_FILE = 250, 110


def sources() -> list[Path]:
    return [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = nx.DiGraph(
        (module, imported)
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    )
    assert len(imports) > 200
    circles = [sorted(c) for c in nx.strongly_connected_components(imports) if len(c) > 1]
    assert circles == []


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    long = {str(p.relative_to(ROOT)): lines_of(p) for p in sources() if lines_of(p) > LONGEST_FILE}
    assert long == {}


def test_files_are_short_on_the_whole() -> None:
    real = [n for n in map(lines_of, sources()) if n > 5]  # not the packages' own lines
    assert statistics.median(real) <= MEDIAN_FILE
