"""A file that a command is told to draw: checked before any work is done."""

from collections.abc import Sequence
from pathlib import Path

from fedsuite.errors import InputError
from simulations.commands.options import check_used

STILLS = (".png", ".pdf", ".svg")


def check_new(file: Path | None, overwrite: bool, formats: Sequence[str] = STILLS) -> None:
    """InputError if something is there that was not to be replaced, if its folder is not, or for an unknown ending.

    file: None where nothing is to be drawn, and thus nothing to be replaced.
    """
    if file is None:
        check_used("--overwrite", overwrite, "--out", file)
        return
    if file.suffix not in formats:
        raise InputError(f"{file}: cannot draw this format; use one of {', '.join(formats)}")
    if not file.parent.is_dir():
        raise InputError(f"{file.parent}: no such folder; make it first")
    if file.is_dir() or (file.exists() and not overwrite):
        raise InputError(
            f"{file}: is there already, nothing in it was touched; give a new file, or --overwrite"
        )
