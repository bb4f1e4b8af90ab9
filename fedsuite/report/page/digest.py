"""A run, reduced to what a report shows of it: a run of 365 rounds and 61 clients has 40,000 lines, its digest a few hundred.

Runs are read one after the other, and of each only this stays.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedsuite.config import Value
from fedsuite.history import TIMINGS, RunFrames, load_runs, read_rows
from fedsuite.report.admitted import admitted_rows
from fedsuite.report.outcomes import last_values
from fedsuite.report.page.answers import Answers, RunRead
from fedsuite.roster import ROSTER, Roster, read_roster
from fedsuite.run_folder import RunFolder, read_stored_config

MOST_FAILURES = 20  # of a run, that are listed one by one
BYTES, SECONDS = "bytes", "seconds"
AXES = {
    "round": "rounds",
    "local-steps": "local steps",
    "serial-depth": "serial depth (steps)",
    BYTES: "MB sent and received by clients",
    SECONDS: "time in rounds (s)",
}
NO_FRAMES = RunFrames(*(pd.DataFrame() for _ in range(4)))
_SENT = ("round", "name", "task", "status", "reason", "bytes-up", "bytes-down", "messages")


@dataclass(frozen=True)
class Place:
    """Where a run is and what it is called: label in the report, line of tables, experiment and its folder.

    status: completed, running, interrupted, failed, stopped, unfinished.
    """

    folder: Path
    label: str
    line: str
    experiment: Path
    status: str


@dataclass(frozen=True)
class Digest:
    """course: evaluated rounds with the axes that were recorded and the metrics of the curves. latest: last value of each metric.

    members: a line per client with name, role, examples, trained and evaluated (rounds), failed (exchanges), up and down
    (bytes). moved: a line per task with up, down, messages. failures: the first ones, num_failures: all of them.
    """

    place: Place
    settings: Mapping[str, Value]
    standing: Mapping[str, Any]
    answers: Answers
    course: pd.DataFrame
    latest: Mapping[str, float]
    rounds: int
    members: pd.DataFrame
    moved: pd.DataFrame
    failures: pd.DataFrame
    num_failures: int
    admitted: list[dict[str, str]]

    @property
    def line(self) -> str:
        return self.answers.line or self.place.line

    @property
    def completed(self) -> bool:
        return self.place.status == "completed"


def digest_of(place: Place, config: Any, answer: Callable[[Any, RunRead], Answers]) -> Digest:
    """Read a run, ask its system, and keep what is shown; config: its settings, as `answer` wants them."""
    folder = RunFolder(place.folder)
    frames = load_runs(place.folder)
    read = RunRead(place.folder, place.label, place.line, place.status == "completed", frames)
    answers = answer(config, read)
    clients = _replies(frames.clients)
    roster = _roster(place.folder)
    failed = clients[clients["status"] != "ok"]
    return Digest(
        place=place,
        settings=dict(read_stored_config(folder)),
        standing=folder.status(),
        answers=_without_frames(answers),
        course=_course(frames.rounds, clients, answers, place.folder),
        latest=last_values(frames.rounds, frames.closing),
        rounds=int(frames.rounds["round"].max()) if len(frames.rounds) else 0,
        members=_members(clients, roster),
        moved=_moved(clients, _replies(frames.closing_clients)),
        failures=failed.head(MOST_FAILURES)[["round", "name", "task", "status", "reason"]].copy(),
        num_failures=len(failed),
        admitted=admitted_rows(frames.clients),
    )


def _replies(clients: pd.DataFrame) -> pd.DataFrame:
    """What a report needs of the clients' lines; all columns, also where there are no lines."""
    found = clients.reindex(columns=list(_SENT))
    for name in ("bytes-up", "bytes-down"):
        found[name] = pd.to_numeric(found[name]).fillna(0.0)
    return found


def _roster(folder: Path) -> Roster | None:
    file = folder / ROSTER
    return read_roster(file) if file.is_file() else None


def _without_frames(answers: Answers) -> Answers:
    """Outcomes without the frames that they were made of, which take the room."""
    kept = [replace(o, frames=NO_FRAMES) for o in answers.outcomes]
    return replace(answers, outcomes=kept)


def _course(
    rounds: pd.DataFrame, clients: pd.DataFrame, answers: Answers, folder: Path
) -> pd.DataFrame:
    metrics = [c.metric for c in answers.curves if c.metric in rounds]
    if rounds.empty or not metrics:
        return pd.DataFrame()
    sums = clients.groupby("round")[["bytes-up", "bytes-down"]].sum().sum(axis=1).cumsum() / 1e6
    sums = sums.reindex(rounds["round"]).ffill()
    seconds = _seconds(folder).cumsum().reindex(rounds["round"])
    beside = {BYTES: sums.to_numpy(), SECONDS: seconds.to_numpy()}
    axes = [name for name in (*AXES, *answers.axes) if name in rounds or name in beside]
    found = rounds.assign(**beside)[[*axes, *metrics]]
    for name in axes:  # counts say nothing before the first round that has them
        found[name] = found[name].ffill().fillna(0.0)
    return found.dropna(subset=metrics, how="all").reset_index(drop=True)


def _seconds(folder: Path) -> "pd.Series[float]":
    """Round -> seconds that it took; empty where the times are lost."""
    file = folder / TIMINGS
    rows = read_rows(file, torn_end=True) if file.is_file() else []
    times = {r["round"]: float(r.get("seconds", 0.0)) for r in rows if r["kind"] == "round"}
    return pd.Series(times, dtype=float)


def _members(clients: pd.DataFrame, roster: Roster | None) -> pd.DataFrame:
    used = clients[clients["status"] == "ok"]
    trained = used[(used["task"] == "train") & (used["round"] > 0)]
    evaluated = used[used["task"] == "evaluate"]
    columns = {
        "trained": trained.groupby("name")["round"].nunique(),
        "evaluated": evaluated.groupby("name")["round"].nunique(),
        "failed": clients[clients["status"] != "ok"].groupby("name").size(),
        "up": clients.groupby("name")["bytes-up"].sum(),
        "down": clients.groupby("name")["bytes-down"].sum(),
    }
    members = roster.members if roster else ()
    names = list(dict.fromkeys([m.name for m in members] + sorted(set(clients["name"].dropna()))))
    found = pd.DataFrame(columns, index=pd.Index(names, name="name")).fillna(0)
    roles = {m.name: (m.role, m.examples) for m in members}
    found.insert(0, "examples", [roles.get(n, ("", 0))[1] for n in names])
    found.insert(0, "role", [roles.get(n, ("", 0))[0] for n in names])
    return found.reset_index()


def _moved(clients: pd.DataFrame, closing: pd.DataFrame) -> pd.DataFrame:
    """Bytes and messages by task; those of the final evaluation by themselves."""
    last = closing.assign(task=closing["task"].astype(str) + ", after the last round")
    both = pd.concat([part for part in (clients, last) if len(part)] or [clients])
    both = both.assign(messages=pd.to_numeric(both["messages"]).fillna(1.0))
    sums = both.groupby("task", sort=False)[["bytes-up", "bytes-down", "messages"]].sum()
    names = {"bytes-up": "up", "bytes-down": "down"}
    return sums.rename(columns=names).reset_index()
