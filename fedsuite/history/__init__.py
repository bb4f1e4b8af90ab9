"""What happened in a run: its writing, and its reading into pandas frames.

Nothing here imports pandas or Arrow before a frame is asked for.
"""

from fedsuite.history.events import Kind, OnEvent, event, kind_of, line_about
from fedsuite.history.experiments import run_folders
from fedsuite.history.frames import RunFrames
from fedsuite.history.rows import (
    HISTORY,
    LATE,
    TIMINGS,
    HistoryWriter,
    Row,
    finite_metrics,
    read_rows,
)
from fedsuite.history.runs import Run, Runs, load_run, load_runs

__all__ = [
    "HISTORY",
    "LATE",
    "TIMINGS",
    "HistoryWriter",
    "Kind",
    "OnEvent",
    "Row",
    "Run",
    "RunFrames",
    "Runs",
    "event",
    "finite_metrics",
    "kind_of",
    "line_about",
    "load_run",
    "load_runs",
    "read_rows",
    "run_folders",
]
