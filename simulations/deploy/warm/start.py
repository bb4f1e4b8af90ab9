"""Warm client processes: a SuperNode's `flwr-clientapp` without the seconds of imports that each message costs.

A SuperNode starts `flower-superexec`, and that the program `flwr-clientapp` for every message; both are found on PATH.
Within `warm_clients` PATH begins with a folder that holds small programs of these names. They hand their arguments,
environment and files to a server process (prefork_server.py) that has torch, Flower and our packages imported, and that
forks a child which runs Flower's own program. SuperNode and SuperExec are started so as well, so that what all of them
import is in memory once.
"""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.roster.node import NodeSettings
from fedsuite.storage.deleting import WARM as FOLDER
from fedsuite.storage.deleting import delete_made
from simulations.deploy.programs import WARM
from simulations.systems import BUILT_IN

CLIENT, ENTRY = "flwr-clientapp", "flwr.supernode.cli:flwr_clientapp"  # what it runs
OTHERS = {
    "flower-supernode": "simulations.deploy.polling:supernode",
    "flower-superexec": "simulations.deploy.polling:superexec",
}
SOCKET = "clients.sock"
LONGEST_FOLDER = 60  # a socket's whole path must stay under 108 bytes
STOP_LIMIT_S = 10.0
_ROOT = Path(__file__).resolve().parents[3]
_START = (
    "import sys; sys.path[: not sys.flags.safe_path] = [{root!r}]; "
    "from simulations.deploy.warm.prefork_server import main; main({folder!r}, {programs!r}, {systems!r})"
)


@contextmanager
def warm_clients(
    environment: Mapping[str, str], own: NodeSettings | None, entry: str = ENTRY
) -> Iterator[dict[str, str]]:
    """An environment for `flower-supernode` in which client processes start warm.

    environment: the SuperNode's, with which the server is started too; own: the node's file, which says what systems to
    import; None: all built-in ones; entry: module:FUNCTION that `flwr-clientapp` runs. Where this system cannot do it (it
    needs Linux), that is said on stderr and the environment comes back as it was. Server, children and folder are gone when
    the block, or this process, has ended.
    """
    entries, path = {CLIENT: entry, **OTHERS}, environment.get("PATH")
    programs = {real: e for name, e in entries.items() if (real := shutil.which(name, path=path))}
    if entry not in programs.values():
        raise InputError(f"{CLIENT}: not on the SuperNode's PATH; install flwr in this environment")
    if not hasattr(os, "pidfd_open"):
        print("client processes start cold: warm ones need Linux", file=sys.stderr)
        yield dict(environment)
        return
    systems = list(own.allowed if own else BUILT_IN)
    short = None if len(tempfile.gettempdir().encode()) <= LONGEST_FOLDER else "/tmp"
    folder = Path(tempfile.mkdtemp("", FOLDER, short))
    try:
        for program in programs:
            _write_program(folder, program)
        server = _start(folder, programs, systems, environment)
        try:
            first = str(folder / "bin")
            yield {**environment, WARM: first, "PATH": os.pathsep.join([first, path or ""])}
        finally:
            _stop(server)
    finally:
        delete_made(folder)


def _write_program(folder: Path, program: str) -> None:
    """Into the folder for PATH. -I and -S keep the start short: no packages, no PYTHONPATH."""
    script = Path(__file__).with_name("program.py")
    words = [sys.executable, "-I", "-S", str(script), str(folder / SOCKET), program]
    file = folder / "bin" / Path(program).name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(os.fsencode(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'))
    file.chmod(0o700)


def _start(
    folder: Path,
    programs: Mapping[str, str],
    systems: list[str],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """The server. Its socket listens at once, so that whoever comes while it imports waits for it.

    It ends when its stdin is closed, as it is when this process ends in whatever way.
    """
    code = _START.format(root=str(_ROOT), folder=str(folder), programs=programs, systems=systems)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / SOCKET))
        listener.listen(64)
        number = listener.fileno()
        return subprocess.Popen(
            [sys.executable, "-c", code, str(number)],
            stdin=subprocess.PIPE,
            env=dict(environment),
            pass_fds=[number],
            start_new_session=True,  # Ctrl-C reaches children through the programs that they stand for
        )


def _stop(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    with suppress(OSError):
        server.stdin.close()
    try:
        server.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
