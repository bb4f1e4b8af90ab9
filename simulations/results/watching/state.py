"""How a run stands, read from its folder: a copy, or a folder of another machine, will do."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedsuite.errors import InputError, RunFailed, one_line
from fedsuite.history import TIMINGS, Kind, Run, kind_of, line_about, load_run
from fedsuite.history.tidy import failed
from fedsuite.runs.folder import RunFolder

MOST_CURVES = 5
_RECENT = 10  # rounds whose mean time tells how long the others will take
_OVER = tuple(f'"kind": "{kind}"'.encode() for kind in (Kind.ROUND, Kind.CLOSING))


@dataclass(frozen=True)
class Client:
    """A client of the present exchange. status: working, ok, error or lost."""

    name: str
    status: str


@dataclass(frozen=True)
class Round:
    """A round that is over. seconds: None where that is not recorded."""

    number: int
    metrics: Mapping[str, float]
    seconds: float | None


@dataclass(frozen=True)
class Failure:
    """A reply that could not be used."""

    round: int
    client: str
    reason: str


@dataclass(frozen=True)
class Standing:
    """status: as recorded; held: whether a process of this machine writes to the run; planned: rounds of the whole run;
    rounds: those that are over. left_s: seconds of those to come, None where unknown.

    metrics: the last value of each; curves: of the main ones, by round. doing: the present exchange, "" between exchanges;
    clients: who takes part in it, as far as it is recorded, and asked: how many. told: sentences on what has happened since
    the last round that is over, such as who was lost.
    """

    name: str
    system: str
    status: str
    held: bool
    error: str
    planned: int
    rounds: Sequence[Round]
    left_s: float | None
    metrics: Mapping[str, float]
    curves: Mapping[str, Sequence[float]]
    doing: str
    asked: int
    clients: Sequence[Client]
    failures: Sequence[Failure]
    told: Sequence[str] = ()

    @property
    def done(self) -> int:
        """The last round that is over; 0 before the first."""
        return self.rounds[-1].number if self.rounds else 0

    @property
    def took_s(self) -> float | None:
        """Seconds of the last round."""
        return self.rounds[-1].seconds if self.rounds else None

    @property
    def has_ended(self) -> bool:
        return self.status not in ("running", "unknown")


def standing(folder: Path) -> Standing:
    """Read it; InputError for a folder that is no run, or a damaged file."""
    run = load_run(folder)
    status, rounds = run.status, run.rounds  # in this order: an ended run lacks no round
    timing = run.timing[~run.timing["closing"].astype(bool)]
    times = dict(zip(timing["round"], timing["total-s"], strict=True))
    told = [
        Round(int(row["round"]), _there(row), times.get(row["round"]))
        for row in rounds.to_dict("records")
    ]
    planned = int(run.config.get("num-rounds", 0))
    recent = [seconds for number, seconds in times.items() if number][-_RECENT:]
    to_come = planned - (told[-1].number if told else 0)
    left_s = sum(recent) / len(recent) * to_come if recent else None
    events = [] if run.has_ended else _since_last_round(folder / TIMINGS)
    try:
        (doing, asked, clients), failures = _present(events, run), _failures(run, events)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{folder / TIMINGS}: an event of the round under way is damaged ({error!r}); put the file back from a copy, or "
            "move it away: times alone are lost"
        ) from error
    return Standing(
        one_line(run.name), one_line(run.system), status, status == "running" and _is_held(folder),
        one_line(str(run.record.get("error", ""))), planned, told, left_s,
        _last(rounds) | _last(run.closing), _curves(run), doing, asked, clients, failures,
        list(filter(None, map(line_about, events))),
    )  # fmt: skip


def _is_held(folder: Path) -> bool:
    """Whether a process here holds the lock; a folder that cannot be written to has none that we could see."""
    with suppress(InputError, RunFailed):
        return RunFolder(folder).is_being_written()
    return False


def _last(frame: pd.DataFrame) -> dict[str, float]:
    """The last value of every metric."""
    rows = frame.ffill().tail(1).to_dict("records")
    return _there(rows[0]) if rows else {}


def _there(row: Mapping[Any, Any]) -> dict[str, float]:
    """The metrics that a row has."""
    told = {one_line(str(k)): v for k, v in row.items() if k not in ("run", "round")}
    return {k: float(v) for k, v in told.items() if pd.notna(v)}


def _curves(run: Run) -> dict[str, list[float]]:
    """Values of the first evaluations and of the first loss, where there are two at least."""
    rounds = run.rounds
    names = [n for n in rounds.columns if n not in ("run", "round") and rounds[n].count() > 1]
    scores = [n for n in names if run.metrics.is_evaluation(n)]
    losses = [n for n in names if n.startswith("train.") and n.endswith("loss")]
    wanted = scores[: MOST_CURVES - len(losses[:1])] + losses[:1]
    return {one_line(str(name)): rounds[name].dropna().tolist() for name in wanted}


def _since_last_round(file: Path) -> list[dict[str, Any]]:
    """Events after the last round that is over; lines that are not whole are left for later."""
    if not file.is_file():
        return []
    data = file.read_bytes()
    begin = (
        data.find(b"\n", max(map(data.rfind, _OVER))) + 1 if any(k in data for k in _OVER) else 0
    )
    found = []
    for line in data[begin : data.rfind(b"\n") + 1].splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def _present(events: Sequence[Mapping[str, Any]], run: Run) -> tuple[str, int, list[Client]]:
    """What is being done, how many were asked, and who of them has answered."""
    names = run.roster.names if run.roster else []
    doing, asked, clients = "", 0, dict[str, str]()
    for event in events:
        match kind_of(event):
            case Kind.EXCHANGE:
                doing, asked = str(event["task"]), int(event["clients"])
                told = [names[p] for p in event.get("partitions", ()) if p < len(names)]
                clients = dict.fromkeys(told, "working")
            case Kind.CLIENT:
                clients[str(event["name"])] = str(event["status"])
            case Kind.MESSAGES:
                doing, asked = f"{event['done']} messages", 0
            case Kind.LOST | Kind.SENT_AGAIN as kind:
                clients[str(event["client"])] = "lost" if kind is Kind.LOST else "working"
    return doing, asked, [Client(one_line(n, 40), status) for n, status in clients.items()]


def _failures(run: Run, events: Sequence[Mapping[str, Any]]) -> list[Failure]:
    """All replies that could not be used, the present round's at the end; those that no step waited for are none."""
    found = []
    for frame in (run.clients, run.closing_clients):
        if len(frame) and "status" in frame:
            for row in frame[failed(frame)].to_dict("records"):
                found.append((int(row["round"]), str(row["name"]), str(row["reason"])))
    for event in events:
        if event.get("status") == "error":
            found.append((int(event["round"]), str(event["name"]), "error; see errors.log"))
    return [Failure(r, one_line(name, 40), one_line(reason, 200)) for r, name, reason in found]
