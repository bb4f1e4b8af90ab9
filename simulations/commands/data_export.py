"""`fedsuite data export`: generated data as files that other programs read."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedsuite.settings.config import parse_text, read_config
from fedsuite.storage.escaping import PlainConsole
from fedsuite.storage.files import as_typed
from simulations.commands.options import Changes


def export_data(
    what: Annotated[Literal["houses"], typer.Argument(help="What to export.")],
    to: Annotated[
        Literal["r2r"], typer.Option(help="r2r: connectivity/, annotations/, and view features.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FOLDER", help="New folder.")],
    change: Changes = None,
    features: Annotated[
        Literal["tsv", "hdf5"], typer.Option(help="Kind of file for the view features.")
    ] = "tsv",
) -> None:
    """Write generated houses as Room-to-Room's files; --set data.generated-seed=... says which."""
    from fedsuite.vln.config import FedVLNConfig
    from fedsuite.vln.data.exporting import export_r2r
    from simulations.experiments.progress import Preparing
    from simulations.experiments.request import split_changes

    typed = {k: parse_text(FedVLNConfig, k, v) for k, v in split_changes(change or []).items()}
    config, console = read_config(FedVLNConfig, typed, "--set"), PlainConsole()
    with Preparing(console) as progress:
        file = export_r2r(config, out, features, progress)
    console.print(
        f"exported {what} to {out}; train on them with: fedsuite run fedvln/r2r-small --set data.dir={as_typed(out)} "
        f"--set data.features={as_typed(file)}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
