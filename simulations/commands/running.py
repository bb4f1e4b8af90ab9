"""`fedsuite deploy server` and `node`: Flower's programs in the foreground, with a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from simulations.commands.options import check_used
from simulations.commands.stopping import EXIT_STOPPED, stop_as_ctrl_c
from simulations.deploy.log_lines import Rotation, log_lines
from simulations.deploy.polling import DEFAULT_S

Server = Annotated[
    Path, typer.Argument(metavar="DIR/server", help="The SuperLink's folder, from `deploy init`.")
]
NodeFile = Annotated[Path, typer.Argument(metavar="NODE.toml", help="The node's own file.")]
Superlink = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Default: superlink of NODE.toml.")
]
Authority = Annotated[Path | None, typer.Option("--ca", help="Default: ca.crt beside NODE.toml.")]
Key = Annotated[Path | None, typer.Option(help="Private key; default: node.key beside NODE.toml.")]
LogFile = Annotated[
    Path | None,
    typer.Option("--log-file", help="Log to this file in place of standard output, and rotate it."),
]
HOURS, KEPT = "--log-rotation-interval-hours", "--log-rotation-backup-count"
LogHours = Annotated[
    int | None, typer.Option(HOURS, min=1, help="A new log file every N hours; default: 24.")
]
LogsKept = Annotated[
    int | None, typer.Option(KEPT, min=1, help="Older log files to keep; default: 7.")
]


def server(
    folder: Server,
    listen: Annotated[
        str, typer.Option(help="Address to listen on; default: listen of server.toml.")
    ] = "",
    log_file: LogFile = None,
    log_hours: LogHours = None,
    logs_kept: LogsKept = None,
) -> None:
    """Run the SuperLink; Ctrl-C ends it."""
    from dataclasses import replace

    from simulations.deploy.kit.server_folder import read_server
    from simulations.deploy.serving import run_server

    rotation = _rotation(log_file, log_hours, logs_kept)
    found = read_server(folder)
    found = replace(found, listen=listen) if listen else found
    with _logged(rotation) as say:
        run_server(found, say)


def node(
    file: NodeFile,
    superlink: Superlink = "",
    ca: Authority = None,
    key: Key = None,
    port: Annotated[
        int, typer.Option(help="Of the SuperNode's own API, on 127.0.0.1; 0: any free one.")
    ] = 0,
    warm: Annotated[
        bool,
        typer.Option(
            "--warm/--cold",
            help="Answer messages from a process that has imported everything; cold: each starts anew, 3 s slower.",
        ),
    ] = True,
    poll_s: Annotated[
        float,
        typer.Option(
            min=0.1, help="How often to ask for messages, in seconds; Flower's own way: 3."
        ),
    ] = DEFAULT_S,
    log_file: LogFile = None,
    log_hours: LogHours = None,
    logs_kept: LogsKept = None,
) -> None:
    """Run a SuperNode; Ctrl-C ends it."""
    from simulations.deploy.node import run_node, start_of

    rotation = _rotation(log_file, log_hours, logs_kept)
    start = start_of(file, superlink, ca, key, port, poll_s)
    with _logged(rotation) as say:
        run_node(start, say, warm)


def _rotation(file: Path | None, hours: int | None, kept: int | None) -> Rotation | None:
    """How to log to a file; None where there is none."""
    for option, given in ((HOURS, hours), (KEPT, kept)):
        check_used(option, given, "--log-file", file)
    return Rotation(file, hours or 24, kept or 7) if file else None


@contextmanager
def _logged(rotation: Rotation | None) -> Iterator[Callable[[str], None]]:
    """What says a program's lines, until it is stopped."""
    stop_as_ctrl_c()
    with log_lines(rotation) as say:
        try:
            yield say
        except KeyboardInterrupt:
            say("stopped")
            raise typer.Exit(EXIT_STOPPED) from None
