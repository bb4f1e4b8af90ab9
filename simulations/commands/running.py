"""`fedsuite deploy server` and `node`: Flower's programs in the foreground, with a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

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
LogHours = Annotated[
    int, typer.Option("--log-rotation-interval-hours", min=1, help="A new log file every N hours.")
]
LogsKept = Annotated[
    int, typer.Option("--log-rotation-backup-count", min=1, help="Older log files to keep.")
]


def server(
    folder: Server,
    listen: Annotated[
        str, typer.Option(help="Address to listen on; default: listen of server.toml.")
    ] = "",
    log_file: LogFile = None,
    log_hours: LogHours = 24,
    logs_kept: LogsKept = 7,
) -> None:
    """Run the SuperLink; Ctrl-C ends it."""
    from dataclasses import replace

    from simulations.deploy.kit.server_folder import read_server
    from simulations.deploy.serving import run_server

    found = read_server(folder)
    found = replace(found, listen=listen) if listen else found
    with _logged(log_file, log_hours, logs_kept) as say:
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
    log_hours: LogHours = 24,
    logs_kept: LogsKept = 7,
) -> None:
    """Run a SuperNode; Ctrl-C ends it."""
    from simulations.deploy.node import run_node, start_of

    start = start_of(file, superlink, ca, key, port, poll_s)
    with _logged(log_file, log_hours, logs_kept) as say:
        run_node(start, say, warm)


@contextmanager
def _logged(file: Path | None, hours: int, kept: int) -> Iterator[Callable[[str], None]]:
    """What says a program's lines, until it is stopped."""
    stop_as_ctrl_c()
    with log_lines(Rotation(file, hours, kept) if file else None) as say:
        try:
            yield say
        except KeyboardInterrupt:
            say("stopped")
            raise typer.Exit(EXIT_STOPPED) from None
