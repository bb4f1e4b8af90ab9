"""Every entry of every JSON document that people bring, of another kind or left out: refused as bad input, or read."""

import copy
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.driving.data.readers import FrameFormat, ReadOptions, pictures, read_drive
from fedsuite.errors import InputError
from fedsuite.fedrl.text2action.own_texts import own_document
from fedsuite.fedrl.text2action.reader import parse_corpus, read_file
from fedsuite.history import HISTORY, TIMINGS, load_run, load_runs
from fedsuite.reports.outcomes import BASELINES, read_baselines
from fedsuite.roster.members import Member, Roster, read_roster, write_roster
from fedsuite.roster.node_report import Part, join, read_part, total_words, write_part
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import read_config
from fedsuite.vln.data.annotations import Form, check_items, read_annotations
from fedsuite.vln.data.graph import load_graph
from fedsuite.vln.data.rxr import read_guides
from simulations.experiments.result_tables import run_record, run_records, run_tables
from simulations.systems import load_system
from tests.driving.data.readers.test_nuscenes import write_scenes
from tests.driving.data.readers.test_tubs_and_archives import record
from tests.fedrl.text2action.test_corpus import small_document
from tests.lerobot_folders import write_lerobot
from tests.mistakes.test_data_sets import GUIDE
from tests.vln.data.test_walking_formats import as_ndh, as_r4r
from tests.written_runs import houses_run, silos_run, write_experiment

ODD: tuple[Any, ...] = (
    None, True, -1, 1.5, 10**400, float("nan"), float("inf"), "", "x", "\ud800", "../a\nb", "9" * 300, [], {}, [1], {"a": 1},
)  # fmt: skip
LEFT_OUT = object()


@dataclass
class Document:
    """A file, who reads it, and whether it is of JSON lines."""

    file: Path
    read: Callable[[], object]
    lines: bool = False

    def content(self) -> Any:
        data = self.file.read_bytes()
        text = (gzip.decompress(data) if self.file.suffix == ".gz" else data).decode()
        return [json.loads(line) for line in text.splitlines()] if self.lines else json.loads(text)

    def write(self, content: Any) -> None:
        text = json.dumps(content)
        if self.lines and isinstance(content, list):
            text = "".join(json.dumps(line) + "\n" for line in content)
        data = text.encode()
        self.file.write_bytes(gzip.compress(data, 1) if self.file.suffix == ".gz" else data)


def places(content: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of objects all entries, of lists the first and the last."""
    yield where
    if isinstance(content, dict):
        for key, value in content.items():
            yield from places(value, (*where, key))
    elif isinstance(content, list):
        for place in sorted({0, len(content) - 1}) if content else ():
            yield from places(content[place], (*where, place))


def with_odd_values(content: Any) -> Iterator[tuple[str, Any]]:
    for where in places(content):
        for value in (*ODD, LEFT_OUT):
            if not where:
                yield repr(value), content if value is LEFT_OUT else value
                continue
            changed = copy.deepcopy(content)
            inner = changed
            for key in where[:-1]:
                inner = inner[key]
            if value is LEFT_OUT:
                del inner[where[-1]]
            else:
                inner[where[-1]] = value
            yield f"{where} = {value!r:.40}", changed


def lerobot(folder: Path) -> Iterator[Document]:
    told = ReadOptions(unit="normalised", own_positive="left")

    def read(drive: Path) -> None:
        found = read_drive(drive, "lerobot", told)
        list(pictures(found, np.ones(len(found), bool), FrameFormat(40)))

    for version in ("v2.1", "v3.0"):
        drive = write_lerobot(folder / version, (3, 2), version, embedded=True)
        yield Document(drive / "meta" / "info.json", lambda drive=drive: read(drive))  # type: ignore[misc]
    old = folder / "v2.1"
    yield Document(old / "meta" / "episodes.jsonl", lambda: read(old), lines=True)


def nuscenes(folder: Path) -> Iterator[Document]:
    def picture(at: Path, names: list[str]) -> None:
        at.mkdir(parents=True, exist_ok=True)
        for name in names:
            (at / name).write_bytes(b"")

    root = write_scenes(folder / "nuscenes", picture, (1,))
    tables = [root / "v1.0-mini" / f"{name}.json" for name in ("scene", "sample", "sample_data")]
    for file in (*tables, root / "can_bus" / "scene-0001_steeranglefeedback.json"):
        yield Document(file, lambda: read_drive(root))


def tubs(folder: Path) -> Iterator[Document]:
    (folder / "images").mkdir()
    for number in range(3):
        (folder / "images" / f"{number}_cam_image_array_.jpg").write_bytes(b"")
    catalog, manifest = folder / "catalog_0.catalog", folder / "manifest.json"
    catalog.write_text("\n".join(record(number) for number in range(3)))
    manifest.write_text(json.dumps({"paths": [catalog.name], "deleted_indexes": [1]}))
    for file in (catalog, manifest):
        yield Document(file, lambda: read_drive(folder), lines=True)


def routes(folder: Path) -> Iterator[Document]:
    """Of CARLA."""
    for name in ("rgb", "measurements"):
        (folder / name).mkdir()
    for number in ("0000", "0001"):
        (folder / "rgb" / f"{number}.png").write_bytes(b"")
        (folder / "measurements" / f"{number}.json").write_text('{"steer": 0.25}')
    yield Document(folder / "measurements" / "0001.json", lambda: read_drive(folder))


def networks(folder: Path) -> Iterator[Document]:
    own = load_system("cdl")
    contents: tuple[Any, ...] = (
        [[0.5, 0.5], [0.5, 0.5]],
        {"matrix": [[0.5, 0.5], [0.5, 0.5]], "labels": ["a", "b"]},
        {"nodes": [["a", 1.0, 2.0], ["b", 3.0, 4.0]], "links": [[0, 1, 5.0]]},
    )
    for number, content in enumerate(contents):
        file = folder / f"{number}.json"
        file.write_text(json.dumps(content))
        keys = {"federation.scenario": "custom", "federation.underlay-file": str(file)}
        settings = read_config(own.config_class, {**keys, "data.num-silos": 2})
        yield Document(file, lambda settings=settings: own.validate(settings))  # type: ignore[misc]


def texts(folder: Path) -> Iterator[Document]:
    whole = small_document()
    corpus = parse_corpus(whole, "a corpus")
    contents = [whole, own_document(corpus, "alpha", "names"), own_document(corpus, "beta", "arguments")]  # fmt: skip
    for number, content in enumerate(contents):
        found = Document(folder / f"{number}.json.gz", lambda: None)
        found.read = lambda file=found.file: read_file(file)  # type: ignore[misc]
        found.write(content)
        yield found


def paths(folder: Path) -> Iterator[Document]:
    """Of instructions, in all the forms that they come in."""
    item = {
        "scan": "oak", "path_id": 7, "path": ["oak-0", "oak-1", "oak-2"], "heading": 0.5, "distance": 4.0,
        "instructions": ["Go on.", "Walk.", "Stop."],
    }  # fmt: skip
    reverie = {**item, "ix": 0, "objId": 3, "id": "7_3", "instructions_l": item["instructions"]}
    nav = [
        {"image_id": f"oak-{i}", "pose": np.eye(4).ravel().tolist(), "included": True, "height": 1.5,
         "unobstructed": [i != k for k in range(3)], "visible": [i != k for k in range(3)]}
        for i in range(3)
    ]  # fmt: skip
    graph = folder / "oak_connectivity.json"
    graph.write_text(json.dumps(nav))
    yield Document(graph, lambda: load_graph(folder, "oak"))
    contents = {"r2r": [item], "ndh": as_ndh([item]), "r4r": as_r4r([item]), "reverie": [reverie]}
    for name, content in contents.items():
        file = folder / f"{name}.json"
        file.write_text(json.dumps(content))

        def read(file: Path = file, form: Form = Form(name)) -> None:  # noqa: B008
            items = read_annotations(file, form)
            if other := {item["scan"] for item in items} - {"oak"}:
                raise InputError(f"{file}: no graph of {other}")
            check_items(file, items, {"oak": load_graph(folder, "oak")})

        yield Document(file, read)
    guides = folder / "rxr_train_guide.jsonl"
    guides.write_text(json.dumps(GUIDE) + "\n")
    yield Document(guides, lambda: read_guides(guides, "en"), lines=True)


def rosters(folder: Path) -> Iterator[Document]:
    """Of every system, as a server reads them."""
    counts = {"train": [9], "val_seen": [2], "val_unseen": [0]}
    houses = (
        Member("oak", "seen", 9, {"houses": ["oak"], "numbers": [0], **counts}),
        Member("elm", "seen", 9, {"houses": ["elm"], "numbers": [1], **counts}),
    )
    silos = (
        Member("oak", "silo", 9, {"silos": [0], "names": ["oak"], "frames": [9]}),
        Member("elm", "silo", 9, {"silos": [1], "names": ["elm"], "frames": [9]}),
    )
    parties = (Member("alpha", "alpha", 50), Member("beta", "beta", 50))
    words = ("<PAD>", "<UNK>", "<EOS>", "go")
    made: dict[str, tuple[Roster, dict[str, Any]]] = {
        "fedvln": (Roster(houses, {"feature-size": 4}, words), {"agent.hidden-size": 8}),
        "cdl": (
            Roster(silos, {"silos": 2}),
            {"federation.scenario": "star", "data.image-size": 40},
        ),
        "fedrl": (Roster(parties, {"score": "success-rate", "world": "gridworld"}), {}),
    }
    for system, (roster, keys) in made.items():
        own, file = load_system(system), folder / f"{system}.json"
        settings = read_config(own.config_class, keys)
        write_roster(file, roster)

        def read(file: Path = file, own: Any = own, settings: Any = settings) -> None:
            own.make_strategy(settings, read_roster(file))

        yield Document(file, read)


def reports(folder: Path) -> Iterator[Document]:
    """What a node says of itself for a roster."""
    part = Part(
        "fedvln", Member("oak", "seen", 9, {"houses": ["oak"]}), {"feature-size": 4}, {"angle-limit": 1.5},
        numbered="numbers", words={"go": 2}, alike={"full lock": "1"}, cures={"full lock": "turn it"},
    )  # fmt: skip
    write_part(file := folder / "part.json", part)
    yield Document(file, lambda: total_words({"another": part, str(file): read_part(file)}))
    yield Document(file, lambda: join({"another": part, str(file): read_part(file)}))


def runs(folder: Path) -> Iterator[Document]:
    """What `fedsuite show` reads of a run."""
    run = RunFolder(houses_run(folder / "run", 0, 0.5))
    run.note(nodes={"oak": {"torch": "2.11.0"}}, placement={"engine": "ray"})
    yield Document(run.status_file, lambda: run_tables(run_record(str(run.path), 3)))


def experiments(folder: Path) -> Iterator[Document]:
    """Of several runs: what a listing, reports and a resume read."""
    for label in ("lan/seed-0", "lan/seed-1"):
        houses_run(folder / label, 0, 0.5)
    file = write_experiment(folder, ["lan/seed-0", "lan/seed-1"]) / "experiment.json"
    record = json.loads(file.read_text())
    for run in record["runs"]:
        run["settings"] = {"seed": 0}
    file.write_text(json.dumps(record))
    yield Document(file, lambda: run_records(folder))
    yield Document(file, lambda: load_runs(folder).look())


def histories(folder: Path) -> Iterator[Document]:
    """What reports, exports and notebooks read of a run."""
    run = houses_run(folder / "run", 0, 0.5)

    def read() -> None:
        found = load_run(run)
        assert len(found.messages) + len(found.evaluations) + len(found.timing) > 0

    for name in (HISTORY, TIMINGS):
        found = Document(run / name, read, lines=True)
        found.write([*{row["kind"]: row for row in found.content()}.values()])  # one of each
        yield found
    for own in (run, silos_run(folder / "silos")):
        yield Document(own / BASELINES, lambda own=own: read_baselines(own))  # type: ignore[misc]


@pytest.mark.parametrize(
    "documents",
    [
        lerobot,
        nuscenes,
        tubs,
        routes,
        networks,
        texts,
        paths,
        rosters,
        reports,
        runs,
        experiments,
        histories,
    ],
)
def test_an_odd_value_is_refused_or_read(
    tmp_path: Path, documents: Callable[[Path], Iterator[Document]]
) -> None:
    for document in documents(tmp_path):
        content = document.content()
        document.read()
        refused = 0
        for what, changed in with_odd_values(content):
            document.write(changed)
            try:
                document.read()
            except InputError as error:
                refused += 1
                assert str(error)
            except Exception as error:
                raise AssertionError(f"{document.file.name}: {what}: {error!r}") from error
        assert refused > 10, document.file
        document.write(content)
        document.read()


def test_what_is_tried() -> None:
    """Every entry of objects, both ends of lists, and all of them left out."""
    tried = [json.dumps(changed) for _, changed in with_odd_values({"a": [1, 2, 3]})]
    assert tried[: len(ODD)] == [json.dumps(value) for value in ODD]
    expected = ["{}", *(f'{{"a": {inner}}}' for inner in ("[]", "[2, 3]", "[1, 2]", '["x", 2, 3]'))]
    assert set(expected) <= set(tried)
