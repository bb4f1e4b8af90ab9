"""`fedsuite export` and `fedsuite watch`: what a run's folder tells, for other tools and on the terminal."""

from pathlib import Path
from typing import Annotated

import typer

from fedsuite.storage.escaping import PlainConsole

Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Runs, experiments, or folders of either.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("export")(export)
    app.command("watch")(watch)


def export(
    runs: Runs,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="csv, parquet, tensorboard, wandb, mlflow, or module:NAME of your own.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FOLDER", help="Where files go.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier export wrote there.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on until these runs have ended; Ctrl-C ends it too."),
    ] = False,
) -> None:
    """Export frames or scores of runs: CSV, Parquet, TensorBoard, Weights & Biases, MLflow."""
    from fedsuite.export import exporting
    from fedsuite.export.formats import Output, format_of
    from simulations.experiments.folders import find

    console = PlainConsole()

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    begin, output = format_of(to), Output(out, overwrite)
    folders = [
        find(str(run), "runs", lambda path: path.is_dir(), f"{run}: no such run") for run in runs
    ]
    try:
        done = exporting.export(folders, begin, output, say if follow else None)
    except KeyboardInterrupt:
        say("stopped; what was exported is whole")
        return
    say(f"exported {len(done)} {'run' if len(done) == 1 else 'runs'} to {out or to}")


def watch(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder (path or name).")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 2.0,
) -> None:
    """Watch a run: round, time left, metrics with their curves, clients at work, failures. Ctrl-C ends."""
    from simulations.experiments.result_tables import find_run
    from simulations.results.watching.loop import watch_run

    watch_run(find_run(run).path, every, PlainConsole())
