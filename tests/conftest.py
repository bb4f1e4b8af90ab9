"""Fixtures of all tests: reference data if it is there, and three small houses made by hand."""

import base64
import io
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from matplotlib.figure import Figure
from PIL import Image
from xdist.scheduler import LoadFileScheduling

from fedsuite.vln.data.dataset import House, join_houses, load_house
from fedsuite.vln.data.graph import NavGraph, load_graph
from fedsuite.vln.data.prepare import prepare_houses, prepare_views
from fedsuite.vln.environment import World
from fedsuite.vln.mattersim import process_nav_graphs
from simulations.commands import cli as command
from tests.harness import exit_code_of
from tests.shared_data import cache, plays  # noqa: F401
from tests.watching import settle

# A machine that is busy with something else is slow, and no test fails for that.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

TESTS = Path(__file__).parent
SHARED = TESTS.parents[1] / "shared"
WHOLE_RUNS = ("deployed", "golden", "mistakes", "on_ray", "simulations")
FEATURE_SIZE = 8
MAX_LENGTH = 20
WORDS = ("walk", "turn", "left", "right", "past", "the", "door", "stop", "stairs", "kitchen")
# scan, rows of the grid, columns of the grid, number of paths by split
PLAN = (
    ("oak", 3, 4, {"train": 6, "val_seen": 2}),
    ("elm", 2, 3, {"train": 1}),
    ("ash", 3, 3, {"val_unseen": 3}),
)
SCANS = tuple(row[0] for row in PLAN)


def _dot() -> bytes:
    with io.BytesIO() as file:
        Image.new("L", (1, 1)).save(file, "png")
        return file.getvalue()


DOT = _dot()
ABOUT_TERMINALS = "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"


def pytest_configure() -> None:
    """What children would inherit from whoever starts the tests: a shell starts background jobs with Ctrl-C ignored; modes
    of new files; what the environment says of terminals."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o022)
    os.environ["TERM"] = "xterm-256color"
    for name in ABOUT_TERMINALS:
        os.environ.pop(name, None)


@pytest.hookimpl(tryfirst=True)  # while slow tests that are not wanted are still there
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders of whole runs are slow, those of reports paint. Files that start Ray go first, then those with slow tests: a
    long one at the end would leave workers idle.
    """
    for item in items:
        folders = item.path.relative_to(TESTS).parts
        if folders[0] in WHOLE_RUNS:
            item.add_marker("slow")
        if "report" in folders:
            item.add_marker("drawn")
    ray, slow = (
        {item.path for item in items if item.get_closest_marker(mark)} for mark in ("ray", "slow")
    )
    items.sort(key=lambda item: (item.path not in ray, item.path not in slow))


def pytest_collection_finish() -> None:
    settle()


class FilesAndRay(LoadFileScheduling):
    """Whole files to a worker, as `--dist loadfile`; all of tests/on_ray to one of them."""

    def _split_scope(self, nodeid: str) -> str:
        return "on_ray" if nodeid.startswith("tests/on_ray/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)  # nobody asks for it without pytest-xdist's plugin
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndRay | None:
    return FilesAndRay(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tests run beside one another; one thread each is also what makes sums reproducible."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def own_nav_graphs() -> None:
    """A process's simulators share the graphs of the folder that the first one named: not across test modules."""
    process_nav_graphs.cache_clear()


@pytest.fixture(autouse=True)
def unpainted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawings of runs are made and then not painted, which takes longer than a tiny run: a dot takes their place.

    They are painted in tests that are marked `drawn`, and in all processes that tests start.
    """
    if request.node.get_closest_marker("drawn"):
        return
    paint = Figure.savefig

    def savefig(figure: Figure, file: Any, **how: Any) -> None:
        if how.get("bbox_inches") == "tight" and str(file).endswith(".png"):  # plots.py
            Path(file).write_bytes(DOT)
        else:
            paint(figure, file, **how)

    monkeypatch.setattr(Figure, "savefig", savefig)


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Modules that a test wrote and imported are forgotten: another test's module may have the same name."""
    last = next(reversed(sys.modules))
    yield
    written = str(tmp_path_factory.getbasetemp())
    for name in list(takewhile(lambda name: name != last, reversed(sys.modules))):
        module = sys.modules[name]
        paths = getattr(module, "__path__", ())  # of modules that make up their names: anything
        places = [
            getattr(module, "__file__", None),
            *(paths if isinstance(paths, Iterable) else ()),
        ]
        if any(isinstance(place, str) and place.startswith(written) for place in places):
            del sys.modules[name]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference data next to the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"reference data not found at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def r2r(shared: Path) -> Path:
    """Folder with the R2R annotations and connectivity."""
    folder = shared / "data" / "r2r"
    if not (folder / "annotations" / "R2R_train.json").is_file():
        pytest.skip(f"R2R not found at {folder}")
    return folder


def write_scan(
    folder: Path, scan: str, position_m: np.ndarray, edge: np.ndarray, included: np.ndarray
) -> None:
    """A connectivity file; viewpoint i is called `<scan>-<i>`."""
    rows = []
    for i, place in enumerate(position_m):
        pose = np.eye(4)
        pose[:3, 3] = place
        rows.append(
            {
                "image_id": f"{scan}-{i}",
                "pose": pose.ravel().tolist(),
                "included": bool(included[i]),
                "unobstructed": edge[i].tolist(),
                "visible": edge[i].tolist(),
                "height": 1.5,
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{scan}_connectivity.json").write_text(json.dumps(rows))


def write_grid(folder: Path, scan: str, rows: int, columns: int, seed: int) -> None:
    """A grid with some diagonals; viewpoint 1 is excluded, the last one is far away and isolated."""
    rng = np.random.default_rng(seed)
    count = rows * columns
    place = np.array([(2.3 * (i % columns), 2.3 * (i // columns), 0.0) for i in range(count)])
    place += rng.normal(0, 0.25, place.shape)
    gap = np.linalg.norm(place[:, None] - place[None], axis=-1)
    edge = np.pad((gap > 0) & (gap < 3.3), (0, 1))
    included = np.arange(count + 1) != 1
    write_scan(folder, scan, np.vstack([place, [50.0, 0.0, 0.0]]), edge, included)


def random_items(graph: NavGraph, count: int, first_id: int, seed: int) -> list[dict]:
    """R2R items along shortest paths of 2 to 5 moves."""
    rng = np.random.default_rng(seed)
    size = len(graph.viewpoint_ids)
    pairs = [
        (a, b)
        for a in range(size)
        for b in range(size)
        if np.isfinite(graph.distance_m[a, b]) and 3 <= len(graph.shortest_path(a, b)) <= 6
    ]
    items = []
    for number, pick in enumerate(rng.permutation(len(pairs))[:count]):
        path = graph.shortest_path(*pairs[pick])
        texts = [" ".join(rng.choice(WORDS, rng.integers(2, 9))).capitalize() + "." for _ in "abc"]
        items.append(
            {
                "scan": graph.scan,
                "path_id": first_id + number,
                "path": [graph.viewpoint_ids[i] for i in path],
                "heading": float(rng.uniform(0, 2 * math.pi)),
                "distance": float(graph.distance_m[path[0], path[-1]]),
                "instructions": texts,
            }
        )
    return items


def features_of(scan: str, viewpoint: str) -> np.ndarray:
    """Made-up view features [36, F] of a panorama."""
    rng = np.random.default_rng(list(f"{scan} {viewpoint}".encode()))
    return rng.normal(size=(36, FEATURE_SIZE)).astype(np.float32)


def tsv_line(scan: str, viewpoint: str, values: np.ndarray) -> str:
    """One line of a feature TSV."""
    code = base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
    return "\t".join([scan, viewpoint, "640", "480", "60", code]) + "\n"


def write_data(folder: Path) -> Path:
    """connectivity/, annotations/ and features.tsv of the three houses; returns the folder."""
    splits: dict[str, list[dict]] = {"train": [], "val_seen": [], "val_unseen": []}
    lines = []
    for number, (scan, rows, columns, paths) in enumerate(PLAN):
        write_grid(folder / "connectivity", scan, rows, columns, seed=number)
        graph = load_graph(folder / "connectivity", scan)
        for offset, (split, count) in enumerate(paths.items()):
            first = 100 * number + 50 * offset
            splits[split] += random_items(graph, count, first, seed=first)
        lines += [
            tsv_line(scan, v, features_of(scan, v))
            for v, included in zip(graph.viewpoint_ids, graph.included, strict=True)
            if included
        ]
    (folder / "connectivity" / "scans.txt").write_text("\n".join(SCANS) + "\n")
    (folder / "annotations").mkdir()
    for split, items in splits.items():
        (folder / "annotations" / f"R2R_{split}.json").write_text(json.dumps(items))
    (folder / "features.tsv").write_text("".join(lines))
    return folder


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The three houses as a user has them; every test may damage its own copy."""
    (tmp_path / "data").mkdir()
    return write_data(tmp_path / "data")


@dataclass(frozen=True)
class Prepared:
    """What `fedsuite data prepare` leaves; read-only, shared by all tests."""

    data_dir: Path
    connectivity_dir: Path
    houses_dir: Path
    views_dir: Path
    scans: tuple[str, ...] = SCANS

    def house(self, scan: str) -> House:
        """Open one house."""
        return load_house(self.houses_dir, self.connectivity_dir, self.views_dir, scan, MAX_LENGTH)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The three houses, checked and converted."""
    root = tmp_path_factory.mktemp("prepared")
    (root / "data").mkdir()
    data = write_data(root / "data")
    connectivity, houses, views = data / "connectivity", root / "houses", root / "views"
    prepare_houses(data, houses, min_word_count=2)
    prepare_views(data / "features.tsv", connectivity, views)
    return Prepared(data, connectivity, houses, views)


@pytest.fixture
def oak(prepared: Prepared) -> House:
    """12 viewpoints and an isolated one, 18 training and 6 val-seen samples."""
    return prepared.house("oak")


@pytest.fixture
def elm(prepared: Prepared) -> House:
    """6 viewpoints and an isolated one, 3 training samples."""
    return prepared.house("elm")


@pytest.fixture
def world(oak: House, elm: House) -> World:
    """oak and elm joined."""
    return join_houses([oak, elm])


@pytest.fixture(scope="session")
def scan_writer() -> Callable[..., None]:
    """`write_scan(folder, scan, position_m, edge, included)`."""
    return write_scan


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`call("sweep", ...)` in `tmp_path`, in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, engine: bool = True) -> tuple[int, str, str]:
        options = ["--engine", "inprocess"] if engine else []
        monkeypatch.setattr(sys, "argv", ["fedsuite", *arguments, *options])
        code = exit_code_of(command.main)
        out, err = capsys.readouterr()
        return code, out, err

    return call
