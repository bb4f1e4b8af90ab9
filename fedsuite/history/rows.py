"""What happened in a run, one JSON object a line: the writer, and a plain reader that checks every row.

`history.jsonl` is deterministic: equal runs write equal bytes, so it holds no times, node ids or paths; wall-clock goes to
`timings.jsonl`. Lines of a round are written together when the round is over. Kinds of history lines:
  round, client                     a round's metrics; one client's part in one exchange of it
  closing, closing-client           the same for the evaluations after the last round
A resumed run is cut back to its checkpoint first, so that its file ends up equal to an uninterrupted one's.
"""

import hashlib
import json
import math
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.settings.metrics import COLUMNS
from fedsuite.storage.files import sha256_of, telling, write_atomically

HISTORY, TIMINGS = "history.jsonl", "timings.jsonl"
LATE = "late"
"""Status of a client whose reply a step did not wait for, as its settings say: no failure."""
Row = Mapping[str, Any]
FIELDS: Mapping[str, type] = {"round": int, "kind": str, "partition": int, "name": str, "task": str, "status": str,
                              "reason": str, "num-examples": int, "bytes-down": int, "bytes-up": int, "messages": int,
                              "admitted": float}  # fmt: skip
"""What a row may have beside its metrics, and of which type."""
OF_CLIENTS = ("partition", "name", "task", "status")
"""What every row of a client has: one whose kind ends in `client`."""
_CALLED = {int: "a whole number", float: "a number", str: "a text"}
_LARGEST = 2**63


class HistoryWriter:
    """Appends rows to a JSONL file; what has been appended survives the death of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = hashlib.sha256(data := self._read())
        self._length = len(data)
        self._open: int | None = None  # the file, once something has been appended
        self._close: Callable[[], Any] = lambda: None

    def append(self, rows: Iterable[Row]) -> None:
        """Write rows in one go."""
        if data := _as_text(rows).encode():
            with telling(self.path):
                file, left = self._file(), memoryview(data)
                while left:
                    left = left[os.write(file, left) :]
            self._seen.update(data)
            self._length += len(data)

    def _file(self) -> int:
        """Descriptor of the file at our path, kept open as long as this object is there."""
        if self._open is None or not os.fstat(self._open).st_nlink:  # another one took its place
            self._close()
            self._open = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            self._close = weakref.finalize(self, os.close, self._open)
        return self._open

    def durable(self) -> dict[str, Any]:
        """Bytes and SHA-256 of all that has been appended, which is safe from a loss of power from then on."""
        with telling(self.path):
            os.fsync(self._file())
        return {"bytes": self._length, "sha256": self._seen.hexdigest()}

    def holds(self, kept: Mapping[str, Any]) -> bool:
        """Whether all that was there when `durable` gave `kept` is there as it was."""
        return sha256_of(self._read()[: kept["bytes"]]) == kept["sha256"]

    def cut(self, kept: Mapping[str, Any], cure: str = "put the file back from a copy") -> None:
        """Drop what came after `durable` gave `kept`; InputError, which ends in `cure`, if what came before is not there."""
        if not self.holds(kept):
            raise InputError(
                f"{self.path}: rows from before the checkpoint are missing or changed (its first {kept['bytes']} bytes "
                f"are not those that the checkpoint knows); {cure}"
            )
        write_atomically(self.path, self._read()[: kept["bytes"]])

    def _read(self) -> bytes:
        with telling(self.path):
            return self.path.read_bytes() if self.path.exists() else b""

    def truncate(self, round: int) -> None:
        """Keep what belongs to rounds up to and including `round`; closing rows go, they are written anew."""
        if not self.path.exists():
            return
        kept = [
            row
            for row in read_rows(self.path, torn_end=True)
            if row["round"] <= round and not str(row["kind"]).startswith("closing")
        ]
        write_atomically(self.path, _as_text(kept).encode(), durable=False)


def _as_text(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def read_rows(path: Path, torn_end: bool = False) -> list[dict[str, Any]]:
    """All rows of a JSONL file; with torn_end a last line without its end is left out (a process died writing it)."""
    with telling(path):
        lines = path.read_bytes().split(b"\n")
    if lines and (torn_end or lines[-1] == b""):
        lines.pop()
    cure = "put the file back from a copy"
    cure += ", or move it away: times alone are lost" if path.name == TIMINGS else ""
    return [_row(line, f"{path}: line {number}", cure) for number, line in enumerate(lines, 1)]


def _row(line: bytes, where: str, cure: str) -> dict[str, Any]:
    """A line's row; InputError, opened by `where`, if it is none."""
    try:
        row = json.loads(line)
        why = _complaint(row)
        if not why and b"\\ud" in line.lower():  # half a character
            json.dumps(row, ensure_ascii=False).encode()
    except (ValueError, RecursionError, TypeError, AttributeError, OverflowError):
        why = "no JSON object with round, kind and numbers as metrics"
    if why:
        raise InputError(f"{where} is damaged ({why}); {cure}")
    return dict(row)


def _complaint(row: dict[str, Any]) -> str:
    """What is wrong with a row; "" if nothing is."""
    needed = ("round", "kind", *(OF_CLIENTS if str(row.get("kind")).endswith("client") else ()))
    if missing := [key for key in needed if key not in row]:
        return f"no {missing[0]}"
    if not all(map(math.isfinite, row.get("metrics", {}).values())):
        return "a metric that is no finite number"
    for key in FIELDS.keys() & row.keys():
        kind, value = FIELDS[key], row[key]
        if type(value) is int and not -_LARGEST < value < _LARGEST:
            return f"{key}: too large"
        if type(value) is not kind and not (kind is float and type(value) is int):
            return f"{key}: expected {_CALLED[kind]}"
    return ""


def finite_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics as plain floats; ValueError names the first that is no finite number, or is called as a column of frames."""
    plain = {}
    for key, value in metrics.items():
        if key in COLUMNS:
            raise ValueError(f"metric {key} is called as a column of the history; rename it")
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"metric {key} is {number}, expected a finite number")
        plain[key] = number
    return plain
