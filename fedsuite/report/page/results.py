"""The sections that answer first: the final scores beside what did not learn, and beside the published ones."""

import math
from collections import Counter
from collections.abc import Sequence

from fedsuite.report.outcomes import EMPTY, Column, Outcome, spread_of, table
from fedsuite.report.page.answers import Paper
from fedsuite.report.page.digest import NO_FRAMES, Digest
from fedsuite.report.page.model import Section, Table, table_of

HOW = "how comparable"
MOST_NAMED = 4  # lines that the sentence names
SPREAD = "Mean ± sample standard deviation over the runs of a line (seeds, folds). Scores of completed runs only."


def lines_of(digests: Sequence[Digest]) -> dict[str, list[Digest]]:
    """Digests by line, in the order given."""
    found: dict[str, list[Digest]] = {}
    for digest in digests:
        found.setdefault(digest.line, []).append(digest)
    return found


def groups_of(digests: Sequence[Digest]) -> dict[str, list[Outcome]]:
    """Outcomes that repeat each other; where several lines have one of the same name, the line's stands behind it."""
    lines: dict[str, set[str]] = {}
    for digest in digests:
        for outcome in digest.answers.outcomes:
            lines.setdefault(outcome.name, set()).add(digest.line)
    found: dict[str, list[Outcome]] = {}
    for digest in digests:
        for outcome in digest.answers.outcomes:
            alone = len(lines[outcome.name]) == 1
            name = outcome.name if alone else f"{outcome.name} ({digest.line})"
            found.setdefault(name if outcome.name else digest.line, []).append(outcome)
    return found


def baselines_of(digests: Sequence[Digest]) -> dict[str, list[Outcome]]:
    """What did not learn, each value once although many runs share it."""
    found: dict[str, dict[tuple[object, ...], Outcome]] = {}
    for digest in digests:
        for name, metrics in digest.answers.baselines.items():
            own = Outcome(name, digest.place.label, {}, metrics, NO_FRAMES)
            found.setdefault(name, {}).setdefault(tuple(sorted(metrics.items())), own)
    return {name: list(own.values()) for name, own in found.items()}


def answer_of(title: str, digests: Sequence[Digest]) -> str:
    """One sentence: the first score of every line, the best first, beside the baselines; and how many runs are not in it."""
    columns, groups = _columns(digests), groups_of(digests)
    missing = [d for d in digests if not d.completed]
    left = f" Not completed, and not counted: {len(missing)} of {len(digests)} runs ({_states(missing)})."
    left = left if missing else ""
    if not groups:
        return f"{title}: no completed run.{left}"
    shown = (c for c in columns if any(spread_of(own, c.metric).n for own in groups.values()))
    if (score := next(shown, None)) is None:
        return f"{title}: the completed runs have no scores.{left}"
    lower = next(d.answers.lower for d in digests if d.answers.columns)
    means = {name: spread_of(own, score.metric).mean for name, own in groups.items()}
    means = {name: mean for name, mean in means.items() if not math.isnan(mean)}
    order = list(means)
    if lower is not None:
        order.sort(key=lambda name: means[name], reverse=not lower)
    named = [f"{name} {score.cell(groups[name])} ({_runs(groups[name])})" for name in order]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    beside = [f"{n} {score.cell(own)}" for n, own in baselines_of(digests).items()]
    beside = [text for text in beside if not text.endswith(f" {EMPTY}")]
    what = {True: " (lower is better)", False: " (higher is better)", None: ""}[lower]
    text = f"{title}, {score.title}{what}: {', '.join(named[:MOST_NAMED])}{more}"
    return f"{text}; without learning: {', '.join(beside)}.{left}" if beside else f"{text}.{left}"


def results_section(digests: Sequence[Digest]) -> Section:
    """The table of all scores, baselines below, and where runs stand that have not ended."""
    groups, beside, columns = groups_of(digests), baselines_of(digests), _columns(digests)
    tables = []
    if groups:
        counts = _counts(digests)
        shown = [Column("runs", text=lambda own: str(len(own))), *columns]
        rows = table({**groups, **{f"{n} (baseline)": own for n, own in beside.items()}}, shown)
        rows = [{**row, "runs": counts.get(row["run"], EMPTY)} for row in rows]
        tables.append(table_of("Final scores", rows, SPREAD))
    if late := [d for d in digests if not d.completed]:
        tables.append(_unfinished(late))
    notes = dict.fromkeys(note for d in digests for note in d.answers.notes)
    return Section("What came out", text=tuple(notes), tables=tuple(tables))


def paper_section(digests: Sequence[Digest]) -> Section:
    """Each published table that a run belongs beside, ours first."""
    found: dict[str, Paper] = {}
    for paper in (p for d in digests for p in d.answers.papers):
        found.setdefault(paper.table, paper)
    tables = tuple(_beside(paper, digests) for paper in found.values())
    return Section("Beside the paper", tables=tables)


def _beside(paper: Paper, digests: Sequence[Digest]) -> Table:
    own = [d for d in digests if any(p.table == paper.table for p in d.answers.papers)]
    papers = {
        o.run: next(p for p in d.answers.papers if p.table == paper.table)
        for d in own
        for o in d.answers.outcomes
    }
    rows, why = [], dict[str, list[str]]()
    for name, outcomes in groups_of(own).items():
        cells = {column.title: column.cell(outcomes) for column in paper.columns}
        kinds = dict.fromkeys(papers[o.run].verdict for o in outcomes)
        rows.append({"": name, "from": "ours", HOW: " / ".join(kinds), **cells})
        for reasons in dict.fromkeys(papers[o.run].reasons for o in outcomes):
            why.setdefault(reasons, []).append(name)
    for name, printed in paper.rows.items():
        cells = {column.title: printed.get(column.title, EMPTY) for column in paper.columns}
        rows.append({"": name, "from": "paper", HOW: "", **cells})
    differs = [
        f"Not as published in {', '.join(names)}: {text}." for text, names in why.items() if text
    ]
    notes = [f"Source: {paper.source}.", paper.note, *differs]
    return table_of(paper.table, rows, " ".join(note for note in notes if note))


def _columns(digests: Sequence[Digest]) -> list[Column]:
    """Columns of all runs, each once."""
    found = {column.title: column for d in digests for column in d.answers.columns}
    return list(found.values())


def _counts(digests: Sequence[Digest]) -> dict[str, str]:
    """How many runs stand behind a line of results, and of how many where some have not completed."""
    lines, found = lines_of(digests), dict[str, str]()
    for name, own in groups_of(digests).items():
        runs = {o.run for o in own}
        behind = {d.line for d in digests if d.place.label in runs}
        total = sum(len(lines[line]) for line in behind)
        found[name] = str(len(runs)) if len(runs) == total else f"{len(runs)} of {total}"
    return found


def _unfinished(digests: Sequence[Digest]) -> Table:
    rows = []
    for d in digests:
        curves = [c for c in d.answers.curves[:1] if c.metric in d.latest]
        latest = [f"{c.label} {c.scale * d.latest[c.metric]:.4g}" for c in curves]
        wanted = d.settings.get("num-rounds", "?")
        error = str(d.standing.get("error", ""))
        rows.append(
            {
                "run": d.place.label,
                "state": d.place.status,
                "rounds": f"{d.rounds}/{wanted}",
                "latest": ", ".join(latest) or EMPTY,
                "error": error or EMPTY,
            }
        )
    return table_of("Not completed", rows, "The latest values are of unfinished training.")


def _states(digests: Sequence[Digest]) -> str:
    states = Counter(d.place.status for d in digests)
    return ", ".join(f"{count} {state}" for state, count in states.items())


def _runs(outcomes: Sequence[Outcome]) -> str:
    return f"{len(outcomes)} run{'s' * (len(outcomes) != 1)}"
