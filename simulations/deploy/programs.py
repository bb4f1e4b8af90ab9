"""A program of Flower's in the foreground: what it starts ends with it, and with us, even by `kill -9`."""

import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedsuite.errors import RunFailed
from simulations.engines.guard import Guard
from simulations.engines.processes import MARK, Family, Process, is_alive

WARM = "FEDSUITE_WARM"  # in an environment: the folder of programs that start warm
SUPEREXEC = "flower-superexec"  # of SuperLink and SuperNode: starts the processes of runs
FAREWELL_S = 12.0  # a SuperNode tells its SuperLink that it goes
LOOK_S, ENDING_S = 0.5, 5.0
_TRACEBACK = "Traceback (most recent call last):"
_LOGGED = re.compile(r"(\x1b\[[\d;]*m)*((DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\d{4}-\d\d-\d\d)")


def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    on_line: Callable[[str], None],
) -> int:
    """Run to its end, in `folder`; every line that it says goes to `on_line`. Its exit status, negative for a signal.

    RunFailed where its SuperExec ends, without which it would stay and do nothing.

    KeyboardInterrupt, which stands for all that asks us to end, ends it first. Flower's processes are then ended while they
    still speak with one another, and print what that comes to: such tracebacks are not passed on.
    """
    family, leaving = Family(), threading.Event()
    with tempfile.TemporaryDirectory(prefix="fs-", ignore_cleanup_errors=True) as home:
        guard = Guard(family, Path(home))
        try:
            process = subprocess.Popen(
                command,
                env={**environment, MARK: family.mark},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C in the terminal is for us, who end it properly
            )
            # In a thread: what a killed program leaves behind may hold the pipe.
            reader = threading.Thread(target=_read, args=(process, leaving, on_line), daemon=True)
            reader.start()
            try:
                status = _status(process, family)
            except KeyboardInterrupt:
                leaving.set()
                raise
            finally:
                _say_goodbye(process)
        finally:
            family.end()
            guard.dismiss()
        reader.join(5)
        return status


def _status(process: subprocess.Popen[str], family: Family) -> int:
    """Of a program that has ended; RunFailed if its SuperExec has, and it has not."""
    superexec: Process | None = None
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(LOOK_S)
        if superexec is None:
            superexec = family.running(SUPEREXEC)
        elif not is_alive(superexec):
            with suppress(subprocess.TimeoutExpired):
                return process.wait(ENDING_S)  # both were to end
            raise RunFailed(
                f"{SUPEREXEC}, which starts the processes of runs, has ended; if no line above says why, it was killed, as "
                "where memory is short; start it again"
            )


def _read(
    process: subprocess.Popen[str], leaving: threading.Event, on_line: Callable[[str], None]
) -> None:
    assert process.stdout is not None
    in_traceback = False
    for line in process.stdout:
        if leaving.is_set() and line.startswith(_TRACEBACK):
            in_traceback = True
        elif in_traceback and _LOGGED.match(line):
            in_traceback = False
        if not in_traceback:
            on_line(line.rstrip("\n"))


def _say_goodbye(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(FAREWELL_S)


def ended(status: int) -> str:
    """How it ended, in words."""
    return f"was killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
