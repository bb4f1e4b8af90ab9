"""Curves of the scores over rounds, steps, bytes and time, and of what training was measured by over rounds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from fedsuite.reports.outcomes import spread_of
from fedsuite.reports.page.digest import AXES, OF_TRAINING, Digest
from fedsuite.reports.page.model import Figure, Section
from fedsuite.reports.page.questions import Curve
from fedsuite.reports.page.results import baselines_of, lines_of
from fedsuite.reports.page.same_data import groups_by_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

MOST_POINTS = 200  # of a line that is drawn
MOST_LINES = 7  # that can be told apart
SIZE_IN = (5.0, 3.4)
MOST_BANDS = 4  # more would cover one another
BAND = (
    "Several runs of a line: their mean, round by round; with one standard deviation on either side where at most "
    f"{MOST_BANDS} lines are drawn."
)
LEVELS = "Dotted: what does not learn, on the same data."
TRAINING = "Means of a round, over clients or what they learnt from. Losses of different methods need not measure the same."
AT_THE_START = "before training"
NO_LEVELS: Mapping[str, float] = {}


def curves_section(digests: Sequence[Digest]) -> Section:
    """A drawing for every metric over every axis that any run has recorded; nothing where no round was evaluated twice."""
    drawn = [d for d in digests if len(d.course) > 1]
    if not drawn:
        return Section("Curves")
    curves = {c.metric: c for d in drawn for c in d.answers.curves if c.metric in d.course}
    titles = {**AXES, **{k: v for d in drawn for k, v in d.answers.axes.items()}}
    axes = [name for name in titles if any(_moves(d, name) for d in drawn)]
    levels = {name: levels_of(curve, digests) for name, curve in curves.items()}
    figures = [
        _figure(curve, axis, titles[axis], drawn, levels[name])
        for axis in axes
        for name, curve in curves.items()
    ]
    text = [BAND, *([LEVELS] if any(levels.values()) else [])]
    if late := [d.place.label for d in drawn if not d.completed]:
        text.append(f"Not completed, drawn as far as they came: {', '.join(late)}.")
    return Section("Curves", tuple(text), figures=tuple(f for f in figures if f))


def training_section(digests: Sequence[Digest]) -> Section:
    """Losses and norms of gradients over rounds, as clients told them; nothing where no run has two rounds of any."""
    drawn = [d for d in digests if len(d.training) > 1]
    names = dict.fromkeys(str(name) for d in drawn for name in d.training if name != "round")
    figures = []
    for name in names:
        plain = name.removeprefix(OF_TRAINING).replace("-", " ")
        curve = Curve(name, f"{plain} in training", lower=True if plain.endswith("loss") else None)
        lines = {
            line: mean_course([d.training for d in have], "round", curve)
            for line, own in lines_of(drawn).items()
            if (have := [d for d in own if name in d.training])
        }
        figures.append(_figure_of(lines, curve, "round", AXES["round"], len(lines_of(drawn)) > 1))
    text = (TRAINING,) if figures else ()
    return Section("Training", text, figures=tuple(replace(f, choice="") for f in figures))


def _moves(digest: Digest, axis: str) -> bool:
    """Whether the run recorded this axis, and it is not one point."""
    return axis in digest.course and digest.course[axis].nunique() > 1


def levels_of(curve: Curve, digests: Sequence[Digest]) -> dict[str, float]:
    """Baseline -> its mean score, where all runs have the same data; what was measured before training begins the lines."""
    groups = groups_by_data(digests)
    if not curve.level or len(groups) != 1:
        return {}
    found = baselines_of(groups[0].digests)
    means = {name: spread_of(own, curve.level).mean * curve.scale for name, own in found.items()}
    return {n: mean for n, mean in means.items() if not math.isnan(mean) and n != AT_THE_START}


def _figure(
    curve: Curve, axis: str, label: str, digests: Sequence[Digest], levels: Mapping[str, float]
) -> Figure | None:
    lines = {}
    for name, own in lines_of(digests).items():
        have = [d for d in own if curve.metric in d.course and _moves(d, axis)]
        if have:
            lines[name] = mean_course([d.course for d in have], axis, curve)
    return (
        _figure_of(lines, curve, axis, label, len(lines_of(digests)) > 1, levels) if lines else None
    )


def _figure_of(
    lines: Mapping[str, pd.DataFrame],
    curve: Curve,
    axis: str,
    label: str,
    several: bool,
    levels: Mapping[str, float] = NO_LEVELS,
) -> Figure:
    """Of the lines that end best as many as can be told apart; levels: of what does not learn."""
    best = list(lines)
    if curve.lower is not None:
        best.sort(key=lambda n: lines[n]["mean"].iloc[-1], reverse=not curve.lower)
    kept = {name: lines[name] for name in lines if name in best[:MOST_LINES]}
    title = f"{curve.label} over {label}"
    if len(kept) < len(lines):
        which = "the first" if curve.lower is None else "those that end best"
        title += f" ({len(kept)} of {len(lines)} lines, {which})"
    said = [_words(name, line) for name, line in kept.items()]
    said += [f"dotted, {name}: {value:.4g}" for name, value in levels.items()]
    words = ". ".join(said)
    name = f"{curve.metric}-over-{axis}"
    return Figure(
        name,
        title,
        f"Line chart. {words}.",
        partial(_draw, kept, curve, label, several, levels),
        label,
    )


def mean_course(courses: Sequence[pd.DataFrame], axis: str, curve: Curve) -> pd.DataFrame:
    """Means of x and of the metric over runs, round by round, and its deviation (NaN for one run); thinned out."""
    whole = pd.concat(courses)[list(dict.fromkeys(("round", axis, curve.metric)))].dropna()
    by_round = whole.groupby("round")
    mean = by_round[curve.metric].mean() * curve.scale
    deviation = by_round[curve.metric].std() * curve.scale
    x = mean.index.to_series() if axis == "round" else by_round[axis].mean()
    found = pd.DataFrame({"x": x, "mean": mean, "deviation": deviation})
    every = -(-len(found) // MOST_POINTS)
    last = found.iloc[[-1]]
    thin = found.iloc[::every]
    return thin if thin.index[-1] == last.index[-1] else pd.concat([thin, last])


def _words(name: str, line: pd.DataFrame) -> str:
    first, last = line.iloc[0], line.iloc[-1]
    return (
        f"{name}: from {first['mean']:.4g} at {first['x']:,.4g} to {last['mean']:.4g} at {last['x']:,.4g}, "
        f"between {line['mean'].min():.4g} and {line['mean'].max():.4g}"
    )


def _draw(
    lines: Mapping[str, pd.DataFrame],
    curve: Curve,
    label: str,
    several: bool,
    levels: Mapping[str, float],
) -> "Drawing":
    from matplotlib.ticker import MaxNLocator

    from fedsuite.reports.plots import beside_axis, blank_figure, look_of

    figure, axes = blank_figure(*SIZE_IN)
    handles = []
    for number, (name, line) in enumerate(lines.items()):
        look = look_of(number) | {"label": name}  # which values at the cursor go by
        every = max(1, len(line) // 20)
        handles += axes.plot(line["x"], line["mean"], markersize=4, markevery=every, **look)
        band = line.dropna()
        if len(band) and len(lines) <= MOST_BANDS:
            low, high = band["mean"] - band["deviation"], band["mean"] + band["deviation"]
            axes.fill_between(band["x"], low, high, color=look["color"], alpha=0.2, linewidth=0)
    shown = dict(zip(lines, handles, strict=True)) if several or levels else {}
    for number, (name, value) in enumerate(levels.items()):
        dots = (0, (1, 1.5 + 2 * number))  # the wider apart, the later
        shown[f"{name} (does not learn)"] = axes.axhline(value, color="grey", linestyle=dots)
    axes.set(xlabel=label, ylabel=beside_axis(curve.label))
    if label == AXES["round"]:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if shown:
        figure.legend(
            shown.values(), list(shown), frameon=False, loc="outside lower center", ncols=2
        )
    return figure
