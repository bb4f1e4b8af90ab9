"""How long a run's rounds took, from timings.jsonl.

One line per round: run, round, closing (after the last round), in seconds of the server's clock
  startup-s      until all clients had answered who they are, before the first round and after a restart
  waiting-s      from sending tasks of training until their replies were there
  merging-s      the server's own work in training
  evaluation-s   evaluating: waiting for clients and scoring
  total-s        the whole round
in seconds of the clients' clocks
  local-work-s   training, all clients of the round together; more than waiting-s where they work side by side
and local-steps of all clients together and serial-depth of the round, where these are counted. NaN: not recorded.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsuite.history.reading import Sources, read_timings
from fedsuite.history.rows import TIMINGS

PARTS = ("waiting", "merging", "evaluation")
COUNTS = ("local-steps", "serial-depth")
COLUMNS = ("run", "round", "closing", "startup-s", "waiting-s", "local-work-s", "merging-s", "evaluation-s", "total-s",
           *COUNTS)  # fmt: skip


def timing(sources: Sources, rounds: pd.DataFrame) -> pd.DataFrame:
    """One line per round of every run that has a timings file."""
    parts = [_of_run(name, folder) for name, folder in sources]
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame(columns=list(COLUMNS))
    frame = pd.concat(parts, ignore_index=True)
    if not len(rounds):
        return frame.reindex(columns=list(COLUMNS))
    counted = rounds.reindex(columns=["run", "round", *COUNTS])
    for name in COUNTS:
        so_far = counted.groupby("run")[name].ffill().fillna(0.0)
        before = so_far.groupby(counted["run"]).shift(fill_value=0.0)
        counted[name] = (so_far - before).where(counted[name].notna())
    counted["closing"] = False
    return frame.merge(counted, on=["run", "round", "closing"], how="left")[list(COLUMNS)]


def _of_run(name: str, folder: Path) -> pd.DataFrame:
    rows = read_timings(folder / TIMINGS)
    if not len(rows):
        return rows
    over = rows[rows["kind"].isin(("round", "closing"))]
    found: dict[str, Any] = {
        "run": name,
        "round": over["round"],
        "closing": over["kind"] == "closing",
    }
    found |= {f"{part}-s": over[f"{part}-seconds"].astype(np.float64) for part in PARTS}
    found["total-s"] = over["seconds"]
    frame = pd.DataFrame(found)
    ready = rows[rows["kind"] == "ready"].groupby("round")["seconds"].sum()
    trained = rows[(rows["kind"] == "client") & (rows["task"] == "train")]
    work = trained.groupby("round")["compute-seconds"].sum()
    in_rounds = ~frame["closing"]
    for column, sums in (("startup-s", ready), ("local-work-s", work)):
        frame[column] = frame["round"].map(sums).fillna(0.0).where(in_rounds, 0.0)
    return frame
