"""`fedsuite deploy`: from nothing to nodes that are connected over TLS; docs/deployment.md walks through it."""

from pathlib import Path
from typing import Annotated

import typer

from fedsuite.errors import InputError
from simulations.commands.operating import add_to as add_operating
from simulations.commands.options import AsJson, check_used, print_json
from simulations.commands.roster import LeastUses, part_of_node, words_of
from simulations.commands.running import Authority, Key, NodeFile, Server, Superlink, node, server
from simulations.deploy.check.cost import cost
from simulations.deploy.prune import prune

deploy = typer.Typer(help="Real nodes: a SuperLink, SuperNodes.", no_args_is_help=True)
deploy.command("cost")(cost)
deploy.command("server")(server)
deploy.command("node")(node)
deploy.command("prune")(prune)
add_operating(deploy)

Kit = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `deploy init` made.")]
Change = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the run.")
]


@deploy.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder.")],
    host: Annotated[
        str, typer.Option(help="Name or IP address under which nodes reach the SuperLink.")
    ],
    nodes: Annotated[
        str, typer.Option(metavar="N1,N2", help="Names of the nodes: members of the roster.")
    ] = "",
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="RUN.toml",
            help="In place of --nodes: a node for each member of a run on generated data, with the roster.",
        ),
    ] = None,
    change: Change = None,
    port: Annotated[int, typer.Option(help="The SuperLink's port.")] = 9092,
    days: Annotated[
        int,
        typer.Option(
            min=1,
            max=36500,
            help="How long the SuperLink's certificate is valid; the authority's: twice as long.",
        ),
    ] = 1825,
) -> None:
    """Write certificates, keys and folders for a SuperLink and its nodes."""
    from simulations.deploy.kit.address import Address, checked_host, checked_port
    from simulations.deploy.kit.bundle import hand_out, make_kit
    from simulations.deploy.kit.generated import generated_roster

    address = Address(checked_host(host, "--host"), checked_port(port, "--port"))
    if bool(nodes) == bool(run):
        raise InputError("give --nodes, or --run with the TOML of a run on generated data")
    check_used("--set", change, "--run", run)
    roster = generated_roster(run, change or []) if run else None
    names = roster.names if roster else [name.strip() for name in nodes.split(",")]
    make_kit(folder, names, address, days)
    if roster:
        hand_out(folder, roster)
    typer.echo(f"{folder}: certificates for {host}, keys for {', '.join(names)}")
    typer.echo(f"{folder / 'ca'}: signs certificates; keep it, give it to nobody")
    typer.echo(
        f"{folder / 'nodes'}/NAME: for that node's machine; {folder / 'server'}: for the SuperLink's"
    )


@deploy.command()
def roster(
    folder: Kit,
    config: Annotated[
        Path,
        typer.Argument(metavar="RUN.toml", help="TOML of the experiment, or its shipped name."),
    ],
    change: Change = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="FedVLN: words to use; default: counted at all nodes.")
    ] = None,
    min_word_count: LeastUses = None,
) -> None:
    """With the data of all nodes on this machine: convert them, make the roster and hand it out."""
    from fedsuite.roster.node_report import join
    from simulations.deploy.kit.bundle import NODE_FILE, hand_out, node_folders

    files = [node / NODE_FILE for node in node_folders(folder)]
    parts = {str(f): part_of_node(f, config, change or [], vocabulary is None) for f in files}
    made = join(parts, words_of(parts, vocabulary, min_word_count))
    hand_out(folder, made)
    typer.echo(f"{folder}: roster of {', '.join(made.names)} at the server and at every node")


@deploy.command()
def register(
    folder: Server,
    keys: Annotated[
        list[Path] | None,
        typer.Argument(metavar="KEY.pub", help="Default: those in DIR/server/keys."),
    ] = None,
) -> None:
    """Register nodes' public keys at the running SuperLink."""
    from simulations.deploy.check.registered import register as register_keys
    from simulations.deploy.kit.server_folder import read_server

    found = read_server(folder)
    if not (chosen := keys or found.keys):
        raise InputError(f"{folder / 'keys'}: no KEY.pub in it; name the public keys to register")
    for line in register_keys(found, chosen):
        _say(line)


@deploy.command()
def check(
    file: NodeFile,
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN.toml]", help="Convert and check the node's data for this run."
        ),
    ] = None,
    change: Change = None,
    superlink: Superlink = "",
    ca: Authority = None,
    key: Key = None,
) -> None:
    """Look at all that a node needs, one line each; exit code 2 if something is wrong."""
    from simulations.deploy.check.readiness import Subject, findings

    check_used("--set", change, "a RUN.toml", config)
    part = (lambda: part_of_node(file, config, change or [])) if config else None
    wrong = 0
    for finding in findings(Subject(file.absolute(), superlink, ca, key, part)):
        _say(str(finding))
        wrong += not finding.ok
    if wrong:
        raise InputError(f"{file}: {wrong} of these things must be put right")


@deploy.command()
def status(
    folder: Server,
    members: Annotated[
        Path | None,
        typer.Option("--roster", help="Default: roster.json of the folder, if it is there."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Who is registered and online, beside the roster, and the runs that go on."""
    from fedsuite.roster.members import read_roster
    from fedsuite.storage.escaping import PlainConsole
    from simulations.deploy.check.registered import registered_and_running
    from simulations.deploy.check.status import going_on, lines_about, status_rows, status_table
    from simulations.deploy.kit.renewing import ending_soon
    from simulations.deploy.kit.server_folder import read_server
    from simulations.deploy.meter import seen_in

    found = read_server(folder)
    for line in ending_soon(found):
        typer.echo(f"warning: {line}", err=True)
    place = members or (found.roster if found.roster.is_file() else None)
    nodes, running = registered_and_running(found)
    runs = going_on(seen_in(found.now), running)
    rows = status_rows(nodes, read_roster(place) if place else None, runs)
    if as_json:
        print_json(rows)
        return
    PlainConsole().print(status_table(rows))
    for line in lines_about(runs):
        _say(line)


def _say(line: str) -> None:
    """At once, also to a log."""
    print(line, flush=True)
