"""How many workers one GPU has room for: two messages are answered before a run, in a process of their own, and weighed.

A worker holds what CUDA takes in every process, the most that training takes of the clients of one message, stacked and
replayed where the run does so, and what the data of each other client leave there, since a worker keeps clients open. Two
messages tell all three: what the first takes of the GPU's free memory, and what the second adds that stays.

    python -m simulations.engines.ray.dry_step     a run-config in JSON on its input, a Weight in JSON in its last line
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import Task
from fedsuite.roster.members import ROSTER, read_roster, write_roster
from fedsuite.runs.folder import folder_of
from fedsuite.storage.progress import silent
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.engines.ray.placement import Weight
from simulations.systems import settings_of
from strategies.runtime.membership import gather
from strategies.runtime.messages import last_line, read_reply
from strategies.runtime.records import RoundRecords
from strategies.runtime.round_loop import RoundLoop
from strategies.runtime.together import members_of

# Reads the GPU's free bytes each time it is told to: from outside, what CUDA itself takes in a process shows, too.
_WATCH = (
    "import sys, torch\nfor _ in sys.stdin:\n    print(torch.cuda.mem_get_info()[0], flush=True)"
)
WATCHER = (sys.executable, "-c", _WATCH)
LIMIT_S = 600.0
_PER_RUN = {"name", "results-dir", "roster", "resume", "seed", "num-rounds"}
_known: dict[str, Weight] = {}  # of the runs of one experiment, many are alike
_APART = {"resume": "", "name": "dry-step"}


class Meter(Protocol):
    """Bytes of the GPU: free of all processes, and held by this one's arrays."""

    def free(self) -> int: ...
    def held(self) -> int: ...


class GpuMeter:
    """Free bytes as another process sees them."""

    def __init__(self, watcher: Iterable[str] = WATCHER) -> None:
        self._watcher = subprocess.Popen(
            list(watcher),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def free(self) -> int:
        assert self._watcher.stdin is not None and self._watcher.stdout is not None
        with suppress(BrokenPipeError):
            print(file=self._watcher.stdin, flush=True)
        if not (line := self._watcher.stdout.readline()):
            _, said = self._watcher.communicate()
            raise RunFailed(f"the GPU's memory cannot be read: {last_line(said)}")
        return int(line)

    def held(self) -> int:
        import torch

        return torch.cuda.memory_allocated()

    def close(self) -> None:
        self._watcher.kill()
        self._watcher.communicate()


def weigh(run_config: Mapping[str, Any], meter: Meter) -> Weight:
    """Those of two messages of this run's first round train here, in a folder that is deleted: those with most samples.

    RunFailed if one of them fails. No other client is opened, unless the system needs all to say who they are.
    """
    from simulations.client_app import app as client_app

    free = meter.free()
    with tempfile.TemporaryDirectory() as place:
        config = {**run_config, **_APART, "results-dir": place}
        system, settings = settings_of(config)
        folder = folder_of(settings)
        folder.path.mkdir()
        given = Path(settings.roster) if settings.roster else None
        roster = read_roster(given) if given else system.prepare(settings, silent)
        write_roster(folder.path / ROSTER, roster)
        grid = InProcessGrid(client_app, len(roster), config)
        with server_identity():
            known = system.known(settings, roster) if system.known else None
            members = gather(grid, roster, 0, settings, folder, known)
            rounds = system.make_strategy(settings, roster)
            loop = RoundLoop(grid, settings, folder, members, lambda _: None)
            state = loop.initial(rounds, RoundRecords(0, "", loop.exchange.names))
            tasks = next(rounds.train(1, state, loop.clients))
            largest = _largest(loop, tasks)
            seen = [_worked(grid, loop, task, meter) for task in largest]
    clients = [len(members_of(task)) for task in largest]
    each = max(0, seen[-1].held - seen[0].held) // clients[-1]
    return Weight(free, free - seen[0].free, each, len(tasks), clients[0])


class _Seen(NamedTuple):
    """Bytes after a message's work."""

    free: int
    held: int


def _largest(loop: RoundLoop, tasks: Sequence[Task]) -> list[Task]:
    return [tasks[i] for i in loop.exchange.largest_first(tasks)[:2]]


def _worked(grid: InProcessGrid, loop: RoundLoop, task: Task, meter: Meter) -> _Seen:
    """Carry out one task."""
    for reply in grid.send_and_receive(loop.exchange.messages([task], 1)):
        if error := read_reply(reply, task).error:
            raise RunFailed(f"{loop.exchange.names[task.partition]}: {error}")
    return _Seen(meter.free(), meter.held())


def weighed(run_config: Mapping[str, Any]) -> Weight:
    """The same in a process of its own, which gives the GPU back when it ends; RunFailed in one line.

    Asked once for runs that differ in name, seed and length alone.
    """
    alike = {key: value for key, value in run_config.items() if key not in _PER_RUN}
    key = json.dumps(alike, sort_keys=True)
    if key not in _known:
        _known[key] = _in_a_process(run_config)
    return _known[key]


def _in_a_process(run_config: Mapping[str, Any]) -> Weight:
    command = [sys.executable, "-m", "simulations.engines.ray.dry_step"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(dict(run_config)),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunFailed(f"two clients had not trained after {LIMIT_S:.0f} s") from None
    if done.returncode:
        raise RunFailed(last_line(done.stderr))
    return Weight(**json.loads(done.stdout.splitlines()[-1]))


def main(make_meter: Callable[[], GpuMeter] = GpuMeter) -> None:
    """Carry out what the module's docstring says."""
    run_config = json.loads(sys.stdin.read())
    meter = make_meter()
    try:
        print(json.dumps(asdict(weigh(run_config, meter))))
    except (InputError, RunFailed) as error:
        sys.exit(str(error))
    finally:
        meter.close()


if __name__ == "__main__":
    main()
