"""`fedsuite data import-envdrop` and `export-envdrop`: models of the public EnvDrop code, both ways."""

from pathlib import Path
from typing import Annotated

import typer

from simulations.commands.options import Run


def import_envdrop(
    file: Annotated[Path, typer.Argument(help="What the EnvDrop code saved: agent or speaker.")],
    vocabulary: Annotated[Path, typer.Option(help="Its train_vocab.txt.")],
    out: Annotated[
        Path | None, typer.Option(help="New folder for the model; default: beside FILE.")
    ] = None,
    dead_layers: Annotated[
        bool, typer.Option("--dead-layers", help="For runs with agent.dead-layers=true.")
    ] = False,
) -> None:
    """Make a checkpoint of the public EnvDrop code a model that --from and speaker-from take."""
    from fedsuite.vln.envdrop import import_checkpoint

    folder = out or file.with_name(f"{file.stem}-imported")
    for line in import_checkpoint(file, vocabulary, folder, dead_layers):
        print(line)


def export_envdrop(
    run: Run,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FOLDER", help="New folder.")],
) -> None:
    """Write a run's agent or speaker as a checkpoint that the public EnvDrop code loads, with its train_vocab.txt."""
    from fedsuite.vln.envdrop_export import export_checkpoint
    from simulations.experiments.folders import find

    found = find(run, "runs", Path.exists, f"{run}: no such run or model")
    for line in export_checkpoint(found, out):
        print(line)
