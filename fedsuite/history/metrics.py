"""What the metrics of a history mean: the table of metrics that the run left, or those of the built-in systems."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path

from fedsuite.metrics import Metric, Metrics
from fedsuite.settings.values import imported
from fedsuite.storage.files import read_object, write_json

METRICS = "metrics.json"
_BUILT_IN = ("fedsuite.vln.metrics", "fedsuite.driving.metrics", "fedsuite.fedrl.metrics")
_SPLIT = re.compile(r"(val|valid|test|train)([_-][\w-]+)?")
_OF_CODE = ("compute", "averaged", "sends")  # no reader calls them


def write_metrics(run_dir: Path, metrics: Metrics) -> None:
    """Leave the table of a run, without its functions."""
    rows = [asdict(replace(row, compute=None, averaged="examples")) for row in metrics.rows]
    table = {row["name"]: {k: v for k, v in row.items() if k not in _OF_CODE} for row in rows}
    write_json(run_dir / METRICS, table)


def metrics_of(run_dir: Path) -> Metrics:
    """The table that a run left; of a run of an older version the rows of all built-in systems."""
    file = run_dir / METRICS
    if not file.is_file():
        return _built_in()
    found = read_object(file, "what the metrics of a run are", "delete this one file")
    known = Metric.__dataclass_fields__.keys() - set(_OF_CODE)
    rows = [{k: v for k, v in row.items() if k in known} for row in found.values()]
    return Metrics(tuple(Metric(**row) for row in rows))


@lru_cache(maxsize=1)
def _built_in() -> Metrics:
    def rows() -> Iterator[Metric]:
        for module in _BUILT_IN:
            yield from imported("system", f"{module}:ALL", {})

    return Metrics(tuple(rows()))


def split_of(metric: str) -> tuple[str, str]:
    """Split, or test, and metric: ("val_unseen", "sr") of val_unseen.sr; ("", "rmse") where there is only one."""
    head, dot, rest = metric.partition(".")
    return (head, rest) if dot and _SPLIT.fullmatch(head) else ("", metric)
