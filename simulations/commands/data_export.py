"""`fedsuite data export`: generated data as files that other programs read."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedsuite.errors import InputError
from fedsuite.settings.config import parse_text, read_config
from fedsuite.storage.escaping import PlainConsole
from fedsuite.storage.files import as_typed
from simulations.commands.options import Changes

FORMS = {"houses": "r2r", "roads": "lerobot"}


def export_data(
    what: Annotated[Literal["houses", "roads"], typer.Argument(help="What to export.")],
    to: Annotated[
        Literal["r2r", "lerobot"],
        typer.Option(
            help="r2r: connectivity/, annotations/ and view features of houses; lerobot: a LeRobot folder of roads."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FOLDER", help="New folder.")],
    change: Changes = None,
    features: Annotated[
        Literal["tsv", "hdf5"], typer.Option(help="Kind of file for the view features of houses.")
    ] = "tsv",
) -> None:
    """Write generated houses or roads as files of their field; --set data.generated-seed=... says which."""
    from simulations.experiments.progress import Preparing
    from simulations.experiments.request import split_changes

    if FORMS[what] != to:
        raise InputError(f"--to: {what} are not exported as {to}; give --to {FORMS[what]}")
    changes, console = split_changes(change or []), PlainConsole()
    with Preparing(console) as progress:
        if what == "houses":
            from fedsuite.vln.config import FedVLNConfig
            from fedsuite.vln.data.exporting import export_r2r

            typed = {k: parse_text(FedVLNConfig, k, v) for k, v in changes.items()}
            file = export_r2r(read_config(FedVLNConfig, typed, "--set"), out, features, progress)
            use = f"fedvln/r2r-small --set data.dir={as_typed(out)} --set data.features={as_typed(file)}"
        else:
            from fedsuite.driving.config import CDLConfig
            from fedsuite.driving.data.exporting import export_lerobot

            typed = {k: parse_text(CDLConfig, k, v) for k, v in changes.items()}
            export_lerobot(read_config(CDLConfig, typed, "--set"), out, progress)
            use = f"cdl/drivers --set data.dir={as_typed(out)} --set data.num-silos=4"
    console.print(
        f"exported {what} to {out}; train on them with: fedsuite run {use}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
