"""A folder as a user of FedVLN has it, in which the shipped configurations are played for a round each.

It holds small Room-to-Room and Room-across-Room data at the places that the TOMLs name, with view features of the
published widths under the files' own names. What a TOML goes on from (start-from, speaker-from) is played first, so
that stages are chained as the files say. Nothing but sizes and the number of rounds is overridden. Of seeds the first is
played; of variants that differ by a rule alone, which has tests of its own, the few in PLAYED. All others get ready: their
data, their first model and their strategy are made, with every check that comes before training.
"""

import gzip
import json
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fedsuite.runs.folder import RunFolder, read_stored_config, variant_of
from fedsuite.settings.config import flatten, read_config
from fedsuite.storage.progress import silent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.graph import load_graph
from fedsuite.vln.data.sources import open_sources
from simulations.engines.ray.placement import Resources
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request, read_toml
from simulations.experiments.running import run_request
from simulations.experiments.variants import runs_of
from tests.conftest import random_items, tsv_line, write_grid
from tests.harness import full_keys

TOMLS = Path(__file__).parents[1] / "simulations" / "fedvln"
FILES = {p.stem: p for p in sorted(TOMLS.glob("*.toml"))}
GOES_ON_FROM = {"start-from", "speaker-from"}
SIZES = full_keys(
    FedVLNConfig,
    {
        "generated-seen-houses": 2, "generated-unseen-houses": 2, "generated-paths-per-house": 6, "hidden-size": 16,
        "word-embedding-size": 8, "action-embedding-size": 4, "angle-feature-size": 8, "max-actions": 6,
        "train-max-actions": 4, "max-generated-length": 6, "batch-size": 16, "local-epochs": 1, "num-rounds": 1,
    },
)  # fmt: skip
AS_SHIPPED = {  # by file: merge rules need so many; a step for the head and one for the body
    "backdoor": {"data.generated-seen-houses"},
    "personal": {"federation.local-epochs"},
}
# By file, variants that are played: a poisoned visit, and triggers alone with another decoder.
PLAYED = {"backdoor": ("mean", "pba-clean")}
# Two seen and two unseen houses of 2 x 6 places: number of paths by split.
SEEN, UNSEEN = {"train": 5, "val_seen": 2}, {"val_unseen": 2}
HOUSES = {"oak": SEEN, "elm": SEEN, "ash": UNSEEN, "fir": UNSEEN}
SEMANTIC_WIDTH = 200  # of features whose width the file does not say


def tables_of(name: str) -> dict[str, dict[str, Any]]:
    """Label -> keys of every run that a shipped file describes, as written."""
    return {run.label: run.table for run in runs_of(read_toml(FILES[name]), name)}


def first_seeds(name: str) -> dict[str, str]:
    """Variant -> label of its run with the first seed."""
    return {variant_of(label): label for label in reversed(tables_of(name))}


def played_of(name: str) -> list[str]:
    """Labels of the runs that are played, as the file lists them."""
    found = first_seeds(name)
    chosen = [found[variant] for variant in PLAYED.get(name, found)]
    return [label for label in tables_of(name) if label in chosen]


def write_annotations(folder: Path, connectivity: Path) -> Path:
    """The same paths as R2R and as RxR annotate them; returns the folder's connectivity/."""
    splits: dict[str, list[dict[str, Any]]] = {"train": [], "val_seen": [], "val_unseen": []}
    for number, (scan, paths) in enumerate(HOUSES.items()):
        write_grid(connectivity, scan, rows=2, columns=6, seed=number)
        graph = load_graph(connectivity, scan)
        for split, count in paths.items():
            first = 1000 * number + 100 * len(split)
            splits[split] += random_items(graph, count, first, seed=first)
    (connectivity / "scans.txt").write_text("\n".join(HOUSES) + "\n")
    folder.mkdir()
    for split, items in splits.items():
        (folder / f"R2R_{split}.json").write_text(json.dumps(items))
        guides = [
            json.dumps({**item, "instruction_id": 10 * item["path_id"] + k, "language": "en-US", "instruction": text})
            for item in items
            for k, text in enumerate(item["instructions"])
        ]  # fmt: skip
        with gzip.open(folder / f"rxr_{split}_guide.jsonl.gz", "wt") as file:
            file.write("\n".join(guides) + "\n")
    return connectivity


def write_features(file: Path, width: int, connectivity: Path) -> None:
    """Made-up views of every panorama, as TSV or HDF5 by the file's name."""
    rng = np.random.default_rng(width)
    views = {
        (scan, viewpoint): rng.random((36, width), np.float32)
        for scan in HOUSES
        for viewpoint in load_graph(connectivity, scan).viewpoint_ids
    }
    if file.suffix == ".tsv":
        file.write_text(
            "".join(tsv_line(*place, values) for place, values in views.items()), encoding="utf-8"
        )
        return
    with h5py.File(file, "w") as entries:
        for (scan, viewpoint), values in views.items():
            entries[f"{scan}_{viewpoint}"] = values


@dataclass
class Desk:
    """A user's folder, in which the shipped configurations are played or got ready, after those they go on from."""

    folder: Path
    played: set[str] = field(default_factory=set)

    def play(self, name: str) -> dict[str, FedVLNConfig]:
        """The runs of a file that are played; their settings by label."""
        self._play_once(name)
        return {label: self.settings(name, label) for label in played_of(name)}

    def get_ready(self, name: str) -> list[str]:
        """All that comes before training, of every variant that is not played; settings alone of its other seeds. Labels."""
        left = [label for label in first_seeds(name).values() if label not in played_of(name)]
        plans = plan_experiment(self._request(name, [], dry=True)).plans
        for plan in (plans[label] for label in left):
            plan.system.make_strategy(plan.settings, plan.system.prepare(plan.settings, silent))
        return left

    def _play_once(self, name: str) -> None:
        """The runs of a file, and before them all that they go on from."""
        if name in self.played:
            return
        self.played.add(name)
        for table in tables_of(name).values():
            for key in GOES_ON_FROM & table.keys():
                self._play_once(Path(table[key]).parts[1])
        only = played_of(name) if len(played_of(name)) < len(tables_of(name)) else []
        run_request(self._request(name, only), "inprocess", Resources())

    def _request(self, name: str, only: list[str], dry: bool = False) -> Request:
        """Runs of a file, at small sizes."""
        varied = flatten(read_toml(FILES[name]).get("sweep", {}).get("vary", {}))
        left = varied.keys() | AS_SHIPPED.get(name, set())
        sizes = [f"{k}={v}" for k, v in SIZES.items() if k not in left]
        return Request(FILES[name], sizes, only=only, dry=dry)

    def settings(self, name: str, label: str) -> FedVLNConfig:
        """What a run was played with."""
        return read_config(FedVLNConfig, read_stored_config(RunFolder(self.run(name, label))))

    def run(self, name: str, label: str) -> Path:
        """A run's folder."""
        named = read_toml(FILES[name]).get("name", f"fedvln-{name}")
        return self.folder / "runs" / named / label


@contextmanager
def set_up(folder: Path) -> Iterator[Desk]:
    """The folder, filled; the working directory as long as it lasts."""
    for name in ("r2r", "rxr"):
        data = folder / "data" / name
        data.mkdir(parents=True)
        write_annotations(data / "annotations", data / "connectivity")
    widths = {
        table["data.features"]: table.get("data.feature-size", SEMANTIC_WIDTH)
        for name in FILES
        for table in tables_of(name).values()
        if "data.features" in table
    }
    for file, width in widths.items():
        write_features(folder / file, width, folder / "data" / "r2r" / "connectivity")
    with chdir(folder):
        yield Desk(folder)
    open_sources.cache_clear()
