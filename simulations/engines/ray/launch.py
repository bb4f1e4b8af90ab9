"""The default engine: Flower's Ray simulation, launched, watched and cleared away.

`flwr run` leaves a SuperLink behind, reuses whatever SuperLink is up (with that one's environment), simulates two nodes, may
install dependencies, and exits 0 although the run failed. So every launch gets its own Flower home, its own SuperLink on a
free port of 127.0.0.1 and the exact number of nodes, and is judged by the run's real status. Nothing that it started
survives it. Progress comes from the files of the run folder.
"""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsuite.errors import RunFailed
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import Value
from fedsuite.storage.deleting import TEMPORARY
from fedsuite.storage.files import write_json
from simulations.engines.nodes.following import Follower, OnEvent, raise_failure
from simulations.engines.ray.logs import FLOWER_LOG, RAY_LOGS, cause, keep_logs
from simulations.engines.ray.placement import Placement
from simulations.engines.ray.superlink import START_LIMIT_S, Launch
from simulations.engines.ray.waiting import Waiting

POLL_S = 0.2
LONGEST_TMPDIR = 24  # Ray's socket paths start there and must stay under 107 characters


def run_ray(
    run_config: Mapping[str, Value],
    folder: RunFolder,
    num_clients: int,
    placement: Placement,
    on_event: OnEvent = lambda _: None,
) -> None:
    """Run to the end; InputError or RunFailed with one line if it does not get there."""
    follower = Follower(folder)
    short = None if len(tempfile.gettempdir()) <= LONGEST_TMPDIR else "/tmp"
    with tempfile.TemporaryDirectory("", TEMPORARY, short, ignore_cleanup_errors=True) as home:
        launch = Launch(Path(home), placement.environment())
        try:
            with Waiting(on_event) as waiting:
                waiting.what = "Flower's SuperLink to start"
                launch.start_superlink()
                waiting.what = "Flower to take the run"
                launch.submit(run_config, placement.federation_config(num_clients))
                waiting.what = "Ray to start"
                state = _watch(launch, follower, waiting.show)
            raise_failure(folder, state)
            if state.get("status") == "completed":
                return  # nothing is left to do but Ray's own slow farewell, which stop() cuts short
        except RunFailed as error:
            if follower.has_begun and folder.status().get("status") == "failed":
                raise  # the server itself has said so
            raise _failed(launch, folder, run_config, str(error)) from None
        else:
            raise _failed(launch, folder, run_config, "")
        finally:
            launch.stop()


def _watch(launch: Launch, follower: Follower, on_event: OnEvent) -> Mapping[str, Any]:
    """Pass on progress until the run has ended; the last content of run.json."""
    give_up = time.monotonic() + START_LIMIT_S
    while True:
        alive = launch.is_running() and launch.has_simulation()
        # What comes last: whatever was written before the run ended is there.
        state = follower.state(on_event)
        if state.get("status") in ("completed", "failed"):
            break
        waiting = launch.is_running() and launch.simulation is None
        if not alive and not (waiting and time.monotonic() < give_up):
            break
        time.sleep(POLL_S)
    return state


def _failed(
    launch: Launch, folder: RunFolder, run_config: Mapping[str, Value], reason: str
) -> RunFailed:
    """The error of a run whose server never began, or could not say how it ended: now its folder says it, with all logs.

    reason: "" where Flower and Ray have to be asked.
    """
    said = launch.said()
    if not reason and (found := cause(launch.home, said)):
        reason = f"the simulation failed: {found}"
    elif not reason:
        reported, details = launch.status()
        reason = f"the simulation ended without a word (killed, or out of memory?); Flower reports {reported}: {details}"
    keep_logs(launch.home, said, folder.path)
    if not folder.config.exists():
        write_json(folder.config, {**run_config, "resume": ""})
    folder.end("failed", reason, "bug")
    return RunFailed(f"{reason} (logs: {folder.path / FLOWER_LOG}, {RAY_LOGS} beside it)")
