"""What a system says of its runs in a report, and what is said of a system that says nothing.

`System.answers` is called with the settings of a run and with what was read of it, once for every run, and returns
an Answers. Everything else in a report is the same for all systems.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedsuite.history import RunFrames
from fedsuite.history.metrics import metrics_of, title_of
from fedsuite.history.tidy import last_values
from fedsuite.reports.outcomes import Column, Outcome, column_of
from fedsuite.roster.members import ROSTER, Roster, read_roster
from fedsuite.settings.metrics import Metric, Metrics

MOST_METRICS, DIGITS = 6, 4
_NUMBER = re.compile(r"\d[\d,]*(\.\d+)?")
PANELS = 2  # curves of a system that names none


@dataclass(frozen=True)
class RunRead:
    """A run as it was read. line: what its line in tables is called; completed: whether it ended well, tables and all."""

    folder: Path
    label: str
    line: str
    completed: bool
    frames: RunFrames

    @property
    def roster(self) -> Roster | None:
        """Who took part; None where the folder does not say."""
        file = self.folder / ROSTER
        return read_roster(file) if file.is_file() else None


@dataclass(frozen=True)
class Curve:
    """A metric of the rounds; scale: 100 draws shares in percent; lower: is better, None: nobody knows; level: the metric
    of baselines that is the same one, measured on the same data."""

    metric: str
    label: str
    scale: float = 1.0
    lower: bool | None = False
    level: str = ""


def curve_of(row: Metric, metric: str = "", label: str = "", level: str = "") -> Curve:
    """Of a row of the table of metrics; metric, label: where they are other than the row's."""
    return Curve(metric or row.name, label or row.curve, row.scale, row.lower, level)


@dataclass(frozen=True)
class ClientScores:
    """The final score of every client: name -> value. counts: how many examples it is a score of, where that is known; unit:
    who is scored, where a client may hold several of them."""

    label: str
    values: Mapping[str, float]
    lower: bool = False
    digits: int = 1
    counts: Mapping[str, float] = field(default_factory=dict)
    unit: str = "client"


@dataclass(frozen=True)
class Paper:
    """A published table beside ours.

    rows: name -> cells as they are printed, by title of a column; data, size, budget: in what the run differs from the
    published ones, in a few words each. Other data makes numbers not comparable, whatever their size.
    """

    source: str
    table: str
    columns: Sequence[Column]
    rows: Mapping[str, Mapping[str, str]]
    data: Sequence[str] = ()
    size: Sequence[str] = ()
    budget: Sequence[str] = ()
    note: str = ""

    @property
    def verdict(self) -> str:
        """How comparable ours are, with the first reason why not."""
        if self.data:
            return f"not comparable: {self.data[0]}"
        rest = [*self.size, *self.budget]
        return f"in part: {rest[0]}" if rest else "yes: same data, size and budget"

    @property
    def reasons(self) -> tuple[str, ...]:
        """All that differs."""
        return (*self.data, *self.size, *self.budget)


def reasons_of(papers: Iterable[Paper]) -> str:
    """All that differs in several runs, each once; runs that are apart by a number have it from the least to the largest."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for reason in (reason for paper in papers for reason in paper.reasons):
        found = _NUMBER.search(reason)
        begin, end = found.span() if found else (len(reason), len(reason))
        numbers.setdefault((reason[:begin], reason[end:]), []).append(reason[begin:end])
    told = []
    for (before, after), own in numbers.items():
        apart = sorted(set(own), key=lambda n: float(n.replace(",", "") or 0))
        told.append(before + " to ".join(dict.fromkeys((apart[0], apart[-1]))) + after)
    return "; ".join(told)


@dataclass(frozen=True)
class Wording:
    """How a score is told in words: "In unseen houses the agent reached its goal in 31.5 % of 651 walks".

    where, who: of that sentence; first: of the first line, with {score} and {of} ("reached its goal in {score} % of {of}");
    then: of those behind it ("in {score} %"); of: what the score is over, in the plural; count: how many of them, 0 where
    that is not known; share: whether it is a share of them, so that they give it an interval; names: how baselines are
    called in a sentence, where that is not as in tables.
    """

    where: str
    who: str
    first: str
    then: str
    of: str = ""
    count: int = 0
    share: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """What a model card says of a run's model besides what every card does.

    what: a sentence on what it does; task: as Hugging Face calls it; load: lines of Python that open it, with {run} for the
    path; limits: sentences.
    """

    what: str = ""
    task: str = "other"
    load: str = ""
    limits: Sequence[str] = ()


@dataclass(frozen=True)
class Answers:
    """What is to be said of one run.

    outcomes: lines of the table of results, () for a run that has not completed; an outcome without a name is called after
    the run's line. columns: of that table, the score that the report opens with first. lower: whether less of that is
    better, None where nobody knows. baselines: name -> metrics of what did not learn. axes: metrics of the rounds that
    curves may stand over besides rounds, steps, bytes and time, and their labels. leaves: sentences on what leaves a
    client. line: the run's line, where it is another than its variant. data: what the scores are scores of, as the words
    that tell it, by what they tell ("silos" -> "11 silos"); scores of runs are ranked and averaged where all of it is
    equal. learns: False for a method that is itself a baseline. chance: where no run has a baseline, how to get one.
    words: metric of a column -> how the report's first sentence tells it; one without is told by the column's title. model:
    what a model card says of it. pictures: names of PNG files that runs leave in their folder, and what they show.
    """

    outcomes: Sequence[Outcome] = ()
    columns: Sequence[Column] = ()
    lower: bool | None = False
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    curves: Sequence[Curve] = ()
    axes: Mapping[str, str] = field(default_factory=dict)
    scores: ClientScores | None = None
    leaves: Sequence[str] = ()
    papers: Sequence[Paper] = ()
    notes: Sequence[str] = ()
    line: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    learns: bool = True
    chance: str = ""
    words: Mapping[str, Wording] = field(default_factory=dict)
    model: Model = Model()
    pictures: Mapping[str, str] = field(default_factory=dict)


def plain_answers(_: Any, run: RunRead) -> Answers:
    """Of a system that has no answers of its own: the last values and the curves of the first metrics."""
    values = last_values(run.frames.rounds, run.frames.closing)
    table = metrics_of(run.folder)
    rows = {name: row for name in values if (row := table.row(name)).evaluation}
    outcome = Outcome("", run.label, {}, values, run.frames)
    drawn = [name for name in rows if name in run.frames.rounds]
    return Answers(
        outcomes=(outcome,) if run.completed else (),
        columns=plain_columns(table, rows),
        lower=next((row.lower for row in rows.values()), None),
        curves=[curve_of(rows[name], name, title_of(table, name)) for name in drawn[:PANELS]],
    )


def plain_columns(table: Metrics, names: Iterable[str]) -> list[Column]:
    """The first of these metrics, as the table has them, or by their names."""
    shown = [(table.row(name), name, title_of(table, name)) for name in names]
    return [replace(column_of(*each), digits=DIGITS) for each in shown[:MOST_METRICS]]
