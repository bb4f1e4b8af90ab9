"""Formats that runs are exported to: a table, the contract of an entry, and the extension point.

`--to csv` names a row of the table; `--to package.module:NAME` names a Format of your own.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedsuite.errors import InputError, one_line
from fedsuite.history import Runs
from fedsuite.settings.values import chosen, imported
from fedsuite.storage.files import telling

FORMATS: Mapping[str, str] = {
    "csv": "fedsuite.export.tables:CSV",
    "parquet": "fedsuite.export.tables:PARQUET",
    "tensorboard": "fedsuite.export.event_files:EventFiles",
    "wandb": "fedsuite.export.trackers:WandbExport",
    "mlflow": "fedsuite.export.trackers:MLflowExport",
    "trackio": "fedsuite.export.trackers:TrackioExport",
}


@dataclass(frozen=True)
class Output:
    """folder: where files go, None if the user named none; overwrite: files that are there may be replaced."""

    folder: Path | None
    overwrite: bool = False

    def needed(self, what: str) -> Path:
        """The folder; InputError if there is none."""
        if self.folder is None:
            raise InputError(f"--to {what} writes files; say where with -o FOLDER")
        return self.folder

    def made(self) -> Path | None:
        """The full path of the folder, which is there then; None if the user named none."""
        if self.folder is None:
            return None
        with telling(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder.absolute()


class Export(Protocol):
    """An export that has begun."""

    def update(self, runs: Runs) -> None:
        """Take over all that is there: once, and while runs are followed again whenever there is more."""

    def close(self, runs: Runs) -> None:
        """The end, also after an error or Ctrl-C: what has been taken over must be whole."""


Format = Callable[[Runs, Output], Export]
"""Begins an export; InputError if it must not, before anything is written."""


def format_of(name: str, option: str = "--to") -> Format:
    """The format called `name`, or found at `module:NAME`; InputError, which names `option`, if there is none."""
    found = chosen(option, name, FORMATS, ("runs", "output"))
    if name in FORMATS:
        found = imported(option, found, FORMATS)
    begin: Format = found
    return begin


def package(name: str, option: str = "--to") -> Any:
    """An optional package; InputError, which names `option`, says how to install it, or that it does not fit its own."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        is_there = (error.name or "").partition(".")[0] != top or importlib.util.find_spec(top)
        reason = f"cannot be imported ({one_line(str(error), 200)})"
        upgrade = "pip install --upgrade" if is_there else "pip install"
        raise InputError(
            f"{option} {top}: the package {top} {reason if is_there else 'is not installed'}; {upgrade} 'fedsuite[{top}]'"
        ) from None
