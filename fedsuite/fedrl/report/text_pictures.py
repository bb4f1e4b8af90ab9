"""Drawings of a Text2Action episode: the words with their tags, which were selected and whether rightly, the Q-values."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fedsuite.fedrl.report.grid_pictures import COLOUR_OF
from fedsuite.fedrl.text2action.episode import TextEpisode
from fedsuite.fedrl.text2action.views import NEGLECT, SELECT
from fedsuite.reports.plots import COLOURS

LINE_CHARACTERS, MOST_LINES = 92, 14
_LINE_IN, _VALUES_IN = 0.34, 1.5  # heights: a line of words, the panel of Q-values
_MARGINS_IN = (0.8, 0.2, 0.45)  # under, between and above the panels
MOST_BARS = 60  # words whose Q-values are drawn, the latest
FACE = {"hit": COLOURS[4], "false alarm": COLOURS[5], "missed": "white"}
_EDGE = {"hit": COLOURS[0], "false alarm": COLOURS[1], "missed": COLOURS[1]}
_NAMES = {"hit": "selected, rightly", "false alarm": "selected, wrongly", "missed": "missed"}


@dataclass(frozen=True)
class Slot:
    """Where a word stands: line, and first character in it."""

    line: int
    column: int
    width: int


def text_still(episode: TextEpisode, step: int | None = None) -> Figure:
    """The text when word `step` (from 0) is read, MOST_LINES lines of it around that word; None: when all is read."""
    last = len(episode.steps)
    at = last if step is None else step
    where = slots(episode.words, episode.tags)
    words_in = _LINE_IN * min(where[-1].line + 1, MOST_LINES)
    height_in = words_in + _VALUES_IN + sum(_MARGINS_IN)
    figure = Figure(figsize=(8.6, height_in))
    low, between, _ = (margin / height_in for margin in _MARGINS_IN)
    values, words = _VALUES_IN / height_in, words_in / height_in
    _draw_words(figure.add_axes((0.02, low + values + between, 0.96, words)), episode, where, at)
    _draw_values(figure.add_axes((0.09, low, 0.895, values)), episode, min(at, last - 1))
    figure.suptitle(_title(episode, at), fontsize=10)
    handles = [
        Patch(facecolor=FACE[o], edgecolor=_EDGE[o], linestyle="--" if o == "missed" else "-", label=n)
        for o, n in _NAMES.items()
    ]  # fmt: skip
    figure.legend(handles=handles, loc="lower left", ncols=3, frameon=False, fontsize=8)
    return figure


def text_lines(episode: TextEpisode) -> list[str]:
    """The words and the end, as text."""
    width = max(map(len, episode.words))
    rows = zip(episode.steps, episode.words, episode.tags, episode.labels, episode.outcomes, strict=True)  # fmt: skip
    lines = []
    for number, (step, word, tag, label, outcome) in enumerate(rows, 1):
        said = {**step.q, **({"together": step.joint} if len(step.q) > 1 else {})}
        gains = "  ".join(f"{name} {_gain(q):+.2f}" for name, q in said.items())
        done = "select " if step.action == SELECT else "neglect"
        judged = f"{label:9}  {outcome:11}"
        lines.append(
            f"word {number:3}  {done}  {word:{width}}  {tag:5}  {judged}  reward {step.reward:+8.2f}  "
            f"Q(select) - Q(neglect) {gains}"
        )
    return [*lines, end_of(episode)]


def end_of(episode: TextEpisode) -> str:
    """How it ended."""
    s = episode.scores
    return (
        f"F1 {s['f1']:.2f}: {s['right']:.0f} of {s['tagged']:.0f} selected words are right, "
        f"{s['total']:.0f} were asked for"
    )


def slots(words: tuple[str, ...], tags: tuple[str, ...]) -> list[Slot]:
    """Lines of LINE_CHARACTERS characters, each word as wide as it or its tag is."""
    found, line, column = [], 0, 0
    for word, tag in zip(words, tags, strict=True):
        width = min(max(len(word), len(tag)), LINE_CHARACTERS)
        if column + width > LINE_CHARACTERS:
            line, column = line + 1, 0
        found.append(Slot(line, column, width))
        column += width + 1
    return found


def _title(episode: TextEpisode, at: int) -> str:
    name = f"test episode {episode.number}"
    if at == len(episode.steps):
        return f"{name}: {end_of(episode)}"
    done = "selected" if episode.steps[at].action == SELECT else "neglected"
    reward = f"reward {episode.steps[at].reward:+.0f}"
    return f'{name}, word {at + 1} of {len(episode.steps)}: "{episode.words[at]}" {done}, {reward}'


def _draw_words(axes: Axes, episode: TextEpisode, where: list[Slot], at: int) -> None:
    """Words not read yet are grey; the one that is read is framed."""
    lines = where[-1].line + 1
    here = where[min(at, len(where) - 1)].line
    first = max(0, min(here - MOST_LINES // 2, lines - MOST_LINES))
    shown = min(lines, MOST_LINES)
    for i, slot in enumerate(where):
        if not first <= slot.line < first + MOST_LINES:
            continue
        row, outcome = slot.line - first, episode.outcomes[i] if i <= at else ""
        corner, size = (slot.column - 0.4, row - 0.42), (slot.width + 0.8, 0.86)
        if outcome:
            dashed = "--" if outcome == "missed" else "-"
            axes.add_patch(
                Rectangle(corner, *size, facecolor=FACE[outcome], edgecolor=_EDGE[outcome], linestyle=dashed)
            )  # fmt: skip
        if i == at:
            axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor="black", linewidth=1.6))
        colour = "black" if i <= at else "0.6"
        mono: dict[str, Any] = {"family": "monospace", "color": colour, "va": "center"}
        axes.text(slot.column, row - 0.17, episode.words[i][: slot.width], fontsize=7.6, **mono)
        axes.text(slot.column, row + 0.24, episode.tags[i], fontsize=4.8, **mono)
    axes.set_xlim(-1, LINE_CHARACTERS + 1)
    axes.set_ylim(shown - 0.5, -0.5)
    axes.set_axis_off()


def _draw_values(axes: Axes, episode: TextEpisode, at: int) -> None:
    """Q(select) - Q(neglect) of the words so far; the larger of both is done, so that the sign of all together decides."""
    first = max(0, at + 1 - MOST_BARS)
    read = episode.steps[first : at + 1]
    places = np.arange(first, at + 1) + 1
    joint = np.array([_gain(step.joint) for step in read])
    several = len(read[0].q) > 1
    axes.bar(
        places,
        joint,
        color="0.75",
        width=0.8,
        label="together" if several else next(iter(read[0].q)),
    )
    if several:
        for number, role in enumerate(read[0].q):
            gains = [_gain(step.q[role]) for step in read]
            look: dict[str, Any] = {"marker": "osD"[number], "linestyle": "", "markersize": 3}
            axes.plot(places, gains, color=COLOUR_OF[role], label=role, **look)
    chosen = np.array([step.action == SELECT for step in read])
    top = np.maximum(joint, 0)[chosen]
    axes.plot(
        places[chosen], top, marker="v", color="black", linestyle="", markersize=4, label="selected"
    )
    axes.axhline(0, color="0.3", linewidth=0.6)
    axes.set_xlim(first + 0.4, first + min(MOST_BARS, len(episode.steps)) + 0.6)
    axes.margins(y=0.2)
    axes.set_xlabel("word of the text", fontsize=8)
    axes.set_ylabel("Q(select) -\nQ(neglect)", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.figure.legend(
        *axes.get_legend_handles_labels(), loc="lower right", ncols=4, frameon=False, fontsize=8
    )


def _gain(q: np.ndarray) -> float:
    return float(q[SELECT] - q[NEGLECT])
