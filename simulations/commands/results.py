"""`fedsuite runs`, `show`, `keys`, `export` and `watch`: what settings and run folders tell, for people and programs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedsuite.storage.escaping import PlainConsole
from simulations.commands.options import AsJson, Run, print_json

ManyRuns = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Runs, experiments, or folders of either.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (runs, show, keys, export, watch):
        app.command(command.__name__)(command)


def runs(
    results_dir: Annotated[Path, typer.Argument(help="Folder of run folders.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List runs: status, rounds, latest metrics."""
    from simulations.experiments.result_tables import run_records, runs_table

    if as_json:
        print_json(run_records(results_dir))
        return
    console = PlainConsole()
    table, complaints = runs_table(results_dir)
    console.print(table)
    for line in complaints:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def show(
    run_folder: Run,
    rounds: Annotated[int, typer.Option(min=1, help="Latest rounds to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show one run: status, configuration, metrics by round."""
    from simulations.experiments.result_tables import run_record, run_tables

    record, console = run_record(run_folder, rounds), PlainConsole()
    if as_json:
        print_json(record)
        return
    for table in run_tables(record):
        console.print(table)


def keys(
    system: Annotated[str, typer.Argument(help="System, or module:ATTRIBUTE.")] = "fedvln",
    as_json: AsJson = False,
) -> None:
    """List every key of a system: default, meaning, valid values."""
    from simulations.app.key_rows import key_rows
    from simulations.experiments.result_tables import keys_table

    rows = key_rows(system)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    PlainConsole().print(keys_table(system, rows))


def export(
    runs: ManyRuns,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="csv, parquet, tensorboard, wandb, mlflow, trackio, or module:NAME of your own.",
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
    """Export frames or scores of runs: CSV, Parquet, TensorBoard, Weights & Biases, MLflow, Trackio."""
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
