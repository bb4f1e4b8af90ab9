"""Arguments and options that several commands take."""

import io
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fedsuite.errors import InputError
from simulations.commands import completion

_CONFIG = "TOML of the experiment, or a name that `fedsuite configs` lists"

Config = Annotated[Path, typer.Argument(help=f"{_CONFIG}.", autocompletion=completion.configs)]
ConfigUnlessResumed = Annotated[
    Path | None,
    typer.Argument(
        help=f"{_CONFIG}; may be left out with --resume.", autocompletion=completion.configs
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key, in all variants; repeat for more.",
        autocompletion=completion.changes,
    ),
]
Only = Annotated[list[str] | None, typer.Option(metavar="VARIANT", help="Run this variant only.")]
Start = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Go on from this run's model, or model file.",
        autocompletion=completion.runs,
    ),
]
Resume = Annotated[
    str,
    typer.Option(
        metavar="RUN",
        help="Continue this run or experiment (path or name).",
        autocompletion=completion.runs,
    ),
]
Attach = Annotated[
    str,
    typer.Option(
        metavar="RUN",
        help="Only watch this run of the SuperLink of --connection (path or name); Ctrl-C leaves it running.",
        autocompletion=completion.runs,
    ),
]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Run folder (path or name).", autocompletion=completion.runs
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Worker processes (ray); default: one per core, or as the GPUs say."),
]
Gpus = Annotated[
    int | None,
    typer.Option(
        min=0, help="GPUs for the workers (ray); default: all, or none where device is cpu."
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS|auto",
        help="Workers on the hosts of a Ray cluster that is there (ray); auto: the one of this host.",
    ),
]
Hosts = Annotated[
    int, typer.Option(min=0, help="Wait until the cluster has so many hosts (--cluster).")
]
WorkersPerGpu = Annotated[
    int | None,
    typer.Option(
        metavar="1|2|4|8", help="Workers on each GPU (ray); default: as a dry step finds."
    ),
]


def print_file(text: str) -> None:
    """What is to be a file is in UTF-8, whatever the terminal's encoding; bytes of paths stay as they are."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    print(text, end="")


def print_json(content: Any) -> None:
    """For --json: ASCII alone, so that nothing in it means anything to a terminal."""
    typer.echo(json.dumps(content, indent=2))


def check_used(option: str, given: object, by: str, there: object) -> None:
    """InputError where an option is given without the other one, `by`, that alone uses it."""
    if given and not there:
        raise InputError(f"{option}: only {by} uses it; add that, or leave it out")


def given_beside(context: typer.Context, names: set[str]) -> list[str]:
    """Options and arguments that were typed, other than these parameters."""

    def is_typed(name: str | None) -> bool:
        source = context.get_parameter_source(name or "")
        return source is not None and source.name == "COMMANDLINE"

    typed = [p for p in context.command.params if p.name not in names and is_typed(p.name)]
    return [p.opts[0] if p.opts[0].startswith("-") else p.opts[0].upper() for p in typed]
