"""What runs and experiments have left in their folders, and what of it a new start replaces: these names alone are deleted.

A folder that holds anything else is refused before anything begins.
"""

from collections.abc import Iterator
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.runs.folder import WRITTEN, RunFolder, read_stored_config
from fedsuite.storage.deleting import check_own, delete
from simulations.experiments import folders
from simulations.experiments.plan import Experiment, checkpointed_rounds
from simulations.experiments.searching import STUDY
from simulations.systems import System, load_system

_OF_SEVERAL = (
    folders.EXPERIMENT_FILE,
    folders.LOCK,
    "results.md",
    "results.csv",
    "sweep.png",
    STUDY,
)
# The lock is held; the record is replaced last, so that a half-emptied folder is still known as ours.
_KEPT = (folders.LOCK, folders.EXPERIMENT_FILE)


def check_replaced(experiment: Experiment) -> None:
    """InputError where something lies among what is to be deleted that no run has written."""
    for folder, names in _replaced(experiment):
        check_own(folder, names)
    for label in experiment.chosen:
        plan = experiment.plans[label]
        if not experiment.request.overwrite and not checkpointed_rounds(plan.folder):
            check_own(plan.folder.path, names_of_run(plan.folder, plan.system))


def delete_replaced(experiment: Experiment) -> None:
    """Delete what --overwrite replaces."""
    for folder, names in _replaced(experiment):
        delete(folder, names, _KEPT)


def names_of_run(folder: RunFolder, system: System[Any]) -> list[str]:
    """What a run of `system`, or of the system that has run here, writes in `folder`."""
    systems = [system]
    with suppress(InputError):  # it never began, or its system is gone
        systems.append(load_system(str(read_stored_config(folder)["system"])))
    return [*WRITTEN, *(name for one in systems for name in one.leaves)]


def _replaced(experiment: Experiment) -> Iterator[tuple[Path, list[str]]]:
    """Folders of which --overwrite deletes what they hold, with all names that are ours in there."""
    if not experiment.request.overwrite:
        return
    plans, system = experiment.plans, experiment.system
    if experiment.record is None or list(experiment.chosen) != list(plans):
        for label in experiment.chosen:
            yield plans[label].folder.path, names_of_run(plans[label].folder, system)
        return
    there = folders.is_experiment(experiment.folder)
    labels = dict.fromkeys([*plans, *(folders.labels_of(experiment.folder) if there else ())])
    names = [*_OF_SEVERAL, *system.leaves]
    for label in labels:
        own = names_of_run(RunFolder(experiment.folder / label), system)
        names += [f"{escape(label)}/{name}" for name in own]
    yield experiment.folder, names
