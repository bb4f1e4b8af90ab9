"""What the shell completes on its own: names of shipped configurations, of runs in runs/, and keys of --set."""

from pathlib import Path

import typer

from fedsuite.errors import InputError
from simulations.shipped import config_file, shipped_names

EXPORTED = {"houses": "fedvln", "roads": "cdl"}
DEFAULT = "fedvln"  # the system of a configuration that names none


def configs(incomplete: str) -> list[str]:
    """Shipped configurations; where none fits, the shell completes files."""
    return [name for name in shipped_names() if name.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Runs and experiments inside runs/, and the runs of an experiment once its name stands there."""
    parent, _, _ = incomplete.rpartition("/")
    folder = Path("runs") / parent
    if not folder.is_dir():
        return []
    inside = [p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]
    names = sorted(f"{parent}/{p.name}".lstrip("/") for p in inside if _holds_runs(p))
    return [name for name in names if name.startswith(incomplete)]


def _holds_runs(folder: Path) -> bool:
    """A run, an experiment, or a variant's folder with a run per seed."""
    return any(folder.glob("config.json")) or any(
        any(folder.glob(f"{inner}experiment.json")) or any(folder.glob(f"{inner}config.json"))
        for inner in ("", "*/")
    )


def changes(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Keys of the configuration or run that stands before --set, with `=`; behind that what a key may be, if that can be
    listed."""
    from simulations.app.key_rows import key_rows

    key, equals, begun = incomplete.partition("=")
    try:
        rows = {row.key: row for row in key_rows(_system_of(ctx))}
    except (InputError, LookupError, TypeError):  # a command line that is not finished, or wrong
        return []
    if not equals:
        return [(f"{name}=", row.help) for name, row in rows.items() if name.startswith(key)]
    values = rows[key].listed if key in rows else ()
    return [(f"{key}={value}", "") for value in values if value.startswith(begun)]


def _system_of(ctx: typer.Context) -> str:
    """Of the TOML, the run that goes on, or the data that are exported; the default where none has been typed."""
    given = (
        ctx.params
    )  # without arguments while an option waits for its value: these are in ctx.args then
    typed = next(iter(ctx.args), "")
    if "what" in given:
        return EXPORTED.get(str(given["what"] or typed), "")
    if run := given.get("resume"):
        from fedsuite.history import load_runs

        return load_runs([Path("runs") / str(run)]).runs[0].system
    if config := given.get("config") or typed:
        from simulations.experiments.request import read_toml

        return str(read_toml(config_file(Path(str(config)))).get("system", DEFAULT))
    return DEFAULT
