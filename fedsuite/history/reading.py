"""A run's history as Arrow tables, one per kind of row: the same rows as `read_rows` gives, ten times as fast.

Arrow reads well-formed rows only. What it cannot read, or what could mean something else, is read again by `read_rows`,
which names a damaged line.
"""

import io
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsuite.errors import InputError, one_line
from fedsuite.history.rows import FIELDS, HISTORY, OF_CLIENTS, read_rows
from fedsuite.settings.metrics import COLUMNS
from fedsuite.storage.files import telling

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Sources = Sequence[tuple[str, Path]]  # what runs are called, and their folders
KINDS = ("round", "client", "closing", "closing-client")
_ARROW = {int: "int64", str: "string", float: "float64"}
_HEADS = {name: _ARROW[kind] for name, kind in FIELDS.items()}
TIMED = {"round": "int64", "kind": "string", "task": "string", "seconds": "float64", "compute-seconds": "float64",
         "waiting-seconds": "float64", "merging-seconds": "float64", "evaluation-seconds": "float64"}  # fmt: skip
_METRICS = "metrics"
_BLOCK_BYTES = 1 << 22


class Unreadable(ValueError):
    """Rows that are for `read_rows`."""


def read_tables(folder: Path) -> "Mapping[str, pa.Table | pd.DataFrame]":
    """The history of a run by kind of row: a column per field and metric, in the order in which they first appear.

    A last line without its end is left out; a history that is not there yet has no rows.
    """
    import pyarrow as pa

    path = folder / HISTORY
    if not path.is_file():
        return {}
    with telling(path):
        data = path.read_bytes()
    data = data[: data.rfind(b"\n") + 1]
    if not data:
        return {}
    try:
        table = _parsed(data)
        kinds = table.column("kind").unique().to_pylist()
        for kind in kinds:
            _check_kind(kind, path)
        return {kind: _of_kind(table, kind, data) for kind in kinds}
    except (Unreadable, pa.ArrowException):
        return _plainly_read(path)


def read_timings(path: Path) -> "pd.DataFrame":
    """Rows of timings.jsonl without their metrics, a column per field of `TIMED`; no rows where there is no file."""
    import pandas as pd
    import pyarrow as pa

    if not path.is_file():
        return pd.DataFrame(columns=list(TIMED))
    with telling(path):
        data = path.read_bytes()
    data = data[: data.rfind(b"\n") + 1]
    if not data:
        return pd.DataFrame(columns=list(TIMED))
    try:
        return _arrow(data, TIMED, "ignore").to_pandas()
    except (Unreadable, pa.ArrowException):
        return pd.DataFrame(read_rows(path, torn_end=True)).reindex(columns=list(TIMED))


def _parsed(data: bytes) -> "pa.Table":
    if b"null" in data or not data.isascii():  # Arrow reads null as no value, and any bytes as text
        raise Unreadable
    table = _arrow(data, _HEADS, "infer")
    if {*table.column_names} - {*_HEADS, _METRICS}:
        raise Unreadable
    return _flat(table)


def _arrow(data: bytes, fields: Mapping[str, str], others: str) -> "pa.Table":
    """Rows by Arrow; others: what becomes of fields without a type, "infer" or "ignore"."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    if data.startswith(b"{") + data.count(b"\n{") < data.count(b"\n"):
        raise Unreadable  # a line that is `null` alone would end the process
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in fields.items()])
    options = arrow_json.ReadOptions(block_size=_BLOCK_BYTES)
    parsing = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
    table = arrow_json.read_json(pa.BufferReader(data), options, parsing)
    complete = table.num_rows == data.count(b"\n")
    if not complete or any(table.column(name).null_count for name in ("round", "kind")):
        raise Unreadable
    return table


def _flat(table: "pa.Table") -> "pa.Table":
    """The table with a column per metric in place of the one column of all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if _METRICS not in table.column_names:
        return table
    metrics = table.column(_METRICS)
    if not pa.types.is_struct(metrics.type):
        raise Unreadable
    rest = table.drop_columns([_METRICS])
    for field, column in zip(metrics.type, metrics.flatten(), strict=True):
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        if not numeric or field.name in (*table.column_names, "run"):
            raise Unreadable
        if pa.types.is_floating(field.type) and not pc.all(pc.is_finite(column)).as_py():
            raise Unreadable
        rest = rest.append_column(field.name, column)
    return rest


def _of_kind(table: "pa.Table", kind: str, data: bytes) -> "pa.Table":
    """The rows of one kind, without the columns that none of them has."""
    import pyarrow.compute as pc

    mask = pc.equal(table.column("kind"), kind)
    lines = pc.indices_nonzero(mask)
    own = table.filter(mask)
    if kind.endswith("client") and any(own.column(name).null_count for name in OF_CLIENTS):
        raise Unreadable
    first = {}
    for name in own.column_names:
        column = own.column(name)
        if name != "kind" and column.null_count < len(column):
            first[name] = lines[pc.index(pc.is_valid(column), True).as_py()].as_py()
    return own.select(_in_order(first, data))


def _in_order(first: Mapping[str, int], data: bytes) -> list[str]:
    """Names of columns as they come in the lines in which they come first; first: name -> number of that line."""
    order: dict[str, None] = {}
    file, at = io.BytesIO(data), 0
    for number in sorted(set(first.values())):
        line = next(itertools.islice(file, number - at, None))
        at = number + 1
        order |= dict.fromkeys(_as_columns(json.loads(line)))
    return [name for name in order if name in first]


def _as_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row's fields, then its metrics."""
    plain = {key: value for key, value in row.items() if key not in ("kind", _METRICS)}
    return {**plain, **row.get(_METRICS, {})}


def _plainly_read(path: Path) -> "dict[str, pd.DataFrame]":
    import pandas as pd

    found: dict[str, list[dict[str, Any]]] = {}
    for row in read_rows(path, torn_end=True):
        _check_kind(row["kind"], path)
        odd = [*(row.keys() - {*FIELDS, _METRICS}), *(row.get(_METRICS, {}).keys() & COLUMNS)]
        if odd:
            raise InputError(
                f"{path}: a row has {one_line(odd[0], 50)} where no history has it; put the file back from a copy"
            )
        found.setdefault(row["kind"], []).append(_as_columns(row))
    return {kind: pd.DataFrame(rows) for kind, rows in found.items()}


def _check_kind(kind: str, path: Path) -> None:
    if kind not in KINDS:
        raise InputError(
            f"{path}: a row of kind {one_line(kind, 50)}, expected {', '.join(KINDS)}; put the file back from a copy"
        )
