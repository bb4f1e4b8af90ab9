"""What is seen of a run on real nodes from outside: how it stands, for `fedsuite deploy status`, and for Prometheus.

`fedsuite deploy server` says by the environment where the server of a run leaves both: NOW/<run>.json, and
METRICS/fedsuite-<run>.prom, which node_exporter's textfile collector reads (Prometheus' text format 0.0.4). Each is replaced
as a whole, so that a reader never sees half of one; it tells of the latest run of its name, and stays when that has ended.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin

from fedsuite.errors import InputError, RunFailed
from fedsuite.history import Kind, OnEvent, kind_of
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.files import read_object, write_atomically, write_json

NOW, METRICS = "FEDSUITE_NOW", "FEDSUITE_METRICS"
_GAUGES = {
    "running": ("gauge", "1 while the run goes on, else 0."),
    "members": ("gauge", "Members of the run."),
    "members_online": ("gauge", "Members that are not lost."),
    "round": ("gauge", "The last round that is over."),
    "rounds": ("gauge", "Rounds of the whole run."),
    "round_seconds": ("gauge", "Seconds of the last round."),
    "round_bytes_down": ("gauge", "Bytes of arrays sent to members in the last round."),
    "round_bytes_up": ("gauge", "Bytes of arrays received from members in the last round."),
    "lost_total": ("counter", "Times that a member was lost."),
    "rejected_total": ("counter", "Replies that were refused or that failed."),
    "heard_timestamp_seconds": ("gauge", "When the server of the run was last heard of."),
}


@dataclass
class Meter:
    """run, folder, flower_run: its name, where it writes, Flower's id of it; nodes: by name, what they run on.

    Counts begin anew with a resumed run, as a counter may.
    """

    run: str
    folder: str
    flower_run: str
    running: int = 1
    members: int = 0
    round: int = 0
    rounds: int = 0
    round_seconds: float = 0.0
    round_bytes_down: int = 0
    round_bytes_up: int = 0
    lost_total: int = 0
    rejected_total: int = 0
    heard_timestamp_seconds: float = 0.0
    away: list[str] = field(default_factory=list)
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def members_online(self) -> int:
        return self.members - len(self.away)

    def hear(self, event: Mapping[str, Any]) -> bool:
        """Take in an event of the run; whether it changes what is seen."""
        match kind_of(event):
            case Kind.READY:
                self.members, self.rounds = int(event["clients"]), int(event["rounds"])
                self.round = int(event["round"])
            case Kind.LOST:
                self.lost_total += 1
                self.away = sorted({*self.away, str(event["client"])})
            case Kind.SENT_AGAIN:
                self._is_back(str(event["client"]))
            case Kind.CLIENT:
                return event.get("status") == "ok" and self._is_back(str(event["name"]))
            case Kind.ROUND | Kind.CLOSING:
                self.round = int(event["round"])
                self.round_seconds = float(event["seconds"])
                self.round_bytes_down = int(event["bytes-down"])
                self.round_bytes_up = int(event["bytes-up"])
                self.rejected_total += int(event["rejected"])
            case _:
                return False
        return True

    def _is_back(self, name: str) -> bool:
        known = name in self.away
        self.away = [other for other in self.away if other != name]
        return known

    def text(self) -> str:
        """For Prometheus: a line of each number, labelled with the run."""
        name = self.run.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        lines = []
        for key, (kind, about) in _GAUGES.items():
            lines += [f"# HELP fedsuite_{key} {about}", f"# TYPE fedsuite_{key} {kind}"]
            lines.append(f'fedsuite_{key}{{run="{name}"}} {getattr(self, key)!r}')
        return "\n".join(lines) + "\n"


@contextmanager
def metered(folder: RunFolder, flower_run: int) -> Iterator[OnEvent]:
    """What hears the events of a run meanwhile; nothing is written where the environment names no place.

    What cannot be written is said once, and costs the run nothing.
    """
    places = {name: os.environ.get(name, "") for name in (NOW, METRICS)}
    if not any(places.values()):
        yield lambda _: None
        return
    meter, complaints = Meter(folder.path.name, str(folder.path), str(flower_run)), set[str]()

    def tell() -> None:
        meter.heard_timestamp_seconds = round(time.time(), 3)
        with suppress(InputError, RunFailed):
            meter.nodes = folder.status().get("nodes") or {}
        try:
            _write(meter, places)
        except (InputError, RunFailed, OSError) as error:
            if str(error) not in complaints:
                print(
                    f"not written for `fedsuite deploy status` or Prometheus: {error}", flush=True
                )
            complaints.add(str(error))

    def hear(event: Mapping[str, Any]) -> None:
        if meter.hear(event):
            tell()

    try:
        yield hear
    finally:
        meter.running = 0
        tell()


def _write(meter: Meter, places: Mapping[str, str]) -> None:
    if places[NOW]:
        (folder := Path(places[NOW])).mkdir(exist_ok=True)
        write_json(folder / f"{meter.run}.json", asdict(meter))
    if places[METRICS]:
        file = Path(places[METRICS]) / f"fedsuite-{meter.run}.prom"
        write_atomically(file, meter.text().encode(), durable=False)


def seen_in(folder: Path) -> list[Meter]:
    """What servers of runs have left there; files of others, and of other versions, are passed over."""
    found = []
    for file in sorted(folder.glob("*.json")):
        with suppress(InputError, TypeError):
            meter = Meter(**read_object(file, "how a run stands", "remove it"))
            if all(_is_of(getattr(meter, f.name), f.type) for f in fields(Meter)):
                found.append(meter)
    return found


def _is_of(value: object, kind: object) -> bool:
    """Whether a value read from JSON is of the kind of a field."""
    if isinstance(kind, type):
        return type(value) is kind
    of_each = get_args(kind)[-1]
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_is_of(v, of_each) for v in value)
    return isinstance(value, dict) and all(_is_of(v, of_each) for v in value.values())
