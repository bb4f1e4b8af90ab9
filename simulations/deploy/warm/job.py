"""What a program was started with, as it travels to the server of warm client processes, and a child that takes it on."""

import atexit
import os
import socket
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

ONE_SEED = 67280421310721  # what every process of an older torch starts from


@dataclass(frozen=True)
class Job:
    """files: stdin, stdout, stderr; words: the program and its arguments."""

    folder: bytes
    umask: int
    words: list[str]
    environment: dict[str, str]
    files: list[int]

    def close(self) -> None:
        for number in self.files:
            os.close(number)


def received(connection: socket.socket) -> Job:
    """The job of the program at the other end; ValueError or OSError if none comes."""
    head, files, _, _ = socket.recv_fds(connection, 16, 3)
    try:
        left, parts = int(head), []
        while left:
            parts.append(connection.recv(min(left, 1 << 16)))
            left -= len(parts[-1])
            if not parts[-1]:
                raise ValueError("the program ended")
        folder, umask, count, *texts = b"".join(parts).split(b"\0")
        decoded = [os.fsdecode(text) for text in texts]
        named = (pair.partition("=") for pair in decoded[int(count) :])
        environment = {name: value for name, _, value in named}
        if len(files) != 3 or int(count) < 1:
            came = f"{len(files)} files and {int(count)} words came"
            raise ValueError(f"{came}, expected 3 and at least 1")
        return Job(folder, int(umask), decoded[: int(count)], environment, files)
    except BaseException:
        for number in files:
            os.close(number)
        raise


def become(job: Job, set_by_imports: Mapping[str, str]) -> None:
    """Have this process stand for the job's program; set_by_imports: what importing adds to an environment."""
    for target, number in enumerate(job.files):
        os.dup2(number, target)
    job.close()
    os.chdir(job.folder)
    os.umask(job.umask)
    os.environ.clear()
    os.environ.update({**job.environment, **set_by_imports})
    sys.argv = job.words
    own = [] if sys.flags.safe_path else [os.path.dirname(os.path.realpath(job.words[0]))]
    sys.path[:1] = own
    for inherited in list(getattr(weakref.finalize, "_registry", ())):
        inherited.atexit = False  # the server's to tidy when it ends; torch alone has thousands
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())  # type: ignore[union-attr]
    _draw_anew()


def leave_after(run: Callable[[], object]) -> NoReturn:
    """End as a program of `run` ends, but leave the interpreter as it is: taking it apart copies the server's pages."""
    code: object = 1
    try:
        code = run()
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as every program does in the end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or nobody reads any more
            stream.flush()
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


def _draw_anew() -> None:
    """New processes differ in their unseeded random numbers; Python's own sees to it by itself."""
    import numpy as np
    import torch

    np.random.seed()
    if torch.initial_seed() != ONE_SEED:
        torch.default_generator.seed()
