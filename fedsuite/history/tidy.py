"""Long frames: one line per measured number, or per exchange with a client. Text columns are categories.

evaluations   run, round, client ("" = all together), split ("" where there is only one), metric, unit, value, closing
messages      run, round, client, task, status, bytes-down, bytes-up, messages, closing

closing: after the last round; the round is then the last one. A metric silo.<n>.<metric> is of that silo, whoever holds it.
A client's loss that is 0 throughout is left out: Flower asks for one where nothing measures it.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsuite.history.metrics import metrics_of as table_of
from fedsuite.history.metrics import split_of
from fedsuite.history.reading import Sources
from fedsuite.history.rows import LATE
from fedsuite.roster.members import ROSTER, read_roster

FIELDS = ("run", "round", "partition", "name", "task", "status", "reason", "num-examples", "bytes-down", "bytes-up",
          "messages", "admitted")  # fmt: skip
"""Columns of rounds and clients that are no metrics."""
_MESSAGES = ("run", "round", "client", "task", "status", "bytes-down", "bytes-up", "messages")
_SILO = re.compile(r"silo\.(\d+)\.(.+)")


Frames = tuple[pd.DataFrame, pd.DataFrame]  # of rounds and of clients


def evaluations(sources: Sources, during: Frames, closing: Frames) -> pd.DataFrame:
    """Every number that was measured by evaluating, in the order of the history."""
    found = _Long(sources)
    for (rounds, clients), closes in ((during, False), (closing, True)):
        if len(clients) and "task" in clients:
            own = clients[(clients["task"] == "evaluate") & (clients["status"] == "ok")]
            measured = [m for m in metrics_of(own) if m != "loss" or own[m].any()]
            found.add(own, own["name"], measured, closes)
        found.add(rounds, None, [m for m in metrics_of(rounds) if found.is_evaluation(m)], closes)
    return found.frame()


def messages(clients: pd.DataFrame, closing_clients: pd.DataFrame) -> pd.DataFrame:
    """Every exchange with a client; of many small messages of a round, their sum and their number."""
    parts = []
    for rows, closing in ((clients, False), (closing_clients, True)):
        if len(rows):
            own = rows.rename(columns={"name": "client"}).reindex(columns=list(_MESSAGES))
            parts.append(own.assign(closing=closing))
    if not parts:
        return pd.DataFrame(columns=[*_MESSAGES, "closing"])
    frame = pd.concat(parts, ignore_index=True)
    frame["messages"] = frame["messages"].fillna(1).astype(np.int64)
    return frame.astype(dict.fromkeys(("run", "client", "task", "status"), "category"))


def metrics_of(frame: pd.DataFrame) -> list[str]:
    """Columns that are metrics."""
    return [str(name) for name in frame.columns if name not in FIELDS]


class _Long:
    """Collects numbers with codes for run, client and column, which become categories."""

    def __init__(self, sources: Sources) -> None:
        self.runs = {name: number for number, (name, _) in enumerate(sources)}
        self.folders = [folder for _, folder in sources]
        self.tables = [table_of(folder) for folder in self.folders]
        self.clients: dict[str, int] = {"": 0}
        self.metrics: dict[str, int] = {}
        self.parts: list[dict[str, Any]] = []
        self._silos: dict[int, dict[int, str]] = {}

    def is_evaluation(self, metric: str) -> bool:
        """In any of the runs."""
        return any(table.is_evaluation(metric) for table in self.tables)

    def add(
        self, rows: pd.DataFrame, clients: pd.Series | None, metrics: Sequence[str], closing: bool
    ) -> None:
        """The metrics of rows; clients: who measured them, None for all together."""
        if not (len(rows) and metrics):
            return
        row, column = np.nonzero((values := rows[list(metrics)].to_numpy(np.float64)) == values)
        run = rows["run"].map(self.runs).to_numpy(np.int32)
        client = np.zeros(len(rows), np.int32)
        if clients is not None:
            codes, names = pd.factorize(clients)
            client = np.array([self._client(str(n)) for n in names], np.int32)[codes]
        part = {"run": run[row], "round": rows["round"].to_numpy()[row], "client": client[row]}
        plain = [_SILO.fullmatch(m) for m in metrics]
        for number, silo in enumerate(plain):
            its = column == number
            for owner in np.unique(part["run"][its]) if silo else ():
                name = self._silo(int(owner), int(silo[1]))  # type: ignore[index]
                part["client"][its & (part["run"] == owner)] = self._client(name)
        short = [silo[2] if silo else m for silo, m in zip(plain, metrics, strict=True)]
        codes = np.array([self.metrics.setdefault(m, len(self.metrics)) for m in short], np.int32)
        part |= {"metric": codes[column], "value": values[row, column]}
        self.parts.append(part | {"closing": np.full(len(row), closing)})

    def frame(self) -> pd.DataFrame:
        keys: dict[str, np.ndarray] = {}
        for key in ("run", "round", "client", "metric", "value", "closing"):
            keys[key] = np.concatenate([part.pop(key) for part in self.parts] or [np.empty(0)])
        order = np.lexsort((keys["closing"], keys["run"]))
        if (np.diff(order) < 0).any():
            keys = {key: values[order] for key, values in keys.items()}
        split, metric = zip(*map(split_of, self.metrics), strict=True) if self.metrics else ((), ())
        code = keys["run"].astype(np.int64) * max(len(metric), 1) + keys["metric"].astype(np.int64)
        pairs, of = np.unique(code, return_inverse=True)  # runs may have other units for a name
        units = [self.tables[p // len(metric)].row(metric[p % len(metric)]).unit for p in pairs]
        frame = pd.DataFrame({
            "run": _categories(keys["run"], list(self.runs)), "round": keys["round"].astype(np.int64),
            "client": _categories(keys["client"], list(self.clients)),
            "split": _categories(keys["metric"], split), "metric": _categories(keys["metric"], metric),
            "unit": _categories(of, units),
            "value": keys["value"].astype(np.float64), "closing": keys["closing"].astype(bool),
        })  # fmt: skip
        for name in ("client", "split", "metric", "unit"):
            frame[name] = frame[name].cat.remove_unused_categories()
        return frame

    def _client(self, name: str) -> int:
        return self.clients.setdefault(name, len(self.clients))

    def _silo(self, run: int, number: int) -> str:
        """The name of a silo, as the run's roster has it."""
        if run not in self._silos:
            file = self.folders[run] / ROSTER
            members = read_roster(file).members if file.is_file() else ()
            self._silos[run] = {
                silo: str(name)
                for m in members
                for silo, name in zip(
                    m.details.get("silos", ()), m.details.get("names", ()), strict=False
                )
            }
        return self._silos[run].get(number, f"silo.{number}")


def _categories(codes: np.ndarray, names: Sequence[str]) -> "pd.Categorical[str]":
    """names: by code; some may be the same."""
    distinct = list(dict.fromkeys(names))
    place = np.array([distinct.index(name) for name in names] or [0], np.int32)
    return pd.Categorical.from_codes(place[codes.astype(np.int32)], pd.Index(distinct))


def failed(clients: pd.DataFrame) -> "pd.Series[bool]":
    """Of lines of clients: whether the reply could not be used. A late one, which no step waited for, did not fail."""
    return ~clients["status"].isin(["ok", LATE])


def last_values(*frames: pd.DataFrame) -> dict[str, float]:
    """The last value of every metric that one run recorded, metrics of the last evaluation first."""
    rows = pd.concat(frames).drop(columns=["run", "round"], errors="ignore")
    known = rows.notna().to_numpy()
    there = {name: np.flatnonzero(known[:, i]) for i, name in enumerate(rows.columns)}
    last = {str(name): int(at[-1]) for name, at in there.items() if len(at)}
    return {
        name: float(rows[name].iloc[last[name]]) for name in sorted(last, key=lambda n: -last[n])
    }
