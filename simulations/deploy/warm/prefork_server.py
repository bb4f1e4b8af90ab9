"""The server behind warm processes: imports once, then forks a child for every program that asks.

A child differs from a new process in nothing that a result could depend on: it has the program's folder, umask, files,
arguments and environment; random states are as in a new process; torch and BLAS start their threads in the child; our
packages are handed to it only where it would import these very files. The server itself computes nothing.

It ends when its stdin closes. Children end with the server, and with the program that they stand for.
"""

import ctypes
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedsuite.storage.deleting import delete_made
from simulations.app.machine import leave_the_compiler_out
from simulations.deploy.warm.imports import Kept
from simulations.deploy.warm.job import Job, become, leave_after, received

MODULES = ("flwr.supernode.cli", "simulations.client_app")
OF_A_SYSTEM = ("simulations.{}.system", "simulations.{}.client")
# Of a system of one's own, whose module (module:NAME) a child imports itself, as a new process does: most of what it needs.
OF_ONES_OWN = ("simulations.torch_system", "clients.torch_client")
# What may differ between the SuperNode, with whose environment the modules were imported, and its programs. What Flower
# has added on the way may, too, unless imported libraries read it.
FREE = frozenset(["PATH", "PWD", "OLDPWD", "SHLVL", "_"])
READ = (
    "PYTHON",
    "FLWR_",
    "TORCH",
    "PYTORCH",
    "ATEN_",
    "CUDA",
    "NVIDIA_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
)
JOB_LIMIT_S, END_LIMIT_S = 10.0, 3.0
PR_SET_PDEATHSIG = 1
OWNER = 0  # stdin


@dataclass(frozen=True, eq=False)
class Child:
    """handle: readable when it has ended; connection: to the program that it stands for."""

    pid: int
    handle: int
    connection: socket.socket


def main(folder: str, programs: Mapping[str, str], systems: Sequence[str]) -> None:
    """sys.argv[1]: the number of the listening socket; programs: path -> module:FUNCTION that it runs.

    In a child this ends as its program does.
    """
    environment = dict(os.environ)
    server = Server(socket.socket(fileno=int(sys.argv[1])), programs, environment)
    modules = [entry.partition(":")[0] for entry in programs.values()]
    wanted = [
        *MODULES,
        *modules,
        *(m.format(system) for system in systems for m in _needed(system)),
    ]
    for name in wanted:
        try:
            importlib.import_module(name)
        except Exception as error:  # the real program will say so in full
            print(f"warm clients: {name} stays cold: {error}", file=sys.stderr, flush=True)
    leave_the_compiler_out()
    set_by_imports = {k: v for k, v in os.environ.items() if environment.get(k) != v}
    kept = Kept.now()
    gc.collect()
    gc.freeze()  # so that children's collections do not copy the server's pages
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    job = None
    with suppress(SystemExit):
        job = server.serve()
    if job is not None:
        module, _, function = programs[job.words[0]].partition(":")
        become(job, set_by_imports)
        kept.offer()
        leave_after(getattr(importlib.import_module(module), function))
    server.end_all()
    delete_made(Path(folder))
    os._exit(0)  # what is kept is not taken apart


def _needed(system: str) -> Sequence[str]:
    return OF_ONES_OWN if ":" in system else OF_A_SYSTEM


class Server:
    """programs: those that it stands for, by path; environment: what its modules were imported with."""

    def __init__(
        self, listener: socket.socket, programs: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        self.listener, self.programs, self.environment = listener, programs, environment
        self.children: list[Child] = []
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.selector.register(OWNER, selectors.EVENT_READ)

    def serve(self) -> Job | None:
        """None when the owner has gone; in a child, its job."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj == OWNER:
                    return None
                if key.fileobj is self.listener:
                    if job := self._accept():
                        return job
                elif key.data in self.children:
                    self._look_after(key.data, ended=key.fileobj == key.data.handle)

    def end_all(self) -> None:
        """End all children."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for child in self.children:
                signal.pidfd_send_signal(child.handle, number)
            give_up = time.monotonic() + END_LIMIT_S
            while self.children and time.monotonic() < give_up:
                for key, _ in self.selector.select(0.1):
                    if key.data in self.children and key.fileobj == key.data.handle:
                        self._look_after(key.data, ended=True)

    def _accept(self) -> Job | None:
        """Fork for the next program; its job in the child."""
        connection, _ = self.listener.accept()
        try:
            connection.settimeout(JOB_LIMIT_S)
            job = received(connection)
            if complaint := self._unlike(job):
                job.close()
                connection.sendall(complaint.encode())
                connection.close()
                return None
            connection.sendall(b"+")
        except (OSError, ValueError):  # the program was killed meanwhile
            connection.close()
            return None
        server = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            _die_with(server)
            self._forget(connection)
            return job
        child = Child(pid, os.pidfd_open(pid), connection)
        self.children.append(child)
        self.selector.register(child.handle, selectors.EVENT_READ, child)
        self.selector.register(connection, selectors.EVENT_READ, child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        job.close()
        return None

    def _unlike(self, job: Job) -> str:
        """What keeps a child from being like a new process of this program with this environment."""
        if job.words[0] not in self.programs:
            return f"it does not know {job.words[0]}"
        own, environment = self.environment, job.environment
        added = {name for name in environment.keys() - own.keys() if name.startswith(READ)}
        changed = {name for name, value in own.items() if environment.get(name) != value}
        differing = sorted((added | changed) - FREE)
        return f"it was started with another {differing[0]}" if differing else ""

    def _look_after(self, child: Child, ended: bool) -> None:
        """Pass on signals, and the end on either side."""
        if ended:
            _, status = os.waitpid(child.pid, 0)
            self.children.remove(child)
            self.selector.unregister(child.handle)
            os.close(child.handle)
            with suppress(OSError):
                child.connection.sendall(b"%d" % os.waitstatus_to_exitcode(status))
        else:
            try:
                numbers = child.connection.recv(16)
            except OSError:
                numbers = b""
            for number in numbers or [signal.SIGKILL]:  # nothing: the program was killed
                signal.pidfd_send_signal(child.handle, number)
            if numbers:
                return
        if child.connection.fileno() >= 0:
            self.selector.unregister(child.connection)
            child.connection.close()

    def _forget(self, own: socket.socket) -> None:
        """In a child: close what is the server's."""
        self.selector.close()
        self.listener.close()
        own.close()
        for child in self.children:
            child.connection.close()
            os.close(child.handle)


def _die_with(server: int) -> None:
    """The system kills this child when the server ends in whatever way."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)
