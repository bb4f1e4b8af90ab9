"""What a report opens with: the runs' own scores in words, which line is better, and whether that is certain."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from fedsuite.reports.outcomes import EMPTY, Column, Outcome, spread_of
from fedsuite.reports.page.differences import comparison_of, sentence
from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.questions import Wording
from fedsuite.reports.page.results import baselines_of, first_score, groups_of
from fedsuite.reports.page.same_data import SameData, groups_by_data

MOST_NAMED = 4  # lines that the sentence names
QUANTILE = 1.959964  # of the normal law, for 95 %
BETTER = {True: " (lower is better)", False: " (higher is better)", None: ""}


def answers_of(title: str, digests: Sequence[Digest], several: bool = False) -> tuple[str, ...]:
    """A paragraph for all runs that were scored on the same data; and how many runs are not in any.

    title: the system's name; several: whether the report has others.
    """
    missing = [d for d in digests if not d.completed]
    left = f" Not completed, and not counted: {len(missing)} of {len(digests)} runs ({_states(missing)})."
    told = [_opening(title, several, group) for group in groups_by_data(digests)]
    told = told or [f"{title}: no completed run."]
    return (*told[:-1], told[-1] + (left if missing else ""))


def _opening(title: str, several: bool, group: SameData) -> str:
    """The first score of every line, the best first, beside the baselines; then whether the best is better."""
    digests = group.digests
    learnt = [d for d in digests if d.answers.learns]
    groups = groups_of(learnt or digests)
    lower, score = first_score(digests)
    if score is None:
        return f"{group.called(title)}: the completed runs have no scores."
    means = {name: spread_of(own, score.metric).mean for name, own in groups.items()}
    means = {name: mean for name, mean in means.items() if not math.isnan(mean)}
    order = list(means)
    if lower is not None:
        order.sort(key=lambda name: means[name], reverse=not lower)
    lines = {name: groups[name] for name in order}
    words = next((d.answers.words.get(score.metric) for d in digests if d.answers.words), None)
    if words is None:
        text = f"{group.called(title)}, {score.title}{BETTER[lower]}: {_listed(lines, score)}"
        then, names = "{score}", dict[str, str]()
    else:
        before = ", ".join(filter(None, [title if several else "", group.title]))
        text = f"{before}: " * bool(before) + _in_words(words, lines, score)
        then, names = words.then, dict(words.names)
    beside = {n: score.cell(own) for n, own in baselines_of(digests).items() if learnt}
    known = [f"{names.get(n, n)} {then.format(score=c)}" for n, c in beside.items() if c != EMPTY]
    if known or (learnt and any(d.answers.chance for d in digests)):
        text += f"; without learning: {', '.join(known) or 'not known'}"
    found = comparison_of(groups, score, lower, digests) if lower is not None else None
    certain = sentence(found, score, bool(lower)) if found else ""
    return f"{text}. {certain}." if certain else f"{text}."


def _listed(lines: Mapping[str, Sequence[Outcome]], score: Column, then: str = "{score}") -> str:
    """The first lines, each with its score and on how many runs it stands."""
    told = [f"{n} {then.format(score=score.cell(own))} ({_runs(own)})" for n, own in lines.items()]
    more = f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    return ", ".join(told[:MOST_NAMED]) + more


def _in_words(words: Wording, lines: Mapping[str, Sequence[Outcome]], score: Column) -> str:
    (name, first), *rest = lines.items()
    alone = len(lines) == 1
    count = words.count if alone and len(first) == 1 else 0
    of = f"{count:,} {words.of}" if count else words.of
    who = words.who if alone and len(first) == 1 else f"{words.who} of {name}"
    text = f"{words.where} {who} {words.first.format(score=score.cell(first), of=of)}"
    if count and words.share:
        low, high = (
            f"{end * score.scale:.{score.digits}f}"
            for end in _wilson(spread_of(first, score.metric).mean, count)
        )
        return f"{text} (95 % interval by these {words.of} alone, not by the seed: {low} to {high})"
    if alone and len(first) == 1:
        return text
    text += f" ({_runs(first)})"
    return f"{text}, {_listed(dict(rest), score, words.then)}" if rest else text


def _wilson(share: float, n: int) -> tuple[float, float]:
    """95 % interval of a share of n independent trials (Wilson 1927), which stays between 0 and 1."""
    square = QUANTILE**2 / n
    middle = (share + square / 2) / (1 + square)
    half = QUANTILE * math.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
    return middle - half, middle + half


def _states(digests: Sequence[Digest]) -> str:
    states = Counter(d.place.status for d in digests)
    return ", ".join(f"{count} {state}" for state, count in states.items())


def _runs(outcomes: Sequence[Outcome]) -> str:
    return f"{len(outcomes)} run{'s' * (len(outcomes) != 1)}"
