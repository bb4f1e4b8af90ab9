"""The scores of a run as other tools want them: round by round, each once, in order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd

from fedsuite.history import Run, Runs

STEPS = "local-steps"


@dataclass(frozen=True)
class Point:
    """Metrics of a round, or of the end of the run. time_s: since 1970, when the round was over, as far as that is recorded;
    local_steps: of all clients until then, None where they are not counted."""

    round: int
    metrics: Mapping[str, float]
    time_s: float
    local_steps: int | None


def points_of(run: Run) -> list[Point]:
    """All points of a run, as far as it has come."""
    begun = str(run.record.get("started", ""))
    time_s = datetime.fromisoformat(begun).timestamp() if begun else 0.0
    took = {(line["round"], line["closing"]): line for line in _lines(run.timing)}
    found, steps = [], None
    for rows, closing in ((run.rounds, False), (run.closing, True)):
        for line in _lines(rows):
            number = int(line.pop("round"))
            line.pop("run")
            timed = took.get((number, closing), {})
            time_s += timed.get("startup-s", 0.0) + timed.get("total-s", 0.0)
            steps = int(line[STEPS]) if STEPS in line else steps
            metrics = {name: float(value) for name, value in line.items()}
            found.append(Point(number, metrics, time_s, steps))
    return found


def _lines(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as mappings, without what they lack."""
    return [
        {str(key): value for key, value in line.items() if pd.notna(value)}
        for line in frame.to_dict("records")
    ]


class Fed:
    """Remembers which points have been handed on: a resumed run writes some of its rounds again, and they are the same."""

    def __init__(self) -> None:
        self._done: dict[str, int] = {}

    def new(self, runs: Runs) -> Iterator[tuple[Run, Point]]:
        """Points that have not been handed on yet."""
        for run in runs.runs:
            done = self._done.get(run.name, 0)
            for point in points_of(run)[done:]:
                done += 1
                self._done[run.name] = done
                yield run, point
