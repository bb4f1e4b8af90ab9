"""Where experiments lie: how they are found and named, their experiment.json, and what is never written over.

experiment.json lists variants, seeds, the sweep, the SHA-256 of the TOML and every run's settings, so that an
experiment of several runs can go on without the TOML. A single run has none: its config.json says it all.
"""

import itertools
from collections.abc import Callable
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.history.experiments import EXPERIMENT_FILE as EXPERIMENT_FILE  # noqa: PLC0414
from fedsuite.history.experiments import FORMAT as FORMAT  # noqa: PLC0414
from fedsuite.history.experiments import is_experiment as is_experiment  # noqa: PLC0414
from fedsuite.history.experiments import labels_of as labels_of  # noqa: PLC0414
from fedsuite.history.experiments import read_record as read_record  # noqa: PLC0414
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.storage.files import as_typed, full_path

LOCK = ".lock"


def find(given: str, results_dir: str, fits: Callable[[Path], bool], complaint: str) -> Path:
    """What is given by path, or by name inside results-dir."""
    for path in (full_path(given, given), full_path(results_dir, "results-dir") / given):
        if fits(path):
            return path
    raise InputError(f"{complaint}; `fedsuite runs` lists the runs")


def default_name(system: str, stem: str) -> str:
    """What the runs of `stem`.toml are called: cdl-quickstart."""
    return stem if f"{stem}-".startswith(f"{system}-") else f"{system}-{stem}"


def first_free(folder: Path) -> Path:
    """The folder itself, or with the first number behind its name that nothing lies under."""
    numbered = (folder.with_name(f"{folder.name}-{n}") for n in itertools.count(2))
    every = itertools.chain([folder], numbered)
    return next(p for p in every if not is_taken(p) and not RunFolder(p).is_being_written())


def is_taken(path: Path) -> bool:
    """Whether anything is there but what a run leaves that was killed before it began."""
    if not path.is_dir():
        return path.exists()
    return any(path.iterdir()) and not RunFolder(path).never_began()


def is_run(folder: Path) -> bool:
    """Whether a run has begun here; other programs have a config.json, too."""
    run = RunFolder(folder)
    if not folder.is_dir() or not is_taken(folder):
        return False
    return "status" in run.status() or (run.config.exists() and "system" in read_stored_config(run))


def check_begun(folder: Path) -> None:
    """InputError unless there is a run or an experiment to resume, or what a killed one leaves that had yet to begin."""
    run = RunFolder(folder)
    if is_experiment(folder) or is_run(folder) or run.never_began() or run.is_beginning():
        return
    inside = sorted(path for path in folder.iterdir() if is_experiment(path) or is_run(path))
    if not inside:
        raise InputError(
            f"{folder}: no run and no experiment, so there is no run to resume here; `fedsuite runs` lists the runs"
        )
    raise InputError(
        f"{folder}: a folder of runs, such as {inside[0].name}, and no run itself; give one of them, as in --resume "
        f"{as_typed(inside[0])}"
    )


def check_place(folder: Path, several: bool, may_be_there: bool) -> None:
    """Refuse to write among files of others, and over a run or an experiment unless that was asked for."""
    kind = "an experiment" if several else "a run"
    mixed = is_experiment(folder)
    mine = mixed if several else not mixed and is_run(folder)
    if is_taken(folder) and not mine:
        if RunFolder(folder).is_beginning():
            raise InputError(
                f"{folder}: another process is about to begin a run here, or was killed before it did; choose another name, "
                "or delete the folder if nobody works on it"
            )
        what = "holds an experiment of several runs" if mixed else f"not {kind} folder"
        raise InputError(f"{folder}: {what}; it is left alone, choose another name")
    if mine and not may_be_there:
        raise InputError(
            f"{folder}: {kind} of this name is there already; continue it with --resume {as_typed(folder)}, choose "
            "another name, or replace it with --overwrite"
        )
    if mixed:
        read_record(folder)
