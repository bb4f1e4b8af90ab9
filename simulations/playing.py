"""Plays what was asked for, one run or an experiment of several, and says how to go on when it is stopped."""

import sys
from functools import partial
from typing import Literal

import typer
from rich.console import Console
from rich.markdown import Markdown

from fedsuite.run_folder import RunFolder
from simulations.experiment import Experiment, Request, find_experiment, is_experiment
from simulations.experiment_plans import checkpointed_rounds
from simulations.launch import Launch, Plan, make_plan, make_ready
from simulations.systems import Progress

EXIT_STOPPED = 130
Engine = Literal["auto", "ray", "inprocess"]
Resources = tuple[int | None, float]  # worker processes (None: one a core), share of a GPU for each


def play_request(request: Request, engine: Engine, resources: Resources) -> None:
    """Play it, show its table of results, say where it lies."""
    console = Console(stderr=False)
    launch = partial(_launch, engine, resources, console)
    say = partial(console.print, highlight=False, markup=False)
    experiment = find_experiment(request)
    folder = _run_several(experiment, launch, say) if experiment else _run_one(request, launch, say)
    if folder.results.is_file():
        console.print(Markdown(folder.results.read_text(encoding="utf-8")))
    console.print(f"completed: {folder.path}", highlight=False, soft_wrap=True)


def _run_one(request: Request, launch: Launch, say: Progress) -> RunFolder:
    plan = make_plan(request.config_file, request.changes, request.resume, request.overwrite)
    try:
        launch(plan, make_ready(plan, request.overwrite, say))
    except KeyboardInterrupt:
        _mark_stopped(plan)
        done = checkpointed_rounds(plan.folder)
        if not done:
            raise _stopped("stopped before the first checkpoint") from None
        cure = f"continue with: fedsuite run --resume {plan.folder.path}"
        raise _stopped(f"stopped; round {done[-1]} is saved, {cure}") from None
    return plan.folder


def _run_several(experiment: Experiment, launch: Launch, say: Progress) -> RunFolder:
    from simulations.experiment_runs import play

    def launch_marked(plan: Plan, clients: int) -> None:
        try:
            launch(plan, clients)
        except KeyboardInterrupt:
            _mark_stopped(plan)
            raise

    try:
        play(experiment, launch_marked, say)
    except KeyboardInterrupt:
        if not is_experiment(experiment.folder):
            raise _stopped("stopped before the first run") from None
        cure = f"continue with: fedsuite run --resume {experiment.folder}"
        raise _stopped(f"stopped; completed runs are kept, {cure}") from None
    return RunFolder(experiment.folder)


def _launch(
    engine: Engine,
    resources: Resources,
    console: Console,
    plan: Plan,
    clients: int,
) -> None:
    from simulations.progress import RunDisplay

    if engine == "auto":
        engine = plan.system.engine
    console.print(
        f"{plan.folder.path}  ({clients} clients, {engine})", highlight=False, soft_wrap=True
    )
    with RunDisplay(console) as display:
        if engine == "inprocess":
            from simulations.engines.inprocess import run_inprocess

            run_inprocess(plan.run_config, display.show)
            return
        from simulations.engines import ray

        workers, gpus = resources
        wanted = ray.Resources(workers or ray.default_workers(clients), gpus)
        ray.run_ray(plan.run_config, plan.folder, clients, wanted, display.show)


def _mark_stopped(plan: Plan) -> None:
    """The server's process may be gone before it could write it."""
    if plan.folder.status().get("status") == "running":
        plan.folder.end("stopped", "stopped by the user")


def _stopped(message: str) -> typer.Exit:
    print(message, file=sys.stderr)
    return typer.Exit(EXIT_STOPPED)
