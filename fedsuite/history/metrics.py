"""What the metrics of a history mean: the table of metrics that the run left, or those of the built-in systems."""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, one_line
from fedsuite.settings.metrics import Metric, Metrics
from fedsuite.settings.values import imported
from fedsuite.storage.files import read_object, write_json

METRICS = "metrics.json"
_BUILT_IN = ("fedsuite.vln.metrics", "fedsuite.driving.metrics", "fedsuite.fedrl.metrics")
_SPLIT = re.compile(r"(val|valid|test|train)([_-][\w-]+)?")
_KEPT = {"title": str, "unit": str, "lower": bool | None, "evaluation": bool}  # by name


def write_metrics(run_dir: Path, metrics: Metrics) -> None:
    """Leave what readers of a run need to know of its table."""
    kept = {row.name: {key: getattr(row, key) for key in _KEPT} for row in metrics.rows}
    write_json(run_dir / METRICS, kept)


def metrics_of(run_dir: Path) -> Metrics:
    """The table that a run left; of a run of an older version the rows of all built-in systems."""
    file = run_dir / METRICS
    if not file.is_file():
        return _built_in()
    found = read_object(file, "what the metrics of a run are", "delete this one file")
    return Metrics(tuple(_row(file, name, row) for name, row in found.items()))


def _row(file: Path, name: str, row: object) -> Metric:
    """Keys of a later version are passed over."""
    own: dict[str, Any] = {"": row}
    if isinstance(row, dict):
        own = {k: v for k, v in row.items() if k in _KEPT}
    if wrong := [k for k, v in own.items() if not isinstance(v, _KEPT.get(k, Metric))]:
        raise InputError(
            f"{file}: {one_line(name, 60)} has no such {wrong[0] or 'row'}; delete this one file"
        )
    texts = {k: one_line(v, 60) for k, v in own.items() if isinstance(v, str)}
    return Metric(name, **{**own, **texts})


@lru_cache(maxsize=1)
def _built_in() -> Metrics:
    def rows() -> Iterator[Metric]:
        for module in _BUILT_IN:
            yield from imported("system", f"{module}:ALL", {})

    return Metrics(tuple(rows()))


def title_of(table: Metrics, name: str) -> str:
    """Of a metric of the history: its row's title behind what its name has before, in percent for shares."""
    row = table.row(name)
    return name.removesuffix(row.name) + row.heading + row.percent


def split_of(metric: str) -> tuple[str, str]:
    """Split, or test, and metric: ("val_unseen", "sr") of val_unseen.sr; ("", "rmse") where there is only one."""
    head, dot, rest = metric.partition(".")
    return (head, rest) if dot and _SPLIT.fullmatch(head) else ("", metric)
