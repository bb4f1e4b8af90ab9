"""Plays the runs of an experiment one after the other and compares what is completed.

Completed runs are passed over, begun ones go on from their last checkpoint, others start. One process
at a time works on an experiment: it holds a lock in the experiment's folder beside the run's own.
"""

import dataclasses
import shutil
from pathlib import Path

from fedsuite.config import RunSettings, read_config
from fedsuite.errors import InputError, RunFailed
from fedsuite.files import write_json
from fedsuite.run_folder import RunFolder, read_stored_config
from simulations.experiment import Experiment, check_place
from simulations.experiment_plans import checkpointed_rounds
from simulations.launch import EXPERIMENT_FILE, RESUME_PATIENCE_S, Launch, Plan
from simulations.sweep import recorded_sweep
from simulations.systems import Progress


def play(experiment: Experiment, launch: Launch, say: Progress) -> None:
    """Prepare the data of all runs, play them, compare; `launch` gets a run and its number of clients.

    A failing run ends the experiment with its error, named by the run; --resume goes on.
    """
    place = RunFolder(experiment.folder)
    patience_s = RESUME_PATIENCE_S if experiment.resumed else 0.0
    if experiment.folder.exists():
        with place.locked(patience_s):
            pass  # nobody else writes here
    clients = _prepare(experiment, say)
    with place.locked(patience_s):
        _claim(experiment)
        for number, label in enumerate(experiment.chosen, 1):
            title = f"[{number}/{len(experiment.chosen)}] {label}"
            if label not in clients:
                say(f"{title}  (completed before)")
                continue
            say(title)
            try:
                launch(_ready(experiment.plans[label]), clients[label])
            except (InputError, RunFailed) as error:
                again = f"continue with: fedsuite run --resume {experiment.folder}"
                raise type(error)(f"{label}: {error} ({again})") from None
        compare(experiment)


def is_completed(plan: Plan) -> bool:
    """Whether the run has ended well, with however many rounds."""
    return plan.folder.status().get("status") == "completed"


def compare(experiment: Experiment) -> None:
    """Write results.md over all completed runs: the sweep's tables, the system's own, or the common one."""
    sweep = recorded_sweep(experiment.record, str(experiment.folder / EXPERIMENT_FILE))
    if sweep is not None:
        from simulations.sweep_table import write_sweep

        done = [label for label, plan in experiment.plans.items() if is_completed(plan)]
        write_sweep(experiment.folder, sweep, list(experiment.plans), done)
        return
    completed: dict[str, RunSettings] = {}
    for label, plan in experiment.plans.items():
        if is_completed(plan):
            stored = read_stored_config(plan.folder)
            made_with = read_config(type(plan.settings), stored, str(plan.folder.config))
            where = {"name": plan.settings.name, "results_dir": plan.settings.results_dir}
            completed[label] = dataclasses.replace(made_with, **where, resume="")  # type: ignore[arg-type]
    system = next(iter(experiment.plans.values())).system
    if system.compare is not None:
        system.compare(experiment.folder, completed)
    else:
        from simulations.comparison import write_comparison

        write_comparison(experiment.folder, list(completed))


def _prepare(experiment: Experiment, say: Progress) -> dict[str, int]:
    """Number of clients of every run that is to be played; what is prepared for several runs is told once."""
    told: set[str] = set()

    def say_once(line: str) -> None:
        if line not in told:
            told.add(line)
            say(line)

    clients: dict[str, int] = {}
    known: dict[RunSettings, int] = {}
    for label in experiment.chosen:
        plan = experiment.plans[label]
        if not experiment.overwrite and _is_done(plan):
            continue
        alike = dataclasses.replace(plan.settings, name="", results_dir="")
        if alike not in known:
            try:
                plan.system.prepare(plan.settings, say_once)
                known[alike] = plan.system.num_partitions(plan.settings)
            except InputError as error:
                raise InputError(f"{label}: {error}") from None
        clients[label] = known[alike]
    return clients


def _claim(experiment: Experiment) -> None:
    """Empty the folder if it is to be replaced, and write down what will be in it."""
    check_place(experiment)  # again, now that nobody else can write
    if experiment.overwrite:
        for path in experiment.folder.iterdir():
            _delete_unless_needed(path)
    write_json(experiment.folder / EXPERIMENT_FILE, experiment.record)


def _delete_unless_needed(path: Path) -> None:
    """The lock is held; the record is replaced last, so that a half-emptied folder is still known as ours."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.name not in (".lock", EXPERIMENT_FILE):
        path.unlink()


def _is_done(plan: Plan) -> bool:
    """Completed, and not to be made longer."""
    if not is_completed(plan):
        return False
    return read_stored_config(plan.folder).get("num-rounds") == plan.settings.num_rounds


def _ready(plan: Plan) -> Plan:
    """The plan to launch: a continued run where there is a checkpoint, else a new one in a clean folder."""
    if not plan.folder.path.exists():
        return plan
    with plan.folder.locked(RESUME_PATIENCE_S):
        pass  # nobody else writes here
    if not checkpointed_rounds(plan.folder):
        shutil.rmtree(plan.folder.path)
        return plan
    settings = dataclasses.replace(plan.settings, resume=str(plan.folder.path))
    return dataclasses.replace(plan, settings=settings)
