"""A run on real nodes: submitted to a running SuperLink, followed in its folder, stopped where it is no longer wanted.

The run's folder lies where the server writes it, so this needs the SuperLink's machine, or its results-dir shared with it.
Neither SuperLink nor nodes are started or ended here, and other runs on the same SuperLink are left alone.
"""

import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsuite.errors import RunFailed
from fedsuite.history import OnEvent
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import Value
from fedsuite.storage.files import as_typed
from simulations.engines.flower import Commands
from simulations.engines.nodes.connection import Connection
from simulations.engines.nodes.following import Follower, raise_failure
from simulations.engines.processes import wait_until

POLL_S = 0.2
BEGIN_LIMIT_S = 120.0  # from `flwr run` to the first word of the server
GONE_LIMIT_S = 90.0  # without a process that works on the run, as after the end of a SuperLink
STOP_LIMIT_S = 40.0  # Flower lets a server go on for a heartbeat
ASK_SOON_S, ASK_LATE_S = 5.0, 60.0  # a question to Flower costs a second of a core
PENDING = "pending"  # of Flower's: nobody has begun it
OVER = ("completed", "failed", "stopped")


def run_deployed(
    run_config: Mapping[str, Value],
    folder: RunFolder,
    connection: Connection,
    on_event: OnEvent = lambda _: None,
) -> None:
    """Run to the end; InputError or RunFailed with one line if it does not get there. Ctrl-C stops the run."""
    follower, commands = Follower(folder), connection.commands
    with tempfile.TemporaryDirectory("", "fs-") as place, _interrupts_held() as came:
        run_id = commands.submit(Path(place), run_config)
    try:
        if came:
            raise KeyboardInterrupt
        _watch(commands, run_id, follower, on_event, ours=True)
    except KeyboardInterrupt:
        _stop(commands, run_id, folder)
        if follower.has_begun and folder.status().get("status") != "completed":
            folder.end("stopped", "stopped by the user")
        raise


def attach_deployed(
    folder: RunFolder, connection: Connection, run_id: str, on_event: OnEvent = lambda _: None
) -> None:
    """Follow Flower's run `run_id`, which writes to the folder, from its first event to its end. It is not stopped, and
    nothing is written; RunFailed or InputError as the run has ended.
    """
    _watch(connection.commands, run_id, Follower(folder, begun=True), on_event, ours=False)


def _watch(
    commands: Commands, run_id: str, follower: Follower, on_event: OnEvent, ours: bool
) -> None:
    """Pass on progress until the run has ended; raise if it did not end well. ours: whether it is stopped, and that written
    down, where nobody works on it any more.
    """
    folder, worked_on = follower.folder, time.monotonic()
    ask_at, over = worked_on + ASK_SOON_S, False
    while True:
        state = follower.state(on_event)
        if over or state.get("status") in OVER:
            break
        now, begun = time.monotonic(), follower.has_begun
        lively = begun and folder.is_being_written()
        worked_on = now if lively else worked_on
        if now >= ask_at:
            status, details = commands.status(run_id)
            over = status.startswith("finished")
            if not over and now - worked_on > (GONE_LIMIT_S if begun else BEGIN_LIMIT_S):
                if ours:
                    _stop(commands, run_id, folder)
                reported = f"Flower reports {status}: {details}".rstrip(": ")
                _give_up(folder, begun, reported, ours)
            ask_at = now + (ASK_LATE_S if lively else ASK_SOON_S)
        time.sleep(POLL_S)
    raise_failure(folder, state)
    if state.get("status") == "completed":
        return
    if state.get("status") == "stopped":
        raise RunFailed(
            f"the run was stopped by somebody else, at the SuperLink; continue with --resume {as_typed(folder.path)}"
        )
    reason = f"the run ended without a word of its server; Flower reports {status}: {details}"
    if follower.has_begun:
        reason += f"; when the SuperLink is up, continue with --resume {as_typed(folder.path)}"
    _note(folder, follower.has_begun and ours, reason)
    raise RunFailed(reason)


def _give_up(folder: RunFolder, begun: bool, reported: str, ours: bool) -> None:
    """RunFailed for a run of which nothing is seen any more, or nothing was seen at all."""
    if begun:
        reason = (
            f"no process works on the run any more ({reported}); see whether the SuperLink runs, then continue with "
            f"--resume {as_typed(folder.path)}"
        )
        _note(folder, ours, reason)
        raise RunFailed(reason)
    cure = "give the command on the SuperLink's machine, as its user, or share its results-dir with this one"
    if PENDING in reported:
        cure = "nobody there begins runs, as where its flower-superexec has ended; start `fedsuite deploy server` again"
    raise RunFailed(
        f"{folder.path}: the server has not begun to write here within {BEGIN_LIMIT_S:g} s ({reported}), so the run was "
        f"stopped; {cure}"
    )


def _note(folder: RunFolder, ours: bool, reason: str) -> None:
    """run.json says how a run ended whose server could not."""
    if ours and folder.status().get("status") == "running":
        folder.end("failed", reason, "run")


def _stop(commands: Commands, run_id: str, folder: RunFolder) -> None:
    """Stop the run and wait until its server has let go of the folder."""
    commands.stop(run_id)
    wait_until(lambda: not folder.is_being_written(), STOP_LIMIT_S, pause_s=0.5)


@contextmanager
def _interrupts_held() -> Iterator[list[int]]:
    """Signals that come while a run is submitted, whose id is not known yet; they are acted on afterwards."""
    came: list[int] = []

    def note(number: int, _: Any) -> None:
        came.append(number)

    main = threading.current_thread() is threading.main_thread()  # nobody else gets signals
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if main else ()
    before = {n: signal.getsignal(n) for n in numbers}
    held = [n for n in numbers if before[n] != signal.SIG_IGN]
    for number in held:
        signal.signal(number, note)
    try:
        yield came
    finally:
        for number in held:
            signal.signal(number, before[number])
