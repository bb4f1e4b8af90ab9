"""Which folders are runs, which are experiments of several runs, and what a run is called among others.

An experiment's folder holds experiment.json, which lists its runs; they lie in <variant>/, <variant>/seed-<s>/ or seed-<s>/.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.history.rows import HISTORY
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.values import shown
from fedsuite.storage.files import read_object

FORMAT = 1
EXPERIMENT_FILE = "experiment.json"
_LEVELS = 2  # of folders below an experiment


@dataclass(frozen=True)
class Place:
    """Where a run lies, with full paths. label: its place in its experiment, "variant/seed-0"; "" for a run of none."""

    folder: Path
    label: str = ""

    @property
    def root(self) -> Path:
        """The experiment's folder, or the run's own."""
        return self.folder.parents[self.label.count("/")] if self.label else self.folder

    @property
    def experiment(self) -> str:
        return self.root.name if self.label else ""

    @property
    def name(self) -> str:
        """What the run is called: experiment/variant/seed-0, or its folder."""
        return f"{self.root.name}/{self.label}" if self.label else self.folder.name


def is_experiment(folder: Path) -> bool:
    """Whether an experiment of several runs writes here."""
    return (folder / EXPERIMENT_FILE).is_file()


def has_begun(folder: Path) -> bool:
    """Whether a run has written something here."""
    return (folder / HISTORY).is_file() or RunFolder(folder).status_file.is_file()


def read_record(folder: Path) -> dict[str, Any]:
    """experiment.json of an experiment; InputError if it is not one that was written here."""
    file, cure = folder / EXPERIMENT_FILE, "put it back from a copy, or move this folder away"
    record = read_object(file, "the record of an experiment", cure)
    if record.get("format") != FORMAT:
        raise InputError(f"{file}: format {shown(record.get('format'))}, expected {FORMAT}; {cure}")
    runs = record.get("runs")
    if not (isinstance(runs, list) and runs and all(map(_is_recorded, runs))):
        raise InputError(f"{file}: lists no runs with name and settings; {cure}")
    return record


def _is_recorded(run: object) -> bool:
    """Whether this is a run as experiment.json lists it, whose name leads to a folder below the experiment's."""
    return (
        isinstance(run, dict)
        and isinstance(name := run.get("name"), str)
        and isinstance(run.get("settings"), dict)
        and "\0" not in name
        and all(
            part not in ("", ".", "..") and len(part.encode()) < 256 for part in name.split("/")
        )
    )


def labels_of(folder: Path) -> list[str]:
    """Labels of all runs of an experiment, in order, begun or not."""
    return [str(run["name"]) for run in read_record(folder)["runs"]]


def folder_of(name: Path | str) -> Path:
    """The folder of this path, or, where there is none, that of this name inside runs/."""
    path, inside = Path(name), Path("runs") / name
    return path if path.is_dir() or not inside.is_dir() else inside


def run_folders(folder: Path) -> list[Path]:
    """`folder` itself if it is a run; else the begun runs of an experiment, or those in a folder of runs and experiments."""
    if has_begun(folder):
        return [folder]
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such run folder; `fedsuite run` makes one, `fedsuite runs` lists those in runs/"
        )
    found = _begun_in(folder)
    if not is_experiment(folder):
        for path in sorted(path for path in folder.iterdir() if path.is_dir()):
            found += [path] if has_begun(path) else _begun_in(path)
    if not found:
        raise InputError(
            f"{folder}: no runs in this folder (no {HISTORY}); `fedsuite run` makes one"
        )
    return found


def _begun_in(folder: Path) -> list[Path]:
    """The begun runs of an experiment, in its order; none in another folder."""
    if not is_experiment(folder):
        return []
    return [path for label in labels_of(folder) if has_begun(path := folder / label)]


def place_of(folder: Path) -> Place:
    """Where a run lies, with the experiment that it belongs to."""
    full = folder.absolute()
    for above in full.parents[:_LEVELS]:
        if is_experiment(above):
            return Place(full, full.relative_to(above).as_posix())
    return Place(full)


def unique_names(places: Sequence[Place]) -> list[str]:
    """A name for each run, unlike all others: its own, with the folders above it where that does not do."""
    for depth in itertools.count():
        count = Counter(place.name for place in places)
        names = [_with_folders(place, depth if count[place.name] > 1 else 0) for place in places]
        if len(set(names)) == len(names):
            return names
    raise AssertionError  # full paths differ


def _with_folders(place: Place, depth: int) -> str:
    above = [path.name for path in reversed(place.root.parents[:depth])]
    return "/".join([*above, place.name])
