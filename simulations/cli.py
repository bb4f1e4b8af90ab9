"""The `fedsuite` command: run an experiment, look at runs, prepare data.

Exit codes: 0 done; 1 the run failed; 2 bad input, found before training starts wherever that is
possible; 130 stopped.
"""

import signal
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markdown import Markdown

from fedsuite.errors import InputError, RunFailed
from fedsuite.run_folder import RunFolder
from simulations.experiment import (
    Experiment,
    Request,
    checkpointed_rounds,
    find_experiment,
    is_experiment,
)
from simulations.launch import Launch, Plan, make_plan, make_ready
from simulations.systems import Progress

EXIT_FAILED, EXIT_INPUT, EXIT_STOPPED = 1, 2, 130
Engine = Literal["auto", "ray", "inprocess"]

app = typer.Typer(
    help="Federated embodied learning on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data = typer.Typer(help="Prepare data.", no_args_is_help=True)
app.add_typer(data, name="data")


@app.command()
def run(
    config: Annotated[
        Path | None, typer.Argument(help="TOML of the experiment; may be left out with --resume.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a key, in all variants; may be repeated.",
        ),
    ] = None,
    resume: Annotated[
        str,
        typer.Option(metavar="RUN", help="Continue this run or experiment (path or name)."),
    ] = "",
    overwrite: Annotated[
        bool, typer.Option(help="Replace a run or a whole experiment of the same name.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="VARIANT", help="Play this variant only; may be repeated."),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="Where clients run: worker processes, or this process; auto: as suits the system."
        ),
    ] = "auto",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes (ray); default: one a core.")
    ] = None,
    client_gpus: Annotated[
        float, typer.Option(min=0.0, help="Share of a GPU for each worker (ray).")
    ] = 0.0,
) -> None:
    """Run an experiment, of one run or one per variant and seed, or continue it."""
    console = Console(stderr=False)
    signal.signal(signal.SIGTERM, _interrupt)
    request = Request(config, change or [], resume, overwrite, only or [])
    launch = partial(_launch, engine, (workers, client_gpus), console)
    say = partial(console.print, highlight=False, markup=False)
    experiment = find_experiment(request)
    folder = _run_several(experiment, launch, say) if experiment else _run_one(request, launch, say)
    if folder.results.is_file():
        console.print(Markdown(folder.results.read_text(encoding="utf-8")))
    console.print(f"completed: {folder.path}", highlight=False, soft_wrap=True)


@app.command()
def runs(
    results_dir: Annotated[Path, typer.Argument(help="Folder of run folders.")] = Path("runs"),
) -> None:
    """List runs: status, rounds, latest metrics."""
    from simulations.tables import runs_table

    Console().print(runs_table(results_dir))


@app.command()
def show(
    run_folder: Annotated[str, typer.Argument(metavar="RUN", help="Run folder (path or name).")],
    rounds: Annotated[int, typer.Option(min=1, help="Latest rounds to show.")] = 10,
) -> None:
    """Show one run: status, configuration, metrics by round."""
    from simulations.tables import run_tables

    console = Console()
    for table in run_tables(run_folder, rounds):
        console.print(table)


@app.command()
def keys(
    system: Annotated[str, typer.Argument(help="System, or module:ATTRIBUTE.")] = "fedvln",
) -> None:
    """List every key of a system: default, meaning, valid values."""
    from simulations.tables import keys_table

    Console().print(keys_table(system))


@data.command()
def prepare(
    features: Annotated[Path, typer.Argument(help="View features, .tsv or .hdf5.")],
    connectivity: Annotated[Path, typer.Argument(help="Folder of <scan>_connectivity.json.")],
    out: Annotated[Path, typer.Argument(help="Folder to write <scan>.npy to.")],
) -> None:
    """Convert view features once, to one memory-mapped array per house."""
    from fedsuite.vln.prepare import prepare_views

    console = Console()
    width = prepare_views(
        features, connectivity, out, lambda text: console.print(text, highlight=False)
    )
    console.print(f"{out}: features of width {width}", highlight=False)


def main() -> None:
    """Entry point: known errors become one line and an exit code."""
    try:
        app()
    except InputError as error:
        _fail(error, EXIT_INPUT)
    except RunFailed as error:
        _fail(error, EXIT_FAILED)


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
    resources: tuple[int | None, float],
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
        from simulations.engines.ray import Resources, default_workers, run_ray

        workers, gpus = resources
        wanted = Resources(workers or default_workers(clients), gpus)
        run_ray(plan.run_config, plan.folder, clients, wanted, display.show)


def _mark_stopped(plan: Plan) -> None:
    """The server's process may be gone before it could write it."""
    if plan.folder.status().get("status") == "running":
        plan.folder.end("stopped", "stopped by the user")


def _stopped(message: str) -> typer.Exit:
    print(message, file=sys.stderr)
    return typer.Exit(EXIT_STOPPED)


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _fail(error: Exception, code: int) -> None:
    line = " ".join(str(error).split())
    print(f"error: {line}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
