"""The `fedsuite` command: run an experiment, look at runs, prepare data.

Exit codes: 0 done; 1 the run failed; 2 bad input, found before training starts wherever that is
possible; 130 stopped.
"""

import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markdown import Markdown

from fedsuite.errors import InputError, RunFailed
from simulations.launch import Plan, make_plan, make_ready

EXIT_FAILED, EXIT_INPUT, EXIT_STOPPED = 1, 2, 130
Engine = Literal["ray", "inprocess"]

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
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key; may be repeated."),
    ] = None,
    resume: Annotated[
        str, typer.Option(metavar="RUN", help="Continue this run folder (path or name).")
    ] = "",
    overwrite: Annotated[bool, typer.Option(help="Replace a run of the same name.")] = False,
    engine: Annotated[
        Engine, typer.Option(help="Where clients run: worker processes, or this process.")
    ] = "ray",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes (ray); default: one a core.")
    ] = None,
    client_gpus: Annotated[
        float, typer.Option(min=0.0, help="Share of a GPU for each worker (ray).")
    ] = 0.0,
) -> None:
    """Run an experiment, or continue one."""
    console = Console(stderr=False)
    signal.signal(signal.SIGTERM, _interrupt)
    plan = make_plan(config, change or [], resume, overwrite)
    try:
        clients = make_ready(plan, overwrite, lambda text: console.print(text, highlight=False))
        console.print(
            f"{plan.folder.path}  ({clients} clients, {engine})", highlight=False, soft_wrap=True
        )
        _launch(plan, engine, clients, (workers, client_gpus), console)
    except KeyboardInterrupt:
        _tell_stopped(plan)
        raise typer.Exit(EXIT_STOPPED) from None
    if plan.folder.results.is_file():
        console.print(Markdown(plan.folder.results.read_text(encoding="utf-8")))
    console.print(f"completed: {plan.folder.path}", highlight=False, soft_wrap=True)


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


def _launch(
    plan: Plan, engine: Engine, clients: int, resources: tuple[int | None, float], console: Console
) -> None:
    from simulations.progress import RunDisplay

    with RunDisplay(console) as display:
        if engine == "inprocess":
            from simulations.engines.inprocess import run_inprocess

            run_inprocess(plan.run_config, display.show)
            return
        from simulations.engines.ray import Resources, default_workers, run_ray

        workers, gpus = resources
        wanted = Resources(workers or default_workers(clients), gpus)
        run_ray(plan.run_config, plan.folder, clients, wanted, display.show)


def _tell_stopped(plan: Plan) -> None:
    from fedsuite.checkpoint import rounds

    done = rounds(plan.folder.checkpoints)
    if plan.folder.status().get("status") == "running":
        plan.folder.end("stopped", "stopped by the user")
    if done:
        cure = f"continue with: fedsuite run --resume {plan.folder.path}"
        print(f"stopped; round {done[-1]} is saved, {cure}", file=sys.stderr)
    else:
        print("stopped before the first checkpoint", file=sys.stderr)


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _fail(error: Exception, code: int) -> None:
    line = " ".join(str(error).split())
    print(f"error: {line}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
