"""From what was typed to checked runs; every complaint comes before anything is launched or written.

A single run lies in <results-dir>/<name>, one of several in the folder of its label (`cdl/seed-0`) below that.
Keys of a variant go before those of the file, --set before both.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedsuite.errors import InputError, check_installed
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder, check_folder, folder_of, variant_of
from fedsuite.settings.config import (
    RunSettings,
    Value,
    limits_of,
    parse_text,
    read_config,
    to_flat,
    with_keys,
)
from fedsuite.storage.files import full_path
from simulations.experiments import folders
from simulations.experiments.placing import check_kept, check_place_stays, left_alone, new_folder
from simulations.experiments.request import Described, Request, describe, given, split_changes
from simulations.experiments.sweep import Sweep
from simulations.experiments.variants import PLACING, SEEDS, RunTable, chosen_labels
from simulations.systems import System, load_system, to_run_config

START = "start-from"  # the key that --from gives


@dataclass(frozen=True)
class Plan:
    """A checked run."""

    system: System[Any]
    settings: RunSettings
    folder: RunFolder

    @property
    def run_config(self) -> dict[str, Any]:
        """What server and clients get: every key, absolute paths."""
        return to_run_config(self.settings)

    def check_strategy(self, roster: Roster) -> None:
        """InputError where the strategy refuses these clients, as its server would. A new run's folder is empty."""
        with TemporaryDirectory() as place:
            new = dataclasses.replace(self.settings, results_dir=place, resume="")
            self.system.make_strategy(new, roster)


@dataclass(frozen=True)
class Experiment:
    """Checked runs, one or several: nothing has been written yet.

    plans: label -> run, in order, each as if it were new; chosen: labels to run now; record: the content of experiment.json,
    None for a single run, whose label is ""; note: what to say of the name; unnamed: nobody gave it,
    so that another number does as well.
    """

    folder: Path
    plans: Mapping[str, Plan]
    chosen: Sequence[str]
    record: Mapping[str, Any] | None
    sweep: Sweep | None
    request: Request
    note: str = ""
    unnamed: bool = False

    @property
    def system(self) -> System[Any]:
        return next(iter(self.plans.values())).system

    @property
    def tries(self) -> int:
        """How many combinations a search tries; 0 where all chosen runs are run."""
        if self.sweep is None or self.request.only:
            return 0
        return min(self.sweep.trials, len({variant_of(label) for label in self.plans}))


def plan_experiment(request: Request) -> Experiment:
    """All runs that are asked for, through all checks."""
    if not request.dry:
        check_installed()
    typed = split_changes(request.changes)
    described = describe(request, typed)
    source, keys = described.source, described.runs[0].table
    system = load_system(given("system", typed, keys))
    if request.start:
        typed[START] = _start(request.start, typed, keys)
    read_config(system.config_class, described.base, source)
    values = _values(system, typed, described)
    folder, note, unnamed = described.stored, "", False
    if folder is None:
        folder, note, unnamed = new_folder(request, described, values)
    else:
        check_place_stays(folder, values)
    if not request.dry:
        check_kept(request, described, folder)
    chosen = chosen_labels(request.only, [run.label for run in described.runs])
    stays = left_alone(request, folder, chosen, system)
    plans = {
        run.label: _plan(
            run, system, {**values, **stays.get(run.label, {})}, folder, source, run.label in chosen
        )
        for run in described.runs
    }
    for label, plan in plans.items():
        if not (request.dry or (request.overwrite and label in chosen)):
            _check_begun(plan)
    record = described.record and {**described.record, "runs": _recorded(plans)}
    return Experiment(folder, plans, chosen, record, described.sweep, request, note, unnamed)


def checkpointed_rounds(folder: RunFolder) -> list[int]:
    """Rounds from which a run can go on."""
    from fedsuite.runs.versions import Checkpoints  # brings torch

    return Checkpoints(folder.checkpoints).rounds()


def _start(start: str, typed: Mapping[str, str], keys: Mapping[str, Any]) -> str:
    """The path of the run or file that --from names."""
    if START in typed:
        raise InputError(f"--from and --set {START} say the same; give one of them")
    system = given("system", typed, keys)
    if START not in limits_of(load_system(system).config_class):
        raise InputError(
            f"--from: system {system} has no key {START}, its runs begin anew; leave --from out"
        )
    complaint = f"--from: {start}: no such run or model"
    return str(folders.find(start, given("results-dir", typed, keys), Path.exists, complaint))


def _values(
    system: System[Any], typed: Mapping[str, str], described: Described
) -> dict[str, Value]:
    """The values of --set, which hold for all runs."""
    if "seed" in typed and described.record and described.record.get(SEEDS):
        raise InputError("--set: seed is given by the experiment's seeds; change them in the file")
    varied = set(typed) & set(described.sweep.vary) if described.sweep else set()
    if varied:
        raise InputError(
            f"--set: {min(varied)} is varied by the sweep; leave it out of one of them"
        )
    return {key: parse_text(system.config_class, key, text) for key, text in typed.items()}


def _plan(
    run: RunTable,
    system: System[Any],
    values: Mapping[str, Value],
    folder: Path,
    source: str,
    chosen: bool,
) -> Plan:
    """The run's settings through all checks; `values` go before its table, `folder` is the experiment's.

    A run that is not chosen need not have all that it starts from: its settings are only read.
    """
    cls, at = system.config_class, folder / run.label
    with _naming(source, run.where):
        settings = read_config(cls, run.table, source)
    if values:
        settings = read_config(cls, {**run.table, **values}, "--set")
    settings = dataclasses.replace(settings, name=at.name, results_dir=str(at.parent), resume="")
    settings = with_keys(settings, absolute_paths(settings))
    if chosen:
        with _naming(source, run.where):
            system.validate(settings)
    return Plan(system, settings, folder_of(settings))


@contextmanager
def _naming(source: str, where: str) -> Iterator[None]:
    """Complaints open with the file and the variant."""
    try:
        yield
    except InputError as error:
        text = str(error).removeprefix(f"{source}: ")
        raise InputError(f"{source}: {where}{text}") from None


def absolute_paths(settings: RunSettings) -> Mapping[str, str]:
    """Key -> absolute path, for every key that is a file or folder and not empty."""
    limits = limits_of(type(settings))
    return {
        key: str(full_path(str(value), key))
        for key, value in to_flat(settings).items()
        if limits[key].path and value
    }


def _check_begun(plan: Plan) -> None:
    """What is there of a run, and stays, must be from the same settings."""
    done = checkpointed_rounds(plan.folder)
    if not done:
        return
    check_folder(plan.folder, dataclasses.replace(plan.settings, resume=str(plan.folder.path)))
    if plan.settings.num_rounds < done[-1]:
        raise InputError(
            f"{plan.folder.path}: num-rounds = {plan.settings.num_rounds}, but round {done[-1]} is "
            f"already done; give num-rounds >= {done[-1]}"
        )


def _recorded(plans: Mapping[str, Plan]) -> list[dict[str, Any]]:
    """Label and settings of every run, but for where it lies."""
    flat = {label: to_flat(plan.settings) for label, plan in plans.items()}
    return [
        {"name": label, "settings": {k: v for k, v in keys.items() if k not in PLACING}}
        for label, keys in flat.items()
    ]
