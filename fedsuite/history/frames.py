"""Frames over one or more runs, each made when it is first asked for.

rounds, closing: a line per round, and one per run for what was measured after the last round. clients, closing_clients: a
line per client and exchange. All have columns run and round and one per metric, by its own name. evaluations, messages and
timing are long or derived: see `fedsuite.history.tidy` and `fedsuite.history.timing` for their columns and units.
"""

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from fedsuite.history.reading import Sources, read_tables

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from matplotlib.axes import Axes


class RunFrames:
    """sources: what each run is called and its folder. A history is read once, a frame stays once it is made."""

    def __init__(self, sources: Sources) -> None:
        self.sources = tuple(sources)

    @cached_property
    def rounds(self) -> "pd.DataFrame":
        """run, round; metrics of the round."""
        return self._frame("round")

    @cached_property
    def clients(self) -> "pd.DataFrame":
        """run, round, partition, name, task, status, reason, num-examples, bytes-down, bytes-up; the client's metrics."""
        return self._frame("client")

    @cached_property
    def closing(self) -> "pd.DataFrame":
        """run, round; what was measured after the last round."""
        return self._frame("closing")

    @cached_property
    def closing_clients(self) -> "pd.DataFrame":
        """The columns of `clients`, of exchanges after the last round."""
        return self._frame("closing-client")

    @cached_property
    def evaluations(self) -> "pd.DataFrame":
        """run, round, client ("" = all together), split, metric, unit, value."""
        from fedsuite.history.tidy import evaluations

        during = self.rounds, self.clients
        return evaluations(self.sources, during, (self.closing, self.closing_clients))

    @cached_property
    def messages(self) -> "pd.DataFrame":
        """run, round, client, task, status, bytes-down, bytes-up, messages, closing."""
        from fedsuite.history.tidy import messages

        return messages(self.clients, self.closing_clients)

    @cached_property
    def timing(self) -> "pd.DataFrame":
        """run, round, startup-s, waiting-s, local-work-s, merging-s, evaluation-s, total-s, local-steps, serial-depth."""
        from fedsuite.history.timing import timing

        return timing(self.sources, self.rounds)

    @cached_property
    def audit(self) -> "pd.DataFrame":
        """run, seed, attack, attacker, target, measure, value, low, high, chance, undefended, control, least, counts and
        more: a line per finding of `fedsuite audit`; empty where no run was audited."""
        from fedsuite.history.audits import audit_lines

        return joined(
            [(name, found) for name, folder in self.sources if len(found := audit_lines(folder))]
        )

    def plot(self, metric: str, *, x: str = "round", axes: "Axes | None" = None) -> "Axes":
        """Draw a metric of the rounds, a line for each variant, and return the axes; in a notebook it is shown.

        x: another metric of the same rounds to draw it over. axes: to draw on, new ones if not given. Several runs of a
        variant are a mean with one standard deviation. InputError for a metric that no round has.
        """
        from fedsuite.history.drawing import plot

        return plot(self.sources, self.rounds, self.closing, metric, x, axes)

    def replaced(self, **frames: "pd.DataFrame") -> Self:
        """The same with other frames, by name."""
        twin = copy.copy(self)
        vars(twin).update(frames)
        return twin

    @cached_property
    def _tables(self) -> "dict[str, list[tuple[str, pa.Table | pd.DataFrame]]]":
        """By kind of row, what each run has of it; taken away when its frame is made."""
        found: dict[str, list[tuple[str, Any]]] = {}
        for name, folder in self.sources:
            for kind, table in read_tables(folder).items():
                found.setdefault(kind, []).append((name, table))
        return found

    def _frame(self, kind: str) -> "pd.DataFrame":
        return joined(self._tables.pop(kind, []))


def joined(parts: list[tuple[str, Any]]) -> "pd.DataFrame":
    """Tables of Arrow or pandas, by run, one below the other; the runs' names come in a column before all others."""
    import pandas as pd
    import pyarrow as pa

    if not parts:
        return pd.DataFrame()
    if all(isinstance(table, pa.Table) for _, table in parts):
        tables = [t.add_column(0, "run", pa.repeat(name, len(t))) for name, t in parts]
        parts.clear()  # so that memory is freed as the frame is made
        table = pa.concat_tables(tables, promote_options="permissive")
        tables.clear()
        return table.to_pandas(split_blocks=True, self_destruct=True)
    frames = [_as_frame(table).assign(run=name) for name, table in parts]
    frame = pd.concat(frames, ignore_index=True)
    return frame[["run", *(name for name in frame.columns if name != "run")]]


def _as_frame(table: Any) -> "pd.DataFrame":
    return table.to_pandas() if hasattr(table, "to_pandas") else table
