"""This process's own Ray, started for one run and ended after it; one that runs in this process already is used as it is.

Ray's processes listen on 127.0.0.1 alone and have a temporary folder of their own. They end with this process, and a guard
beside it clears away what a `kill -9` leaves.
"""

import logging
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fedsuite.errors import InputError, RunFailed
from fedsuite.storage.deleting import TEMPORARY
from simulations.app.machine import variables
from simulations.engines.guard import Guard
from simulations.engines.processes import MARK, Family
from simulations.engines.ray.logs import RAY_LOGS, cause, keep_logs
from simulations.engines.ray.placement import Placement

LONGEST_TMPDIR = 24  # Ray's socket paths start there and must stay under 107 characters
TRIES = 2
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray's own 15 nearly stops a run beside one ordinary busy process per core.
    "RAY_worker_niceness": os.environ.get("RAY_worker_niceness", "0"),  # noqa: SIM112
    # Actors get processes of their own: those that Ray starts beforehand are thrown away unused.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    # Workers are told themselves which GPUs they may not see, and `uv run` is nothing that they could repeat.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}


@contextmanager
def ray_for(placement: Placement, kept: Path) -> Iterator[Path]:
    """Ray with room for these workers, while the context lasts; the folder of its logs.

    RunFailed if it does not start; kept: the folder to which its logs are then copied. InputError for a Ray of this process
    that is too small.
    """
    with handlers_kept():
        import ray
    if ray.is_initialized():
        _check_room(ray.cluster_resources(), placement)
        node: Any = ray._private.worker._global_node
        yield Path(node.get_logs_dir_path())
        return
    short = None if len(tempfile.gettempdir()) <= LONGEST_TMPDIR else "/tmp"
    with tempfile.TemporaryDirectory("", TEMPORARY, short, ignore_cleanup_errors=True) as place:
        home, family = Path(place), Family()
        guard = Guard(family, home)
        try:
            _start(home, family, placement, kept)
            with patch.object(ray._private.worker, "print_to_stdstream", _unheard):
                yield home / "session_latest" / "logs"
        finally:
            with handlers_kept(), _undisturbed():
                ray.shutdown()
                family.end()
                guard.dismiss()


def _start(home: Path, family: Family, placement: Placement, kept: Path) -> None:
    """Start Ray in `home`, at the second try where a busy machine was too slow for the first."""
    import ray

    logs = home / "session_latest" / "logs"
    for number in range(1, TRIES + 1):
        try:
            with (
                handlers_kept(),
                # Ray's processes inherit these, and nothing that is started later.
                variables({**_SETTINGS, MARK: family.mark}),
                # Ray would put the machine's own address in the place of 127.0.0.1, and listen there.
                patch.object(ray._private.services, "resolve_ip_for_localhost", str),
            ):
                ray.init(
                    address="local",
                    num_cpus=placement.workers,
                    num_gpus=placement.gpus,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.CRITICAL,
                    _node_ip_address="127.0.0.1",
                    _temp_dir=str(home),
                )
            return
        except Exception as error:  # Ray raises plain exceptions; whatever it is, there is no Ray
            with handlers_kept():
                ray.shutdown()
            family.end()
            if number == TRIES:
                reason = f"Ray did not start: {cause(logs, error)}"
                keep_logs(logs, kept)
                raise RunFailed(f"{reason} (logs: {kept / RAY_LOGS})") from None


def _unheard(*_: Any, **__: Any) -> None:
    """In place of what prints a worker's death, which the grid tells in its own words."""


def _check_room(there: Mapping[str, float], placement: Placement) -> None:
    for what, wanted in (("CPU", placement.workers), ("GPU", placement.gpus)):
        if there.get(what, 0) < wanted:
            raise InputError(
                f"--{'workers' if what == 'CPU' else 'gpus'}: {wanted} wanted, but the Ray that runs in this process has "
                f"{there.get(what, 0):g} {what}s; give fewer, or shut that Ray down"
            )


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself where it is imported and started; here it goes on to mean what it meant before."""
    with _signals({}):
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not keep us from ending what we started."""
    with _signals({signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.SIG_IGN}):
        yield


@contextmanager
def _signals(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # nobody else may set them
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in handlers.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
