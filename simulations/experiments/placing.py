"""Where an experiment's runs lie, and what is there of them: what a run may be called, what is kept, what stays as it is."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.runs.folder import folder_of
from fedsuite.settings.config import RunSettings, Value, limits_of
from fedsuite.storage.files import full_path, path_name
from simulations.experiments import folders
from simulations.experiments.request import Described, Request
from simulations.experiments.variants import PLACING
from simulations.systems import System


def new_folder(
    request: Request, described: Described, values: Mapping[str, Value]
) -> tuple[Path, str, bool]:
    """results-dir/name; a line about it where the runs are numbered, and whether they may be: nobody gave them a name."""
    keys = {**described.runs[0].table, **values}
    placing: dict[str, Any] = {
        key.replace("-", "_"): str(keys[key]) for key in PLACING if key in keys
    }
    name = placing.pop("name", "")
    if not name:
        _check_default(described)
    folder = folder_of(RunSettings(name=name or described.name, **placing)).path
    fixed = bool(name) or request.overwrite or request.dry
    free = folder if fixed else folders.first_free(folder)
    note = "" if free == folder else f"{folder.name} is there already, this one is {free.name}"
    return free, note, not fixed


def _check_default(described: Described) -> None:
    """InputError, which says how to give a name, where a file's own name is none that a run may have."""
    try:
        path_name(described.name, "name", plain=True)
    except InputError as error:
        reason = str(error).removesuffix("; rename it")
        raise InputError(
            f"{described.source}: no run can be called after this file: {reason}; give --set name=NAME, or rename the file"
        ) from None


def check_place_stays(folder: Path, values: Mapping[str, Value]) -> None:
    """A run that goes on stays in its folder: InputError for another name or results-dir of --set."""
    above = full_path(str(values.get("results-dir", folder.parent)), "results-dir")
    if (
        values.get("name", folder.name) == folder.name
        and above.resolve() in folder.resolve().parents
    ):
        return
    raise InputError(
        f"--set: a run that goes on keeps its name and place, {folder}; leave name and results-dir out, or move the "
        "folder first"
    )


def check_kept(request: Request, described: Described, folder: Path) -> None:
    """What is in the folder must be of the same kind; of an experiment's runs that stay, none may be forgotten."""
    several, there = described.record is not None, folders.is_experiment(folder)
    if not request.resume:
        folders.check_place(folder, several, request.overwrite)
    elif there and not several:
        raise InputError(
            f"{described.source}: has neither [variants.NAME] nor seeds nor a sweep, but {folder} is an "
            "experiment of several runs; resume it without the file"
        )
    elif several and not there:
        raise InputError(
            f"{folder}: a single run, but {described.source} describes several; give their experiment"
        )
    if there and (request.resume or request.only):
        gone = set(folders.labels_of(folder)) - {run.label for run in described.runs}
        if gone:
            raise InputError(
                f"{described.source}: lacks {min(gone)}, which {folder} has; put it back or start a new "
                "experiment"
            )


def left_alone(
    request: Request, folder: Path, chosen: Collection[str], system: System[Any]
) -> dict[str, dict[str, Value]]:
    """Label -> keys that stay as experiment.json has them, of the runs that --only leaves out.

    These are the keys that may change when a run goes on (num-rounds). All others must be the same in what is kept, so that
    runs that are compared do not come to differ unnoticed.
    """
    if request.dry or not folders.is_experiment(folder):
        return {}
    limits = limits_of(system.config_class)
    return {
        str(run["name"]): {
            key: value
            for key, value in run["settings"].items()
            if key in limits and limits[key].may_change
        }
        for run in folders.read_record(folder)["runs"]
        if run["name"] not in chosen
    }
