"""A run, reduced to what a report shows of it: of 40,000 lines of a long run a few hundred numbers.

Runs are read one after the other, and of each only this stays.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsuite.history import LATE, Run, RunFrames, load_run
from fedsuite.history.tidy import failed, last_values
from fedsuite.reports.admitted import admitted_rows
from fedsuite.reports.page.questions import Answers, RunRead
from fedsuite.reports.page.taking_part import states_of
from fedsuite.roster.members import Roster
from fedsuite.settings.config import Value

MOST_FAILURES = 20  # of a run, that are listed one by one
BYTES, SECONDS = "bytes", "seconds"
AXES = {
    "round": "rounds",
    "local-steps": "local steps",
    "serial-depth": "serial depth (steps)",
    BYTES: "MB sent and received by clients",
    SECONDS: "time in rounds (s)",
}
OF_TRAINING, MEASURES, MOST_MEASURES = "train.", ("loss", "gradient-norm"), 6
NO_FRAMES = RunFrames(())
_PARTS = ("startup-s", "waiting-s", "merging-s", "evaluation-s", "total-s", "local-work-s")
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
    """course: evaluated rounds with the axes that were recorded and the metrics of the curves; training: all rounds with
    what training was measured by (losses, norms of gradients). latest: last values.

    members: a line per client with name, role, examples, trained and evaluated (rounds), failed and late (exchanges), up and
    down (bytes). taking_part [clients, rounds]: what became of their training. moved: a line per task with up, down,
    messages. times: seconds of all rounds, by what they went to, as `fedsuite.history.timing` names it. failures: the first
    ones, num_failures: all of them.
    audit: findings of fedsuite audit.
    """

    place: Place
    settings: Mapping[str, Value]
    standing: Mapping[str, Any]
    answers: Answers
    course: pd.DataFrame
    training: pd.DataFrame
    latest: Mapping[str, float]
    rounds: int
    members: pd.DataFrame
    taking_part: np.ndarray
    moved: pd.DataFrame
    times: Mapping[str, float]
    failures: pd.DataFrame
    num_failures: int
    admitted: list[dict[str, str]]
    audit: pd.DataFrame

    @property
    def line(self) -> str:
        return self.answers.line or self.place.line

    @property
    def completed(self) -> bool:
        return self.place.status == "completed"


def read_ahead(places: Sequence[Place]) -> Iterator[tuple[Place, Run]]:
    """Runs in order, each with its frames of clients and times read while the one before it is at work."""

    def read(place: Place) -> Run:
        run = load_run(place.folder)
        for frame in (run.clients, run.timing):
            del frame  # it stays with the run
        return run

    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(read, places[0])
        for number, place in enumerate(places, 1):
            run = ahead.result()
            if number < len(places):
                ahead = reader.submit(read, places[number])
            yield place, run
            del run  # before the next one is waited for


def digest_of(
    place: Place, run: Run, config: Any, answer: Callable[[Any, RunRead], Answers]
) -> Digest:
    """Ask the run's system, and keep what is shown; config: its settings, as `answer` wants them."""
    completed = place.status == "completed"
    answers = answer(config, RunRead(place.folder, place.label, place.line, completed, run))
    clients, rounds = _replies(run.clients), run.rounds
    timing = run.timing
    bad = clients[failed(clients)]
    members = _members(clients, run.roster)
    return Digest(
        place=place,
        settings=run.config,
        standing=run.record,
        answers=_without_frames(answers),
        course=_course(rounds, clients, answers, timing),
        training=_training(rounds),
        latest=last_values(rounds, run.closing),
        rounds=int(rounds["round"].max()) if len(rounds) else 0,
        members=members,
        taking_part=states_of(clients, members["name"].tolist()),
        moved=_moved(clients, _replies(run.closing_clients)),
        times={name: float(timing[name].sum(min_count=1)) for name in _PARTS},
        failures=bad.head(MOST_FAILURES)[["round", "name", "task", "status", "reason"]].copy(),
        num_failures=len(bad),
        admitted=admitted_rows(run.clients),
        audit=run.audit,
    )


def _replies(clients: pd.DataFrame) -> pd.DataFrame:
    """What a report needs of the clients' lines; all columns, also where there are no lines."""
    found = clients.reindex(columns=list(_SENT))
    for name in ("bytes-up", "bytes-down"):
        found[name] = pd.to_numeric(found[name]).fillna(0.0)
    found["messages"] = pd.to_numeric(found["messages"]).fillna(1.0)
    return found.astype(dict.fromkeys(("name", "task", "status"), "category"))


def _without_frames(answers: Answers) -> Answers:
    """Outcomes without the frames that they were made of, which take the room."""
    kept = [replace(o, frames=NO_FRAMES) for o in answers.outcomes]
    return replace(answers, outcomes=kept)


def _course(
    rounds: pd.DataFrame, clients: pd.DataFrame, answers: Answers, timing: pd.DataFrame
) -> pd.DataFrame:
    metrics = [c.metric for c in answers.curves if c.metric in rounds]
    if rounds.empty or not metrics:
        return pd.DataFrame()
    sums = clients.groupby("round")[["bytes-up", "bytes-down"]].sum().sum(axis=1).cumsum() / 1e6
    sums = sums.reindex(rounds["round"]).ffill()
    during = timing[~timing["closing"].astype(bool)].drop_duplicates("round", keep="last")
    seconds = during.set_index("round")["total-s"].astype(float).cumsum().reindex(rounds["round"])
    beside = {BYTES: sums.to_numpy(), SECONDS: seconds.to_numpy()}
    axes = [name for name in (*AXES, *answers.axes) if name in rounds or name in beside]
    found = rounds.assign(**beside)[[*axes, *metrics]]
    for name in axes:  # counts say nothing before the first round that has them
        found[name] = found[name].ffill().fillna(0.0)
    return found.dropna(subset=metrics, how="all").reset_index(drop=True)


def _training(rounds: pd.DataFrame) -> pd.DataFrame:
    """round, and a column for each loss and norm of gradients; without a column where there are none."""
    known = [str(name) for name in rounds if str(name).startswith(OF_TRAINING)]
    kept = [name for name in known if name.endswith(MEASURES)][:MOST_MEASURES]
    found = rounds[["round", *kept]] if kept else pd.DataFrame()
    return found.dropna(how="all", subset=kept).reset_index(drop=True) if kept else found


def _members(clients: pd.DataFrame, roster: Roster | None) -> pd.DataFrame:
    members = {m.name: m for m in roster.members} if roster else {}
    seen = [str(name) for name in clients["name"].cat.categories]
    names = pd.Index([*members, *sorted(set(seen) - members.keys())], dtype=str)
    places = names.get_indexer(pd.Index(seen, dtype=str))[clients["name"].cat.codes]
    number = clients["round"].to_numpy(np.int64, na_value=0)
    used, task = (clients["status"] == "ok").to_numpy(), clients["task"]
    span = int(number.max(initial=0)) + 1

    def rounds(mask: np.ndarray) -> np.ndarray:
        """Distinct rounds of every client."""
        pairs = np.unique(places[mask] * span + number[mask])
        return np.bincount(pairs // span, minlength=len(names))

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(places, values, minlength=len(names))

    columns = {
        "name": names,
        "role": [members[n].role if n in members else "" for n in names],
        "examples": [members[n].examples if n in members else 0 for n in names],
        "trained": rounds(used & (task == "train").to_numpy() & (number > 0)),
        "evaluated": rounds(used & (task == "evaluate").to_numpy()),
        "failed": total(failed(clients).to_numpy()),
        "late": total((clients["status"] == LATE).to_numpy()),
        "up": total(clients["bytes-up"].to_numpy()),
        "down": total(clients["bytes-down"].to_numpy()),
    }
    return pd.DataFrame(columns)


def _moved(clients: pd.DataFrame, closing: pd.DataFrame) -> pd.DataFrame:
    """Bytes and messages by task; those of the final evaluation by themselves."""
    after = _sums(closing)
    after["task"] += ", after the last round"
    return pd.concat([_sums(clients), after], ignore_index=True)


def _sums(clients: pd.DataFrame) -> pd.DataFrame:
    by_task = clients.groupby("task", observed=True)[["bytes-up", "bytes-down", "messages"]].sum()
    found = by_task.rename(columns={"bytes-up": "up", "bytes-down": "down"}).reset_index()
    return found.astype({"task": str})
