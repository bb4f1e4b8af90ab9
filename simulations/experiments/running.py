"""Carries out what was planned: data, then one run after the other, then their comparison.

Completed runs are passed over, begun ones go on from their last checkpoint, others start. One process
at a time works on an experiment of several: it holds a lock in the experiment's folder beside the run's own.
"""

import dataclasses
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

import typer
from rich.console import Console

from fedsuite.errors import InputError, RunFailed
from fedsuite.history import OnEvent
from fedsuite.roster.members import ROSTER, Roster
from fedsuite.roster.same_data import check_same_data
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import RunSettings
from fedsuite.settings.unread import values_read
from fedsuite.storage.deleting import delete_file
from fedsuite.storage.escaping import PlainConsole
from fedsuite.storage.files import as_typed, telling, write_json
from fedsuite.storage.progress import Progress
from simulations.commands.stopping import EXIT_STOPPED
from simulations.engines.ray.placement import Resources
from simulations.experiments import folders, leavings
from simulations.experiments.compared import check_metric, compare
from simulations.experiments.launching import Engine, Way, way_of
from simulations.experiments.plan import Experiment, checkpointed_rounds, plan_experiment
from simulations.experiments.readying import RESUME_PATIENCE_S, ready
from simulations.experiments.request import Request
from simulations.experiments.searching import check_optuna, search
from simulations.experiments.tracking import tracked

MOMENT_S = 0.5  # within which a process that has made its folder has put something in it


def run_request(
    request: Request,
    engine: Engine,
    resources: Resources,
    connection: str = "",
    log: Sequence[str] = (),
) -> None:
    """Run what was asked for, show its table of results, say where it lies."""
    console = PlainConsole(stderr=False)
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    resources.check(engine)  # quick, and before what takes seconds
    experiment = plan_experiment(request)
    check_optuna(experiment.sweep)
    way = way_of(engine, experiment.system.engine, resources, connection, log)
    for label in experiment.chosen:
        way.check(experiment.plans[label])
    if experiment.note:
        say(experiment.note)
    try:
        experiment = run_experiment(experiment, way, console)
    except KeyboardInterrupt as stopped:
        with suppress(OSError):  # a terminal that was closed takes no more words
            print(stopped, file=sys.stderr, flush=True)
        raise typer.Exit(EXIT_STOPPED) from None
    results = RunFolder(experiment.folder).results
    if results.is_file():
        from rich.markdown import Markdown  # 4 MB, which other commands need not hold

        console.print(Markdown(results.read_text(encoding="utf-8"), hyperlinks=False))
    say(f"completed: {experiment.folder}")


def run_experiment(experiment: Experiment, way: Way, console: Console) -> Experiment:
    """Find out who takes part in all runs, run them, compare them where there are several.

    Returns what was run: `experiment`, under another number where a process beside this one has taken its folder.
    A failing run ends the experiment with its error, named by the run; --resume goes on. KeyboardInterrupt says how.
    """
    from simulations.experiments.progress import Preparing

    leavings.check_replaced(experiment)
    try:
        if experiment.folder.exists() and not experiment.unnamed:
            with RunFolder(experiment.folder).locked(_patience_s(experiment)):
                pass  # nobody else writes here
        with Preparing(console) as progress:
            rosters = _prepare(experiment, way, progress)
        if experiment.unnamed:
            experiment = _reserved(experiment, console)
        _run_all(experiment, rosters, way, console)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_stopped(experiment, way)) from None
    return experiment


def _patience_s(experiment: Experiment) -> float:
    return RESUME_PATIENCE_S if experiment.request.resume else 0.0


def _reserved(experiment: Experiment, console: Console) -> Experiment:
    """The experiment, its folder made; under the next number where another process was quicker."""
    while True:
        with telling(experiment.folder), suppress(FileExistsError):
            experiment.folder.mkdir(parents=True)
            return experiment
        time.sleep(MOMENT_S)  # whoever has made it writes into it now
        if folders.first_free(experiment.folder) == experiment.folder:
            return experiment  # it was left over
        experiment = plan_experiment(experiment.request)
        console.print(experiment.note, highlight=False, markup=False, soft_wrap=True)


def _run_all(
    experiment: Experiment, rosters: Mapping[str, Roster], way: Way, console: Console
) -> None:
    """The runs in turn, then their comparison."""
    place, several = RunFolder(experiment.folder), experiment.record is not None
    # A single run's lock is its server's.
    with place.locked(_patience_s(experiment)) if several else nullcontext():
        _claim(experiment)
        count = experiment.tries or len(experiment.chosen)

        def play(label: str, number: int, told: OnEvent = lambda event: None) -> None:
            done = "" if label in rosters else "  (completed before)"
            title = f"[{number}/{count}] {label}" if several else str(place.path)
            if several or done:
                console.print(title + done, highlight=False, markup=False, soft_wrap=True)
            if not done:
                _run(experiment, label, rosters[label], way, console, told)
            if number == 1 and experiment.sweep is not None:
                check_metric(experiment, experiment.sweep, label)

        if experiment.tries:
            search(experiment, play, console)
        else:
            for number, label in enumerate(experiment.chosen, 1):
                play(label, number)
        if several:
            compare(experiment)


def _prepare(experiment: Experiment, way: Way, progress: Progress) -> dict[str, Roster]:
    """Who takes part in every run that is to be run now."""
    rosters: dict[str, Roster] = {}
    known: dict[RunSettings, Roster] = {}
    plans = [experiment.plans[label] for label in experiment.chosen]
    read = set().union(*(values_read(p.settings, p.system.unread) for p in plans))
    for label in experiment.chosen:
        plan = experiment.plans[label]
        kept = not experiment.request.overwrite and plan.folder.is_completed()
        if kept and read_stored_config(plan.folder).get("num-rounds") == plan.settings.num_rounds:
            continue  # it is not to be made longer
        alike = dataclasses.replace(plan.settings, name="", results_dir="")
        if alike not in known:
            try:
                known[alike] = way.roster(plan, progress)
                plan.check_strategy(known[alike])
            except InputError as error:
                raise InputError(f"{label}: {error}".removeprefix(": ")) from None
        rosters[label] = known[alike]
        remarks = [*way.remarks(plan, rosters[label], read)]
        if not experiment.request.overwrite and checkpointed_rounds(plan.folder):
            check_same_data(plan.folder.path / ROSTER, known[alike])
            remarks += filter(None, [plan.folder.other_versions()])
        for line in remarks:
            progress(f"{label}: {line}".removeprefix(": "))
    return rosters


def _claim(experiment: Experiment) -> None:
    """Delete what is to be replaced, and write down what will be in the folder."""
    folder, several = experiment.folder, experiment.record is not None
    if not experiment.request.resume:  # again, now that nobody else can write
        if not several:
            RunFolder(folder).check_free()
        folders.check_place(folder, several, experiment.request.overwrite)
    leavings.delete_replaced(experiment)
    if several:
        write_json(folder / folders.EXPERIMENT_FILE, experiment.record)


def _run(
    experiment: Experiment,
    label: str,
    roster: Roster,
    way: Way,
    console: Console,
    watch: OnEvent,
) -> None:
    """One run to its end; watch: gets its events. The server's process may be gone before it could write how it ended.

    The server gets the roster in place of data; what needs the data is drawn here.
    """
    plan = experiment.plans[label]
    with tracked(way.log, plan.folder.path, experiment.folder.parent, console, watch) as told:
        try:
            way.suited(plan, roster).launch(ready(plan, roster, way), len(roster), console, told)
            with _unfinished(plan.folder):
                way.finish(plan)
                delete_file(plan.folder.unfinished)
        except KeyboardInterrupt:
            with suppress(InputError, RunFailed):
                if plan.folder.status().get("status") == "running":
                    plan.folder.end("stopped", "stopped by the user")
            raise
        except (InputError, RunFailed) as error:
            if experiment.record is None:
                raise
            raise type(error)(f"{label}: {error} ({_again(experiment, way)})") from None


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


def _stopped(experiment: Experiment, way: Way) -> str:
    """What is left after Ctrl-C, and how to go on."""
    again = _again(experiment, way)
    if experiment.record is not None:
        if not folders.is_experiment(experiment.folder):
            return "stopped before the first run"
        return f"stopped; completed runs are kept, {again}"
    done = checkpointed_rounds(RunFolder(experiment.folder))
    if not done:
        return "stopped before the first checkpoint"
    return f"stopped; round {done[-1]} is saved, {again}"


def _again(experiment: Experiment, way: Way) -> str:
    """The command that does the rest of what was asked for, and no more."""
    only = "".join(f" --only {as_typed(name)}" for name in experiment.request.only)
    return f"continue with: fedsuite run --resume {as_typed(experiment.folder)}{only}{way.options}"
