"""Carries out what was planned: data, then one run after the other, then their comparison.

Completed runs are passed over, begun ones go on from their last checkpoint, others start. One process
at a time works on an experiment of several: it holds a lock in the experiment's folder beside the run's own.
"""

import dataclasses
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

import typer
from rich.console import Console
from rich.markdown import Markdown

from fedsuite.config import RunSettings, read_config
from fedsuite.errors import InputError, RunFailed
from fedsuite.files import as_typed, write_json
from fedsuite.history import HISTORY, read_rows
from fedsuite.progress import Progress
from fedsuite.roster import ROSTER, Roster, write_roster
from fedsuite.run_folder import RunFolder, read_stored_config
from fedsuite.same_data import check_same_data
from simulations.engines.placement import Resources
from simulations.experiments import folders
from simulations.experiments.launching import Engine, Way, way_of
from simulations.experiments.plan import Experiment, Plan, checkpointed_rounds, plan_experiment
from simulations.experiments.request import Request
from simulations.experiments.sweep import Sweep
from simulations.stopping import EXIT_STOPPED

# The processes of a killed run need a moment to notice and let go of its folder.
RESUME_PATIENCE_S = 15.0


def run_request(
    request: Request, engine: Engine, resources: Resources, connection: str = ""
) -> None:
    """Run what was asked for, show its table of results, say where it lies."""
    console = Console(stderr=False)
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    resources.check(engine)  # quick, and before what takes seconds
    experiment = plan_experiment(request)
    way = way_of(engine, experiment.system.engine, resources, connection)
    for label in experiment.chosen:
        way.check(experiment.plans[label])
    if experiment.note:
        say(experiment.note)
    try:
        run_experiment(experiment, way, console)
    except KeyboardInterrupt:
        with suppress(OSError):  # a terminal that was closed takes no more words
            print(stopped(experiment, way), file=sys.stderr, flush=True)
        raise typer.Exit(EXIT_STOPPED) from None
    results = RunFolder(experiment.folder).results
    if results.is_file():
        console.print(Markdown(results.read_text(encoding="utf-8")))
    say(f"completed: {experiment.folder}")


def run_experiment(experiment: Experiment, way: Way, console: Console) -> None:
    """Find out who takes part in all runs, run them, compare them where there are several.

    A failing run ends the experiment with its error, named by the run; --resume goes on.
    """
    from simulations.experiments.progress import Preparing

    place, several = RunFolder(experiment.folder), experiment.record is not None
    patience_s = RESUME_PATIENCE_S if experiment.request.resume else 0.0
    if experiment.folder.exists():
        with place.locked(patience_s):
            pass  # nobody else writes here
    with Preparing(console) as progress:
        rosters = _prepare(experiment, way, progress)
    # A single run's lock is its server's.
    with place.locked(patience_s) if several else nullcontext():
        _claim(experiment)
        for number, label in enumerate(experiment.chosen, 1):
            done = "" if label in rosters else "  (completed before)"
            title = f"[{number}/{len(experiment.chosen)}] {label}" if several else str(place.path)
            if several or done:
                console.print(title + done, highlight=False, markup=False, soft_wrap=True)
            if not done:
                _run(experiment, label, rosters[label], way, console)
            if number == 1 and experiment.sweep is not None:
                _check_metric(experiment, experiment.sweep, label)
        if several:
            compare(experiment)


def _check_metric(experiment: Experiment, sweep: Sweep, label: str) -> None:
    """InputError if a completed run did not record it, before the others train for nothing."""
    from simulations.experiments.sweep_table import unrecorded

    if wrong := unrecorded(experiment.folder, sweep, [label]):
        compare(experiment)
        raise InputError(wrong)


def compare(experiment: Experiment) -> None:
    """Write results.md over all completed runs: the sweep's tables, the system's own, or the common one."""
    from simulations.experiments.comparison import add_rounds, write_comparison

    done = {label: plan for label, plan in experiment.plans.items() if plan.folder.is_completed()}
    made = {label: _made_with(plan) for label, plan in done.items()}
    if experiment.sweep is not None:
        from simulations.experiments.sweep_table import write_sweep

        write_sweep(experiment.folder, experiment.sweep, list(experiment.plans), list(done))
    elif experiment.system.compare is not None:
        experiment.system.compare(experiment.folder, made)
    else:
        write_comparison(experiment.folder, list(done))
    if experiment.sweep is None or "num-rounds" not in experiment.sweep.vary:
        add_rounds(experiment.folder, {label: c.num_rounds for label, c in made.items()})


def _made_with(plan: Plan) -> RunSettings:
    """Settings of a completed run, with its present place."""
    stored = read_stored_config(plan.folder)
    settings = read_config(type(plan.settings), stored, str(plan.folder.config))
    where = {"name": plan.settings.name, "results_dir": plan.settings.results_dir}
    return dataclasses.replace(settings, **where, resume="")  # type: ignore[arg-type]


def _prepare(experiment: Experiment, way: Way, progress: Progress) -> dict[str, Roster]:
    """Who takes part in every run that is to be run now."""
    rosters: dict[str, Roster] = {}
    known: dict[RunSettings, Roster] = {}
    for label in experiment.chosen:
        plan = experiment.plans[label]
        kept = not experiment.request.overwrite and plan.folder.is_completed()
        if kept and read_stored_config(plan.folder).get("num-rounds") == plan.settings.num_rounds:
            continue  # it is not to be made longer
        alike = dataclasses.replace(plan.settings, name="", results_dir="")
        if alike not in known:
            try:
                known[alike] = way.roster(plan, progress)
            except InputError as error:
                raise InputError(f"{label}: {error}".removeprefix(": ")) from None
        rosters[label] = known[alike]
        if not experiment.request.overwrite and checkpointed_rounds(plan.folder):
            check_same_data(plan.folder.path / ROSTER, known[alike])
        for line in way.remarks(plan, rosters[label]):
            progress(f"{label}: {line}".removeprefix(": "))
    return rosters


def _claim(experiment: Experiment) -> None:
    """Delete what is to be replaced, and write down what will be in the folder."""
    folder, several = experiment.folder, experiment.record is not None
    if not experiment.request.resume:  # again, now that nobody else can write
        folders.check_place(folder, several, experiment.request.overwrite)
    if experiment.request.overwrite and folder.exists():
        whole = list(experiment.chosen) == list(experiment.plans)
        plans = (experiment.plans[label] for label in experiment.chosen)
        for path in list(folder.iterdir()) if whole else [plan.folder.path for plan in plans]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            # The lock is held; the record is replaced last, so that a half-emptied folder is still known as ours.
            elif path.name not in (folders.LOCK, folders.EXPERIMENT_FILE):
                path.unlink(missing_ok=True)
    if several:
        write_json(folder / folders.EXPERIMENT_FILE, experiment.record)


def _run(experiment: Experiment, label: str, roster: Roster, way: Way, console: Console) -> None:
    """One run to its end; the server's process may be gone before it could write how it ended.

    The server gets the roster in place of data; what needs the data is drawn here.
    """
    plan = experiment.plans[label]
    try:
        way.launch(_ready(plan, roster, way), len(roster), console)
        with _unfinished(plan.folder):
            way.finish(plan)
            plan.folder.unfinished.unlink(missing_ok=True)
    except KeyboardInterrupt:
        with suppress(InputError, RunFailed):
            if plan.folder.status().get("status") == "running":
                plan.folder.end("stopped", "stopped by the user")
        raise
    except (InputError, RunFailed) as error:
        if experiment.record is None:
            raise
        again = f"continue with: fedsuite run --resume {as_typed(experiment.folder)}{way.options}"
        raise type(error)(f"{label}: {error} ({again})") from None


@contextmanager
def _unfinished(folder: RunFolder) -> Iterator[None]:
    """A run whose tables could not be written has not ended: it will be resumed, not passed over."""
    try:
        yield
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        why = "stopped by the user" if stopped else f"its tables could not be written: {error}"
        with suppress(InputError, RunFailed):
            folder.end("stopped" if stopped else "failed", why)
        raise


def _ready(plan: Plan, roster: Roster, way: Way) -> Plan:
    """The plan to launch: a continued run where there is a checkpoint, else a new one in a clean folder."""
    folder, changes = plan.folder, dict[str, str]()
    if folder.path.exists():
        with folder.locked(RESUME_PATIENCE_S):
            pass  # nobody else writes here
        if checkpointed_rounds(folder):
            changes["resume"] = str(folder.path)
        elif _has_results(folder):
            raise InputError(
                f"{folder.checkpoints}: no checkpoint, although the run has got further; put the folder back from a copy, "
                "or start the run again under another name"
            )
        else:
            shutil.rmtree(folder.path)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.unfinished.touch()
    if way.connection is None:  # else the server has the roster that the nodes have
        write_roster(folder.path / ROSTER, roster)
        changes["roster"] = str(folder.path / ROSTER)
    return dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, **changes))  # type: ignore[arg-type]


def _has_results(folder: RunFolder) -> bool:
    """Whether something lies here that a run has only after its first checkpoint."""
    history = folder.path / HISTORY
    rows = read_rows(history, torn_end=True) if history.is_file() else []
    return folder.model.exists() or any(row["round"] > 0 for row in rows)


def stopped(experiment: Experiment, way: Way) -> str:
    """What is left after Ctrl-C, and how to go on."""
    again = f"continue with: fedsuite run --resume {as_typed(experiment.folder)}{way.options}"
    if experiment.record is not None:
        if not folders.is_experiment(experiment.folder):
            return "stopped before the first run"
        return f"stopped; completed runs are kept, {again}"
    done = checkpointed_rounds(RunFolder(experiment.folder))
    if not done:
        return "stopped before the first checkpoint"
    return f"stopped; round {done[-1]} is saved, {again}"
