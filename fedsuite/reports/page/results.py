"""The sections that answer first: the final scores beside what did not learn, and beside the published ones."""

from collections.abc import Mapping, Sequence

from fedsuite.reports.outcomes import EMPTY, Column, Outcome, spread_of, table
from fedsuite.reports.page.differences import comparison_of, difference_table
from fedsuite.reports.page.digest import NO_FRAMES, Digest
from fedsuite.reports.page.model import Section, Table, table_of
from fedsuite.reports.page.questions import Paper, reasons_of
from fedsuite.reports.page.same_data import SameData, groups_by_data
from fedsuite.reports.tables import markdown_table
from fedsuite.storage.escaping import in_markdown

HOW = "how comparable"
SPREAD = "Mean ± sample standard deviation over the runs of a line (seeds, folds). Scores of completed runs only."
BASELINE = " (baseline)"
APART = "Runs with different data have a table each: their scores are not to be ranked against each other."


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
    """What did not learn: of runs of a method that learns nothing, and what others have beside them, each value once
    although many runs share it."""
    own = groups_of([d for d in digests if not d.answers.learns])
    found: dict[str, dict[tuple[object, ...], Outcome]] = {}
    for digest in digests:
        for name, metrics in digest.answers.baselines.items():
            beside = Outcome(name, "", {}, metrics, NO_FRAMES)
            found.setdefault(name, {}).setdefault(tuple(sorted(metrics.items())), beside)
    return {**{name: list(each.values()) for name, each in found.items()}, **own}


def results_section(digests: Sequence[Digest]) -> Section:
    """A table of all scores on the same data, baselines below, and where runs stand that have not ended."""
    groups = groups_by_data(digests)
    tables = [_scores(group, lines_of(digests)) for group in groups if _rows_of(group)]
    tables += [table for group in groups if (table := _differences(group))]
    if late := [d for d in digests if not d.completed]:
        tables.append(_unfinished(late))
    notes = dict.fromkeys(note for d in digests for note in d.answers.notes)
    apart = (APART,) if len(groups) > 1 else ()
    return Section("What came out", text=(*apart, *notes), tables=tuple(tables))


def _rows_of(group: SameData) -> dict[str, list[Outcome]]:
    """What has learnt, then what has not."""
    learnt = groups_of([d for d in group.digests if d.answers.learns])
    beside = baselines_of(group.digests)
    return {**learnt, **{name + BASELINE: own for name, own in beside.items()}}


def _scores(group: SameData, lines: Mapping[str, Sequence[Digest]]) -> Table:
    """Of runs on the same data; lines: all runs, also those that have not completed."""
    groups, counts = _rows_of(group), [Column("runs", text=lambda own: _count(own, group, lines))]
    rows = table(groups, [*counts, *_columns(group.digests)])
    some = any(name.endswith(BASELINE) for name in groups)
    no_chance = "" if some else next((c for d in group.digests if (c := d.answers.chance)), "")
    note = " ".join(filter(None, (SPREAD, group.note, no_chance)))
    return table_of(group.called("Final scores"), rows, note)


def differences_text(runs: Sequence[Digest]) -> str:
    """The tables of differences as Markdown; "" where there are none."""
    parts = []
    for found in filter(None, map(_differences, groups_by_data(runs))):
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        parts.append(
            f"\n{in_markdown(found.title)}:\n\n{markdown_table(rows)}\n{in_markdown(found.note)}\n"
        )
    return "".join(parts)


def _differences(group: SameData) -> Table | None:
    """Of every line's first score to the best line's, where there are pairs to take an interval of."""
    lower, score = first_score(group.digests)
    if score is None or lower is None:
        return None
    learnt = [d for d in group.digests if d.answers.learns] or group.digests
    found = comparison_of(groups_of(learnt), score, lower, group.digests)
    if found is None or all(other.difference.n < 2 for other in found.others):
        return None
    return difference_table(group.called("Differences"), found, score)


def first_score(digests: Sequence[Digest]) -> tuple[bool | None, Column | None]:
    """Whether less of it is better; the first column that a line which learnt has something in."""
    groups = groups_of([d for d in digests if d.answers.learns] or digests)
    shown = (c for c in _columns(digests) if any(spread_of(o, c.metric).n for o in groups.values()))
    lower = next((d.answers.lower for d in digests if d.answers.columns), None)
    return lower, next(shown, None)


def _count(
    outcomes: Sequence[Outcome], group: SameData, lines: Mapping[str, Sequence[Digest]]
) -> str:
    """How many runs stand behind a line of results, and of how many where some have not completed."""
    runs = {o.run for o in outcomes} - {""}
    behind = {d.line for d in group.digests if d.place.label in runs}
    total = sum(len(lines[line]) for line in behind)
    if not runs:
        return EMPTY
    return str(len(runs)) if len(runs) == total else f"{len(runs)} of {total}"


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
    for group in groups_by_data(own):
        for name, outcomes in _rows_of(group).items():
            name = group.called(name)
            cells = {column.title: column.cell(outcomes) for column in paper.columns}
            known = [papers[o.run] for o in outcomes if o.run]
            kinds = dict.fromkeys(paper.verdict for paper in known)
            rows.append({"": name, "from": "ours", HOW: " / ".join(kinds), **cells})
            why.setdefault(reasons_of(known), []).append(name)
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
