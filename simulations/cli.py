"""The `fedsuite` command: run an experiment, look at runs, prepare data.

Exit codes: 0 done; 1 the run failed; 2 bad input, found before training starts wherever that is
possible; 130 stopped.
"""

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsuite.errors import InputError, RunFailed
from simulations.experiment import Request
from simulations.playing import Engine, play_request
from simulations.starting_run import with_start
from simulations.typed_sweep import TypedSweep

EXIT_FAILED, EXIT_INPUT = 1, 2

ConfigFile = Annotated[
    Path | None, typer.Argument(help="TOML of the experiment; may be left out with --resume.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a key, in all variants; may be repeated."
    ),
]
Seeds = Annotated[
    str, typer.Option(metavar="S1,S2", help="Play every variant with each of these seeds.")
]
Start = Annotated[
    str,
    typer.Option(
        "--from", metavar="RUN", help="Go on from this run's model (path, name or model file)."
    ),
]
Resume = Annotated[
    str, typer.Option(metavar="RUN", help="Continue this run or experiment (path or name).")
]
Overwrite = Annotated[
    bool, typer.Option(help="Replace a run or a whole experiment of the same name.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="VARIANT", help="Play this variant only; may be repeated."),
]
WhichEngine = Annotated[
    Engine,
    typer.Option(
        help="Where clients run: worker processes, or this process; auto: as suits the system."
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Worker processes (ray); default: one a core.")
]
ClientGpus = Annotated[float, typer.Option(min=0.0, help="Share of a GPU for each worker (ray).")]

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
    config: ConfigFile = None,
    change: Changes = None,
    seeds: Seeds = "",
    start: Start = "",
    resume: Resume = "",
    overwrite: Overwrite = False,
    only: Only = None,
    engine: WhichEngine = "auto",
    workers: Workers = None,
    client_gpus: ClientGpus = 0.0,
) -> None:
    """Run an experiment, of one run or one per variant and seed, or continue it."""
    signal.signal(signal.SIGTERM, _interrupt)
    changes = with_start(change or [], start, config, resume)
    request = Request(config, changes, resume, overwrite, only or [], seeds=seeds)
    play_request(request, engine, (workers, client_gpus))


@app.command()
def sweep(
    config: ConfigFile = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2", help="A key and its values; may be repeated."),
    ] = None,
    metric: Annotated[str, typer.Option(help="Metric of the rounds to judge by.")] = "",
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER", help="Value to be reached; may be repeated."),
    ] = None,
    lower: Annotated[bool, typer.Option("--lower", help="Lower values are better.")] = False,
    change: Changes = None,
    seeds: Seeds = "",
    start: Start = "",
    resume: Resume = "",
    overwrite: Overwrite = False,
    only: Only = None,
    engine: WhichEngine = "auto",
    workers: Workers = None,
    client_gpus: ClientGpus = 0.0,
) -> None:
    """Run every combination of some keys' values; tell how many rounds each takes to reach targets."""
    signal.signal(signal.SIGTERM, _interrupt)
    changes = with_start(change or [], start, config, resume)
    typed = TypedSweep(vary or [], metric, target or [], lower)
    request = Request(config, changes, resume, overwrite, only or [], typed, seeds)
    play_request(request, engine, (workers, client_gpus))


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


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _fail(error: Exception, code: int) -> None:
    line = " ".join(str(error).split())
    print(f"error: {line}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
