"""A run that is over, opened to use what it has learnt: its settings, the server's arrays, its last metrics."""

from pathlib import Path
from typing import TypeVar

import safetensors
from safetensors.numpy import load_file

from fedsuite.arrays import Arrays
from fedsuite.errors import InputError, one_line
from fedsuite.history import HISTORY, read_rows
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import RunSettings, limits_of, read_config
from fedsuite.storage.files import as_typed, check_readable

Settings = TypeVar("Settings", bound=RunSettings)


def open_finished(folder: Path | str, cls: type[Settings]) -> tuple[RunFolder, Settings]:
    """The run in `folder` and its settings; InputError if it is not over, or of a system with other settings."""
    run = RunFolder(Path(folder).absolute())
    if not run.config.is_file():
        raise InputError(f"{folder}: no run lies here; `fedsuite runs` lists what is there")
    stored = read_stored_config(run)
    if stored.keys() - limits_of(cls).keys():
        raise InputError(
            f"{folder}: a run of system {one_line(str(stored.get('system')), 60)}, expected one with the settings of "
            f"{cls().system}; name another run"
        )
    status = run.status().get("status", "unknown")
    if status != "completed":
        raise InputError(
            f"{folder}: expected a completed run, its status is {status}; continue it with --resume {as_typed(folder)}"
        )
    if not run.model.is_file():
        raise InputError(
            f"{run.model}: missing, though the run is completed; put it back from a copy"
        )
    return run, read_config(cls, stored, str(run.config))


def model_of(run: RunFolder) -> Arrays:
    """The server's arrays at the end of the run, by name."""
    check_readable(run.model)
    try:
        return dict(load_file(run.model))
    except (OSError, safetensors.SafetensorError) as error:
        why = one_line(str(error), 200)
        raise InputError(f"{run.model}: damaged ({why}); put it back from a copy") from None


def closing_metrics(run: RunFolder) -> dict[str, float]:
    """What the final evaluation found; {} where there is none."""
    rows = read_rows(run.path / HISTORY, torn_end=True)
    found: dict[str, float] = {}
    for row in rows:
        if row["kind"] == "closing":
            found |= row.get("metrics", {})
    return found
