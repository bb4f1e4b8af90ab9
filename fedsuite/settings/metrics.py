"""A metric as a row of a table: what it is called, its unit, whether less is better, how it becomes one over clients.

Every system has a table, `metrics.py` in its folder, which its strategy, tables, reports and curves read; a run leaves its
own as metrics.json for whoever reads its history. `evaluation.metrics = "module:NAME"` adds rows of one's own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fedsuite.errors import InputError
from fedsuite.settings.config import setting
from fedsuite.settings.values import chosen, shown

SHARE, COUNT = "share", "count"  # 0 to 1; a whole number
KEY = "evaluation.metrics"
COLUMNS = frozenset({"run", "round", "kind", "partition", "name", "task", "status", "reason", "num-examples", "bytes-down",
                     "bytes-up", "messages", "admitted"})  # fmt: skip
"""Names that no metric can have, since frames of a history have columns of these names (`fedsuite.history.rows`)."""
Tables = Literal["", "run", "experiment", "report"]
_PLACES: tuple[Tables, ...] = ("", "run", "experiment", "report")
_OF_TRAINING = ("train.", "released.")


@dataclass(frozen=True)
class Metric:
    """One row.

    name: in the history, without a split and without a silo; title: in tables, the name if empty; unit: "share" is 0 to 1,
    which tables show in percent. lower: whether less is better, None: nobody knows. digits: that tables show.
    compute: values of n examples as [n]; a system says of what (`fedsuite/vln/metrics.py`, `fedsuite/driving/metrics.py`,
    `fedsuite/fedrl/metrics.py`). None: computed with others. averaged: over clients, by the number of examples, as a sum, or
    a function of the sums of what clients send; sends: what they call it then, the name if empty.
    counted_by: the metric that counts what this one is a mean of, where that are not examples.
    evaluation: False for what counts or describes training. tables: in which it is: those of "report" are in those of an
    experiment too, and these in a run's; order: of their columns there, in a report as in the table of metrics.
    paper: whether a published table has it. curve: label of a learning curve, "" without one.
    """

    name: str
    title: str = ""
    unit: str = ""
    lower: bool | None = None
    compute: Callable[..., Any] | None = None
    averaged: Literal["examples", "sum"] | Callable[[Mapping[str, float]], float] = "examples"
    sends: str = ""
    counted_by: str = ""
    digits: int = 2
    evaluation: bool = True
    tables: Tables = "report"
    order: int = 99
    paper: bool = False
    curve: str = ""

    @property
    def heading(self) -> str:
        """The title, or the name."""
        return self.title or self.name

    @property
    def scale(self) -> int:
        """What tables multiply by."""
        return 100 if self.unit == SHARE else 1

    @property
    def percent(self) -> str:
        """Behind a heading."""
        return " (%)" if self.unit == SHARE else ""

    @property
    def sent(self) -> str:
        """What clients call the sum that they send."""
        return self.sends or self.name

    def values(self, count: int, *given: Any) -> np.ndarray:
        """`compute` of what is given, float64 [count]; InputError for anything else."""
        assert self.compute is not None
        found = np.asarray(self.compute(*given), np.float64)
        if found.shape != (count,):
            raise InputError(
                f"{KEY}: {self.name} gives numbers of shape {list(found.shape)}, expected one for each of {count} examples; "
                "return an array [n]"
            )
        return found

    def of(self, sums: Mapping[str, float]) -> float:
        """From sums over all examples, and their number `count`."""
        if callable(self.averaged):
            return self.averaged(sums)
        return sums[self.sent] if self.averaged == "sum" else sums[self.sent] / sums["count"]


# Of the round loop and of strategies.
SHARED = (
    Metric("loss", lower=True),
    Metric("count", unit=COUNT, averaged="sum", tables=""),
    *(
        Metric(name, evaluation=False, tables="")
        for name in (
            "local-steps", "serial-depth", "server-learning-rate", "update-norm", "modules-sent", "houses-per-client",
            "consensus-distance", "consensus-distance-before-mixing", "mixings", "overlay-bytes", "simulated-seconds",
            "silos-missing", "links-clipped", "exchanges", "epsilon", "selected-round", "best-round", "active", "ended",
            "secure-sum.members", "secure-sum.lost", "secure-sum.cut",
        )
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Metrics:
    """A table: the rows of a system, and those that all share."""

    rows: tuple[Metric, ...] = ()

    @cached_property
    def _named(self) -> Mapping[str, Metric]:
        return {row.name: row for row in (*SHARED, *self.rows)}

    def row(self, metric: str) -> Metric:
        """Of a metric of the history, by its name or the last part of it; one that has a name alone where there is none."""
        last = self._named.get(metric.rpartition(".")[2])
        return self._named.get(metric) or (last if last and last.evaluation else Metric(metric))

    def is_evaluation(self, metric: str) -> bool:
        """Whether a metric of a round was measured by evaluating."""
        return self.row(metric).evaluation and not metric.startswith(_OF_TRAINING)

    def shown(self, where: Tables) -> list[Metric]:
        """Rows that are columns of the tables of a run, an experiment or a report, in order."""
        rows = [r for r in self.rows if _PLACES.index(r.tables) >= _PLACES.index(where)]
        return rows if where == "report" else sorted(rows, key=lambda r: r.order)

    @property
    def computed(self) -> list[Metric]:
        """Rows that are computed by themselves."""
        return [row for row in self.rows if row.compute]

    @property
    def curves(self) -> list[Metric]:
        """Rows that have a learning curve, the headline first."""
        return [row for row in self.rows if row.curve]


NO_ROWS = Metrics()


def own_setting() -> str:
    """The key `metrics` of [evaluation]."""
    text = "further metrics, as module:NAME of a Metric or a list of them; empty = none"
    found: str = setting("", text, added=True)
    return found


def with_own(rows: Sequence[Metric], name: str) -> Metrics:
    """The table with the rows that `evaluation.metrics = name` adds; InputError for what is none, or named as another is."""
    if not name:
        return Metrics(tuple(rows))
    found = chosen(KEY, name, {})
    own = (found,) if isinstance(found, Metric) else tuple(found) if isinstance(found, list | tuple) else ()  # fmt: skip
    if not own or not all(isinstance(row, Metric) and row.compute for row in own):
        raise InputError(
            f"{KEY}: {shown(name)} is a {type(found).__name__}, expected a Metric with `compute`, or a list of them"
        )
    taken = {*COLUMNS, *(row.name for row in (*SHARED, *rows))}
    for row in own:
        if row.name in taken or "." in row.name or not row.name:
            raise InputError(
                f"{KEY}: {shown(name)} has a metric {shown(row.name)}, expected a name without a dot that no other metric "
                "and no column of a history has; rename it"
            )
        taken.add(row.name)
    return Metrics((*rows, *own))
