"""`fedsuite deploy server`: a SuperLink in the foreground, from its folder."""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import flwr

from fedsuite.errors import InputError, RunFailed
from fedsuite.storage.files import locked, open_new, telling
from simulations.deploy.kit.renewing import ending_soon
from simulations.deploy.kit.server_folder import ServerFolder, placed
from simulations.deploy.meter import METRICS, NOW
from simulations.deploy.programs import ended, run_program
from simulations.engines.flower import command_path, flower_settings
from simulations.engines.processes import wait_until

# How often it looks whether a run is to be started; each look is a request to itself.
SELDOM = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "2"}
# What a killed SuperLink left behind is being ended meanwhile.
PATIENCE_S = 15.0


def run_server(server: ServerFolder, say: Callable[[str], None]) -> None:
    """Run until we are asked to end (KeyboardInterrupt); RunFailed if it ends by itself."""
    check_place(Path(flwr.__file__).parent)
    superlink = [command_path("flower-superlink"), *server.superlink_arguments()]
    command = [sys.executable, "-m", "simulations.deploy.superexec", *superlink]
    environment = {**os.environ, **flower_settings(server.home), NOW: str(server.now)}
    environment |= {METRICS: str(server.metrics or ""), **SELDOM}
    with locked(server.path / ".lock", PATIENCE_S) as ours:
        if not ours:
            raise InputError(
                f"{server.path}: another `fedsuite deploy server` runs on this folder; stop it first"
            )
        if not wait_until(lambda: _is_free(server), PATIENCE_S, 0.5):
            raise InputError(
                f"{server.listen}:{server.port}: another program listens there; stop it, or change port in "
                f"{server.path / 'server.toml'} and in node.toml of the nodes"
            )
        for line in filter(None, [placed(server), *ending_soon(server)]):
            say(f"note: {line}")
        if not server.database.exists():  # Flower would let everybody read it
            with telling(server.database):
                open_new(server.database).close()
        say(f"SuperLink at {server.address}, folder {server.path}; Ctrl-C ends it")
        status = run_program(command, environment, server.path, say)
    raise RunFailed(f"flower-superlink {ended(status)}; its last lines say why; start it again")


def check_place(flower: Path) -> None:
    """InputError where Flower lies in a folder from which it would give its SuperLink a database without tables: it hands
    the folders of their descriptions on as one text, with blanks between them and per cent signs that stand for others."""
    if set(str(flower)) & set(" ,%"):
        raise InputError(
            f"{flower}: Flower's SuperLink cannot make its database from a folder with a blank, a comma or a per cent sign "
            "in its path; make the Python environment in another one"
        )


def _is_free(server: ServerFolder) -> bool:
    """Whether the SuperLink can listen on its port."""
    family = socket.AF_INET6 if ":" in server.listen else socket.AF_INET
    with closing(socket.socket(family)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((server.listen, server.port))
            probe.listen()
        except PermissionError as error:
            raise InputError(
                f"port {server.port}: {error.strerror}; choose one above 1023 in {server.path / 'server.toml'}"
            ) from None
        except OSError as error:
            if isinstance(error, socket.gaierror):
                raise InputError(
                    f"{server.path / 'server.toml'}: listen: {server.listen} is no address of this machine; correct it"
                ) from None
            return False
    return True
