"""A run's folder that grows as a server writes it, round by round, without a server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsuite.history import HISTORY, TIMINGS, HistoryWriter
from fedsuite.roster.members import ROSTER, Member, Roster, write_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.files import write_json

SECONDS = 2.0  # of every round
STEPS = 10  # of every client and round


class GrowingRun:
    """clients: their names; the last one fails in every round that is told to have a failure."""

    def __init__(
        self, folder: Path, rounds: int = 4, clients: Sequence[str] = ("oak", "elm", "ash")
    ) -> None:
        self.run, self.clients = RunFolder(folder), clients
        folder.mkdir(parents=True)
        write_json(self.run.config, {"system": "toy", "seed": 0, "num-rounds": rounds})
        write_roster(folder / ROSTER, Roster(tuple(Member(name, "seen", 5) for name in clients)))
        self.run.begin()
        self.history = HistoryWriter(folder / HISTORY)
        self.timings = HistoryWriter(folder / TIMINGS)
        ready = {"round": 0, "kind": "ready", "clients": len(clients), "rounds": rounds}
        self.timings.append([ready | {"seconds": 1.0}])

    @property
    def path(self) -> Path:
        return self.run.path

    def ask(self, number: int, answered: int = 0) -> None:
        """Send the tasks of a round; so many clients have answered."""
        asked = {"round": number, "kind": "exchange", "task": "train", "clients": len(self.clients)}
        self.timings.append([asked | {"partitions": list(range(len(self.clients)))}])
        self.timings.append(self._client(number, name) for name in self.clients[:answered])

    def round(self, number: int, failure: str = "", status: str = "error") -> None:
        """Write down a round that is over; failure: why the last client's reply was not used, which is its status."""
        for name in self.clients:
            bad = failure if name == self.clients[-1] else ""
            row = self._client(number, name) | {"status": status if bad else "ok", "reason": bad}
            row |= {"num-examples": 5, "bytes-down": 80, "bytes-up": 0 if bad else 80}
            del row["seconds"], row["compute-seconds"]
            self.history.append([row | {"metrics": {} if bad else {"loss": 1.0 / (number + 1)}}])
        row = {"round": number, "kind": "round", "metrics": metrics_of(number)}
        self.history.append([row])
        parts = dict.fromkeys(("waiting-seconds", "merging-seconds", "evaluation-seconds"), 0.5)
        self.timings.append([row | {"seconds": SECONDS} | parts])

    def end(self, status: str = "completed", error: str = "") -> None:
        self.run.end(status, error)

    def _client(self, number: int, name: str) -> dict[str, Any]:
        row = {
            "round": number,
            "kind": "client",
            "partition": self.clients.index(name),
            "name": name,
        }
        return row | {"task": "train", "status": "ok", "seconds": 1.0, "compute-seconds": 0.9}


def metrics_of(number: int) -> dict[str, float]:
    """Metrics of a round: scored in every second one."""
    told = {"train.loss": 1.0 / (number + 1), "local-steps": float(STEPS * number)}
    return ({"val.sr": number / 10} if number % 2 == 0 else {}) | told


def finished(folder: Path, rounds: int = 4) -> Path:
    """The folder of a run that has ended well."""
    run = GrowingRun(folder, rounds)
    for number in range(rounds + 1):
        run.round(number)
    run.history.append([{"round": rounds, "kind": "closing", "metrics": {"test.sr": 0.75}}])
    timed = {"round": rounds, "kind": "closing", "seconds": 0.5, "metrics": {"test.sr": 0.75}}
    run.timings.append([timed])
    run.end()
    return folder
