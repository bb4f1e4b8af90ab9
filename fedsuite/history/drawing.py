"""A metric of the rounds as matplotlib draws it: `run.plot("val_unseen.sr")`, a line for a run, or one for each variant.

Runs of a variant that differ in their seeds (or folds) are their mean with one sample standard deviation on either side.
Figures are pyplot's, so that a notebook shows them; colours and sizes are those that matplotlib is set to.
"""

import difflib
from collections.abc import Container
from typing import TYPE_CHECKING

from fedsuite.errors import InputError, one_line
from fedsuite.history.experiments import Place, place_of
from fedsuite.history.metrics import metrics_of, title_of
from fedsuite.history.reading import Sources
from fedsuite.runs.folder import variant_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST_NEAR, MOST_NAMED, NEAR = 3, 8, 0.5
_HEADS = {"run"}


def plot(
    sources: Sources,
    rounds: "pd.DataFrame",
    final: Container[str],
    metric: str,
    x: str,
    axes: "Axes | None",
) -> "Axes":
    """The axes, drawn on; InputError for a metric that no round has.

    rounds: of the runs that are the sources; final: names of what was measured after the last one; x: "round", or another
    metric of the same rounds.
    """
    who = sources[0][0] if len(sources) == 1 else f"{len(sources)} runs"
    for name in (metric, x):
        _check(who, rounds, final, name)
    table = metrics_of(sources[0][1])
    if axes is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(layout="constrained")
    scale = table.row(metric).scale
    counts = not table.is_evaluation(x)
    drawn = _by_line(sources, rounds, metric, x, counts)
    for line, own in drawn.items():
        at_round = own.groupby("round")
        mean, deviation = (
            found * scale for found in (at_round[metric].mean(), at_round[metric].std())
        )
        places = mean.index if x == "round" else at_round[x].mean()
        several = own["run"].nunique()
        label = f"{line} (mean of {several} runs)" if several > 1 else line
        (drawing,) = axes.plot(places, mean, marker="o", markersize=3, label=one_line(label, 80))
        if several > 1:
            low, high = mean - deviation, mean + deviation
            axes.fill_between(places, low, high, color=drawing.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel(x if x == "round" else title_of(table, x))
    axes.set_ylabel(title_of(table, metric))
    if len(drawn) > 1:
        axes.legend(frameon=False)
    return axes


def _by_line(
    sources: Sources, rounds: "pd.DataFrame", metric: str, x: str, counts: bool
) -> "dict[str, pd.DataFrame]":
    """What a line is called -> the rounds of its runs that have both numbers; counts: x has none before it begins."""
    places = {name: place_of(folder) for name, folder in sources}
    several = len({place.experiment for place in places.values()}) > 1
    found = rounds[list(dict.fromkeys(("run", "round", x, metric)))]
    if counts:
        found = found.assign(**{x: found.groupby("run")[x].ffill().fillna(0)})
    found = found.dropna()
    lines = found["run"].map({name: _line(name, place, several) for name, place in places.items()})
    return {str(line): own for line, own in found.groupby(lines, sort=False)}


def _line(name: str, place: Place, several: bool) -> str:
    """The variant, behind its experiment where there are others; a run of no experiment is a line by itself."""
    if not place.label:
        return name
    variant = variant_of(place.label)
    return (
        "/".join(filter(None, (place.experiment, variant)))
        if several
        else variant or place.experiment
    )


def _check(who: str, rounds: "pd.DataFrame", final: Container[str], metric: str) -> None:
    """InputError, with names that are near, where no round has the metric."""
    if metric in rounds and metric not in _HEADS:
        return
    told = f"{who}: no round has a metric {one_line(str(metric), 80)!r}"
    if metric in final:
        raise InputError(f"{told}, it was measured once, after the last round; see `final`")
    known = [str(name) for name in rounds.columns if name not in _HEADS]
    if not known:
        raise InputError(f"{told}, there are no rounds yet; wait for the first one")
    near = difflib.get_close_matches(str(metric), known, MOST_NEAR, NEAR)
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    cure = (
        f"did you mean {' or '.join(map(repr, near))}?"
        if near
        else f"it has {', '.join(known[:MOST_NAMED])}{more}"
    )
    raise InputError(f"{told}; {cure}")
