"""`fedsuite deploy add`, `revoke` and `renew`: who joins a deployment, who leaves it, and its certificates anew."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from fedsuite.errors import InputError
from simulations.commands.options import check_used

Kit = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `deploy init` made.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the node.")]


def add(
    folder: Kit,
    name: Name,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="RUN.toml",
            help="Convert and check the node's data, here in its folder, and put it on the roster.",
        ),
    ] = None,
    part: Annotated[
        Path | None,
        typer.Option(
            "--part",
            metavar="NAME.json",
            help="Put it on the roster by what `data prepare-node` wrote where its data are.",
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the run."),
    ] = None,
) -> None:
    """Add a node: its folder and key where they are missing, and its entry on the roster for new runs."""
    from fedsuite.roster.node_report import read_part
    from simulations.commands.roster import part_of_node
    from simulations.deploy.kit.arrivals import add_node, enter, node_file

    if run and part:
        raise InputError("give --run where the node's data are here, or --part, not both")
    check_used("--set", change, "--run", run)
    file = node_file(folder, name)
    if not file.is_file() or not (run or part):
        _say(add_node(folder, name))
    if part:
        _say(enter(folder, name, read_part(part), str(part)))
    elif run:
        _say(enter(folder, name, part_of_node(file, run, change or []), str(file)))


def revoke(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR/server", help="The SuperLink's folder, from `deploy init`."),
    ],
    name: Name,
) -> None:
    """Unregister a node at the running SuperLink, for good, and put its public key aside."""
    from simulations.deploy.check.revoking import revoke as revoke_node
    from simulations.deploy.kit.server_folder import read_server

    _say(revoke_node(read_server(folder), name))


def renew(
    folder: Kit,
    days: Annotated[
        int, typer.Option(min=31, max=36500, help="How long the certificate is valid.")
    ] = 1825,
    authority: Annotated[
        bool,
        typer.Option(
            "--authority",
            help="The authority's certificate too, with its key, for twice as long; nodes need the new ca.crt.",
        ),
    ] = False,
) -> None:
    """Make the SuperLink's key and certificate anew, for the same hosts, signed by the folder's authority."""
    from simulations.deploy.kit.renewing import renew as renew_certificates

    _say(renew_certificates(folder, days, authority))


def add_to(deploy: typer.Typer) -> None:
    for command in (add, revoke, renew):
        deploy.command()(command)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)
