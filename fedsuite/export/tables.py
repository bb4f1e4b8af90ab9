"""Frames as files: about, rounds, clients, closing, closing_clients, evaluations, messages, timing, each with its ending.

A file is replaced as a whole or not at all, so that a followed run's files can be read at any time.
"""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from fedsuite.errors import InputError
from fedsuite.export.formats import Output
from fedsuite.history import Runs
from fedsuite.storage.escaping import csv_text
from fedsuite.storage.files import telling, write_atomically

FRAMES = ("about", "rounds", "clients", "closing", "closing_clients", "evaluations", "messages", "timing")  # fmt: skip
_LEAST = ("run", "round")  # columns of a frame without rows


class FrameFiles:
    """One file per frame. write: puts a frame into an open binary file."""

    def __init__(
        self,
        runs: Runs,
        output: Output,
        ending: str,
        write: Callable[[pd.DataFrame, io.BytesIO], None],
    ) -> None:
        folder = output.needed(ending)
        self.files = {name: folder / f"{name}.{ending}" for name in FRAMES}
        self._write = write
        there = [file for file in self.files.values() if file.exists()]
        if there and not output.overwrite:
            raise InputError(
                f"{there[0]}: is there already; replace it with --overwrite, or name another folder"
            )
        with telling(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def update(self, runs: Runs) -> None:
        for name, file in self.files.items():
            self._put(getattr(runs, name), file)

    def close(self, runs: Runs) -> None:
        """Files are whole after every update."""

    def _put(self, frame: pd.DataFrame, file: Path) -> None:
        buffer = io.BytesIO()
        self._write(frame if len(frame.columns) else pd.DataFrame(columns=list(_LEAST)), buffer)
        write_atomically(file, buffer.getvalue(), durable=False)


def _write_csv(frame: pd.DataFrame, file: io.BytesIO) -> None:
    file.write(csv_text(frame).encode())


def _write_parquet(frame: pd.DataFrame, file: io.BytesIO) -> None:
    frame.to_parquet(file, engine="pyarrow", index=False)


CSV = partial(FrameFiles, ending="csv", write=_write_csv)
PARQUET = partial(FrameFiles, ending="parquet", write=_write_parquet)
