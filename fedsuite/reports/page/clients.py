"""How clients fared: their own final scores and the worst of them, who took part how often, and what failed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.model import Figure, Section, table_of
from fedsuite.reports.page.questions import ClientScores
from fedsuite.reports.page.results import lines_of
from fedsuite.reports.page.taking_part import figure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

MOST_ROWS, MOST_BARS = 20, 80  # lines of the drawing of scores; clients of the drawing of rounds
MOST_WORST, MOST_NAMES = 5, 24
MOST_MAPS = 4  # of who trained when, of the first run of a line each


def scores_section(digests: Sequence[Digest]) -> Section:
    """Final scores client by client: their spread, and who is worst off."""
    lines: dict[str, pd.DataFrame] = {}
    for name, own in lines_of(digests).items():
        scores = [d.answers.scores for d in own if d.completed and d.answers.scores]
        if any(s.values for s in scores):
            lines[name] = pd.DataFrame([s.values for s in scores]).T
    known = [d.answers.scores for d in digests if d.completed and d.answers.scores]
    if not lines or not known:
        return Section("Scores by client")
    how = replace(known[0], counts={c: n for own in reversed(known) for c, n in own.counts.items()})
    means = {name: found.mean(axis=1) for name, found in lines.items()}
    rows = [_spread_row(name, scores, how) for name, scores in means.items()]
    tables = [
        table_of(
            f"{how.label}, by {how.unit}", rows, f"A {how.unit}'s score is its mean over runs."
        )
    ]
    worst = [row for name, scores in means.items() for row in _worst_rows(name, scores, how)]
    tables.append(table_of("Worst off", worst))
    drawn = dict(list(means.items())[:MOST_ROWS])
    title = f"{how.label}, one dot per {how.unit}, a stroke at the median"
    title += f" (the first {MOST_ROWS} of {len(means)} lines)" if len(means) > len(drawn) else ""
    words = "; ".join(_worded(row) for row in rows[:MOST_ROWS])
    draw = partial(_draw_scores, drawn, how)
    picture = Figure("scores-by-client", title, f"One dot per {how.unit}. {words}.", draw)
    return Section("Scores by client", tables=tuple(tables), figures=(picture,))


def _worded(row: Mapping[str, str]) -> str:
    return f"{row['line']}: {', '.join(f'{k} {v}' for k, v in row.items() if k != 'line')}"


def _spread_row(name: str, scores: "pd.Series[float]", how: ClientScores) -> dict[str, str]:
    ordered = scores.dropna().sort_values(ascending=not how.lower)  # the worst first
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    text = [_shown(float(ordered.quantile(1 - q if how.lower else q)), how) for q in shares]
    titles = ("worst", "worst quarter", "median", "best quarter", "best")
    return {"line": name, f"{how.unit}s": str(len(ordered)), **dict(zip(titles, text, strict=True))}


def _worst_rows(name: str, scores: "pd.Series[float]", how: ClientScores) -> list[dict[str, str]]:
    ordered = scores.dropna().sort_values(ascending=not how.lower, kind="stable")[:MOST_WORST]
    counts = {str(c): f"{n:,.0f}" for c, n in how.counts.items()}
    return [
        {
            "line": name,
            how.unit: str(c),
            "score": _shown(v, how),
            **({"scored on": counts.get(str(c), "-")} if counts else {}),
        }
        for c, v in ordered.items()
    ]


def _shown(value: float, how: ClientScores) -> str:
    return f"{value:.{how.digits}f}"


def _draw_scores(lines: Mapping[str, "pd.Series[float]"], how: ClientScores) -> "Drawing":
    from fedsuite.reports.plots import COLOURS, blank_figure

    figure, axes = blank_figure(5.0, 1.1 + 0.45 * len(lines))
    for row, scores in enumerate(reversed(list(lines.values()))):
        values = np.sort(scores.dropna().to_numpy())
        spread = 0.24 * ((np.arange(len(values)) * 0.618034) % 1 - 0.5)  # even, and always the same
        axes.plot(values, row + spread, "o", color=COLOURS[0], markersize=4, alpha=0.6)
        median = float(np.median(values))
        axes.plot([median, median], [row - 0.3, row + 0.3], color=COLOURS[1], linewidth=2)
    axes.set_yticks(range(len(lines)), [_short(name) for name in reversed(list(lines))])
    axes.set_ylim(-0.6, len(lines) - 0.4)
    axes.set_xlabel(how.label)
    return figure


def _short(name: str, most: int = 24) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def participation_section(digests: Sequence[Digest]) -> Section:
    """Who trained in how many rounds, and when."""
    lines, tables, figures = lines_of(digests), [], []
    note = "Rounds in which a client trained, of those that ever did; means over runs. A client may hold several houses or "
    note += "silos."
    rows = [_rounds_row(name, own) for name, own in lines.items()]
    tables.append(table_of("Rounds by client", rows, note))
    if len(lines) == 1:
        members = _members(digests)
        every = [{"client": n, **m} for n, m in members.items()]
        tables.append(table_of("Every client", every, long=len(every) > MOST_WORST))
        bars = {n: float(m["rounds trained"]) for n, m in members.items()}
        bars = {n: count for n, count in bars.items() if count}
        if 1 < len(bars) <= MOST_BARS:
            words = f"A bar per client: from {min(bars.values()):.4g} to {max(bars.values()):.4g} rounds."
            title = "Rounds in which each client trained, most first"
            figures.append(Figure("participation", title, words, partial(_draw_bars, bars)))
    for own in list(lines.values())[:MOST_MAPS]:  # seeds of a line draw alike
        first = own[0]
        map_ = figure_of(first.taking_part, first.members["name"].tolist(), first.place.label)
        figures += [map_] if map_ else []
    return Section("Who took part", tables=tuple(tables), figures=tuple(figures))


def _rounds_row(name: str, digests: Sequence[Digest]) -> dict[str, str]:
    trained = pd.concat([d.members.set_index("name")["trained"] for d in digests], axis=1)
    means = trained.mean(axis=1)
    chosen = means[means > 0]
    counts = [chosen.min(), chosen.median(), chosen.max()] if len(chosen) else [0.0, 0.0, 0.0]
    fewest, median, most = (f"{count:.4g}" for count in counts)
    return {
        "line": name,
        "clients": str(len(means)),
        "ever trained": str(len(chosen)),
        "rounds": f"{np.mean([d.rounds for d in digests]):.4g}",
        "fewest": fewest,
        "median": median,
        "most": most,
    }


def _members(digests: Sequence[Digest]) -> dict[str, dict[str, str]]:
    """Client -> what it did, as means over runs."""
    every = pd.concat([d.members for d in digests])
    counts = ["trained", "evaluated", "failed", "late", "up"]
    sums = every.groupby("name", sort=False)[counts].mean()
    first = {str(m["name"]): m for m in every.drop_duplicates("name").to_dict("records")}
    return {
        str(name): {
            "role": str(first[str(name)]["role"]) or "-",
            "examples": f"{first[str(name)]['examples']:,}",
            "rounds trained": f"{row['trained']:.4g}",
            "rounds evaluated": f"{row['evaluated']:.4g}",
            "failed": f"{row['failed']:.4g}",
            "late": f"{row['late']:.4g}",
            "sent (MB)": f"{row['up'] / 1e6:.3f}",
        }
        for name, row in sums.iterrows()
    }


def _draw_bars(bars: Mapping[str, float]) -> "Drawing":
    from matplotlib.ticker import MaxNLocator

    from fedsuite.reports.plots import COLOURS, blank_figure

    ordered = sorted(bars.items(), key=lambda b: -b[1])
    figure, axes = blank_figure(5.0, 3.0)
    axes.bar(range(len(ordered)), [v for _, v in ordered], color=COLOURS[0])
    if len(ordered) <= MOST_NAMES:
        names = [_short(n, 14) for n, _ in ordered]
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    else:
        axes.set_xlabel("clients, those with most rounds first")
    axes.grid(visible=False, axis="x")
    axes.set_axisbelow(True)
    axes.set_ylabel("rounds")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def failures_section(digests: Sequence[Digest]) -> Section:
    """Replies that could not be used, and updates that a merge turned down. Late clients are no failures, but counted."""
    failed = [d for d in digests if d.num_failures]
    rows = [
        {"run": d.place.label, **{str(k): str(v) for k, v in row.items()}}
        for d in failed
        for row in d.failures.to_dict("records")
    ]
    tables = []
    if rows:
        total = sum(d.num_failures for d in failed)
        title = f"Replies that could not be used: {total}"
        title += f", the first {len(rows)} of them" if len(rows) < total else ""
        tables.append(table_of(title, rows, long=len(rows) > MOST_ROWS))
    turned = [{"run": d.place.label, **row} for d in digests for row in d.admitted]
    if turned:
        title = "Updates rejected or shortened"
        tables.append(table_of(title, turned, long=len(turned) > MOST_ROWS))
    text = [] if rows else ["Every reply that came could be used."]
    if late := sum(int(d.members["late"].sum()) for d in digests):
        text.append(f"Late replies, which no step waited for, as the settings say: {late}.")
    return Section("Failures", text=tuple(text), tables=tuple(tables))
