"""`fedsuite configs` and `fedsuite init`: what comes along, and a configuration of one's own."""

from dataclasses import asdict
from typing import Annotated

import typer

from fedsuite.storage.files import as_typed
from simulations.commands import completion
from simulations.commands.options import AsJson, print_json


def add_to(app: typer.Typer) -> None:
    """Both commands."""
    app.command()(configs)
    app.command("init")(init)


def configs(
    system: Annotated[str, typer.Argument(help="fedvln, cdl or fedrl; default: all.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the configurations that come along; `fedsuite run NAME` plays one."""
    from rich.table import Column, Table
    from rich.text import Text

    from fedsuite.storage.escaping import PlainConsole
    from simulations.shipped import shipped

    if as_json:
        print_json([asdict(found) for found in shipped(system)])
        return
    table = Table(Column("name", no_wrap=True), "what it is, time, what it needs", box=None)
    for found in shipped(system):
        more = Text(f"{found.time}; needs {found.needs}", style="dim")
        table.add_row(found.name, Text(f"{found.what}\n").append_text(more))
    PlainConsole().print(table)


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="New file NAME.toml.")],
    system: Annotated[str, typer.Option(help="System, or module:ATTRIBUTE; default: fedvln.")] = "",
    like: Annotated[
        str,
        typer.Option(
            metavar="CONFIG",
            help="Copy this configuration, with its comments.",
            autocompletion=completion.configs,
        ),
    ] = "",
) -> None:
    """Write a configuration of your own: every key of a system, or a copy of a shipped one."""
    from simulations.shipped.own_config import write_config

    file = write_config(name, system, like)
    typer.echo(f"{file}: play it with: fedsuite run {as_typed(file)}")
