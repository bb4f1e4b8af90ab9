"""Which line is better, and whether that is certain: differences to the best line, run by run, with their intervals.

A pair are two runs that agree in all in which runs of a line differ (seed, fold), were scored on the same data and, where
a run is scored in several ways, in the same way.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from fedsuite.history.paired import Difference, paired
from fedsuite.reports.outcomes import EMPTY, Column, Outcome, spread_of
from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.model import Table, table_of

OF_THE_PLACE = {"name", "results-dir", "resume", "roster", "data.cache-dir"}  # not what a run is
NOTE = (
    "Less the mean of {best}, which is ahead. Pairs are runs that agree in {same}; the interval is the t interval of the "
    "mean difference (95 %). One that contains 0 leaves open which is better.{many}"
)
MANY = " The line that is ahead was picked after the fact, so that its lead over many others looks a little too large."
FEW = 3  # lines with which picking one says little


@dataclass(frozen=True)
class Compared:
    """One line beside the best. words: how they stand, "" where nobody can tell."""

    name: str
    difference: Difference

    @property
    def verdict(self) -> str:
        """Whether it is certain which is better."""
        if self.difference.n < 2:
            return EMPTY
        return "yes" if self.difference.certain else "no"


@dataclass(frozen=True)
class Comparison:
    """best: the line with the best mean; others: beside it, the nearest first; same: in what pairs agree."""

    best: str
    others: tuple[Compared, ...]
    same: str


def comparison_of(
    groups: Mapping[str, Sequence[Outcome]],
    score: Column,
    lower: bool,
    digests: Sequence[Digest],
) -> Comparison | None:
    """None where fewer than two lines have the score in runs that can be paired.

    lower: whether less is better; digests: of the runs that the outcomes are of, scored on the same data.
    """
    runs = {d.place.label: d for d in digests}
    known = {
        name: kept
        for name, own in groups.items()
        if (kept := [o for o in own if o.run in runs and spread_of([o], score.metric).n])
    }
    if len(known) < 2:
        return None
    repeated, ways = _repeated(digests), _ways(digests)

    def key(outcome: Outcome) -> Hashable:
        own = runs[outcome.run]
        same = tuple(str(own.settings.get(k)) for k in repeated)
        return (
            same,
            tuple(str(outcome.facts.get(k)) for k in ways),
            tuple(sorted(own.answers.data.items())),
        )

    values = {name: {key(o): o.metrics[score.metric] for o in own} for name, own in known.items()}
    means = {name: spread_of(own, score.metric).mean for name, own in known.items()}
    best, *rest = sorted(known, key=lambda name: means[name] if lower else -means[name])
    others = [Compared(name, paired(values[name], values[best])) for name in rest]
    if not any(other.difference.n for other in others):
        return None
    return Comparison(best, tuple(others), " and ".join(map(_plain, repeated)) or "all settings")


def _repeated(digests: Sequence[Digest]) -> list[str]:
    """Settings in which runs of a line differ, and in nothing else: the seed, the fold."""
    lines: dict[str, list[Digest]] = {}
    for digest in digests:
        lines.setdefault(digest.line, []).append(digest)
    found: dict[str, None] = {}
    for own in lines.values():
        for name in own[0].settings:
            if name not in OF_THE_PLACE and len({str(d.settings.get(name)) for d in own}) > 1:
                found[name] = None
    return sorted(found)


def _ways(digests: Sequence[Digest]) -> list[str]:
    """Facts in which outcomes of one run differ: how each was scored."""
    found: dict[str, None] = {}
    for digest in digests:
        own = digest.answers.outcomes
        for name in dict.fromkeys(fact for o in own for fact in o.facts):
            if len({str(o.facts.get(name)) for o in own}) > 1:
                found[name] = None
    return sorted(found)


def _plain(key: str) -> str:
    return key.rpartition(".")[2]


def sentence(found: Comparison, score: Column, lower: bool) -> str:
    """Whether the best line is better than the next one, and whether that is certain; "" where there is no pair.

    The best by the means of all runs may be behind in the pairs: then nothing is certain.
    """
    nearest = found.others[0]
    difference = nearest.difference
    what = f"{nearest.name} less {found.best}: "
    if difference.n < 2:
        told = what + difference.shown(score.digits, score.scale)
        open_ = f"Whether {found.best} is better than {nearest.name}, one pair of runs cannot tell"
        return f"{open_} ({told})" if difference.n else ""
    told = f"({what}{difference.text(score.digits, score.scale).replace(' (', ', ', 1)}"
    if difference.certain and (difference.mean > 0) == lower:
        return f"{found.best} is better than {nearest.name}, and that is certain {told}"
    return f"Whether {found.best} is better than {nearest.name}, these runs leave open {told}"


def difference_table(title: str, found: Comparison, score: Column) -> Table:
    """A row for every line but the best."""
    rows = [
        {
            "": other.name,
            f"{score.title}, less {found.best}": other.difference.shown(score.digits, score.scale),
            "95 % interval": other.difference.interval(score.digits, score.scale),
            "pairs": str(other.difference.n),
            "certain": other.verdict,
        }
        for other in found.others
    ]
    many = MANY if len(found.others) > FEW else ""
    return table_of(title, rows, NOTE.format(best=found.best, same=found.same, many=many))
