"""Walks along one instruction, seen from above and word by word; several agents side by side as in the qualitative
examples of FedVLN (Zhou & Wang 2022), Figures 5 and 6.

A column per agent: the storeys that anybody walks on, and below them the attention over the instruction's words, a row per
decision. Numbers in the house are the decisions after which the agent stood there.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from fedsuite.errors import InputError, one_line
from fedsuite.vln.data.floor_plan import FloorPlan
from fedsuite.vln.evaluation.following import InstructionWalk
from fedsuite.vln.report.houses import (
    WALK_COLOURS,
    DrawnPath,
    Window,
    draw_storey,
    legend_handles,
    shown_storeys,
    window_of,
)

COLUMN_IN, STOREY_IN = 6.4, 4.4  # least width of an agent's column, and of a storey
LARGE_M, AROUND_M = 25.0, 6.0  # of houses larger than this, so much is drawn around the paths
MOST_WORDS = 40  # of a block; longer instructions go on below
_LONGEST_WORD = 16  # characters
_HALO = (withStroke(linewidth=2, foreground="white"),)


def compare_walks(
    house: FloorPlan,
    walks: Mapping[str, InstructionWalk],
    reference: Sequence[str] | None = None,
) -> Figure:
    """Draw walks by the agents' names; save with `fedsuite.reports.plots.save_figure`.

    reference: viewpoint ids of the annotated path, () for none; default: the one that the walks are scored against.
    """
    if not 1 <= len(walks) <= len(WALK_COLOURS):
        raise InputError(f"{len(walks)} walks to draw; give 1 to {len(WALK_COLOURS)}")
    first = next(iter(walks.values()))
    for name, walk in walks.items():
        if walk.scan != house.scan:
            raise InputError(f"{name}: the walk is in {walk.scan}, the plan is of {house.scan}")
    row = {v: i for i, v in enumerate(house.viewpoint_ids)}
    known = first.reference if reference is None else reference
    paths = [DrawnPath("reference", [row[v] for v in known], True)] if known else []
    own = {
        name: DrawnPath("agent" if len(walks) == 1 else one_line(name, 60), [row[v] for v in w.viewpoints], colour=c)
        for (name, w), c in zip(walks.items(), WALK_COLOURS, strict=False)
    }  # fmt: skip
    storeys = shown_storeys(house, [*own.values(), *paths])
    drawn = [*own.values(), *paths]
    storeys, window = shown_storeys(house, drawn), window_of(house)
    if max(window.across_m, window.across_m * window.shape) > LARGE_M:
        window = window_of(house, drawn, AROUND_M)
    figure, plans, blocks = _grid(window, list(walks.values()), len(storeys))
    most = max(map(_darkest, walks.values()))
    longest = max(len(w.decisions) for w in walks.values())
    for number, (name, walk) in enumerate(walks.items()):
        for axes, storey in zip(plans[number], storeys, strict=True):
            draw_storey(axes, house, storey, [own[name], *paths], window)
            _draw_numbers(axes, house, storey, own[name])
        title = f"{one_line(name, 60)}\n{walk.summary}"
        plans[number][0].set_title(title, fontsize=9, x=len(storeys) / 2, parse_math=False)
        parts = _parts(walk, len(blocks[number]))
        for axes, part in zip(blocks[number], parts, strict=True):
            image = _draw_words(axes, walk, part, most, longest)
    bar = figure.colorbar(image, ax=list(chain(*blocks)), shrink=0.9, aspect=15, pad=0.01)
    bar.set_label("attention (a row adds up to 1)", fontsize=7)
    bar.ax.tick_params(labelsize=6)
    path = f", instruction {first.instr_id}" if first.instr_id else ""
    figure.suptitle(f"house {house.scan}{path}", fontsize=10, parse_math=False)
    handles = legend_handles(drawn, len(storeys))
    if any(walk.unknown for walk in walks.values()):
        handles.append(Line2D([], [], linestyle="", label="* not in the vocabulary"))
    figure.legend(handles=handles, fontsize=7, frameon=False, ncols=4, loc="outside lower center")
    return figure


def _grid(
    window: Window, walks: Sequence[InstructionWalk], storeys: int
) -> tuple[Figure, list[list[Axes]], list[list[Axes]]]:
    """An empty figure, and by column the axes of the storeys and, below them, of the blocks of words."""
    column_in = max(COLUMN_IN, STOREY_IN * storeys)
    plan_in = min(max(column_in / storeys * window.shape, 1.8), 6.0)
    blocks = max(math.ceil(len(w.words) / MOST_WORDS) for w in walks)
    block_in = 1.0 + 0.14 * max(len(w.decisions) for w in walks)
    heights = [plan_in] + [block_in] * blocks
    size = column_in * len(walks), sum(heights) + 1.2
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(len(heights), len(walks) * storeys, height_ratios=heights)
    first = [n * storeys for n in range(len(walks))]
    plans = [[figure.add_subplot(grid[0, f + s]) for s in range(storeys)] for f in first]
    below = [
        [figure.add_subplot(grid[1 + b, f : f + storeys]) for b in range(blocks)] for f in first
    ]
    return figure, plans, below


def _parts(walk: InstructionWalk, blocks: int) -> list[slice]:
    """A walk's words in blocks as equal as can be."""
    words = math.ceil(len(walk.words) / blocks)
    return [slice(b * words, (b + 1) * words) for b in range(blocks)]


def _draw_numbers(axes: Axes, house: FloorPlan, storey: int, path: DrawnPath) -> None:
    """After which decisions the agent stood where."""
    times = defaultdict(list)
    for time, viewpoint in enumerate(path.viewpoints):
        times[viewpoint].append(str(time))
    for viewpoint, numbers in times.items():
        if house.storey[viewpoint] == storey and numbers != ["0"]:
            text = ", ".join(n for n in numbers if n != "0")
            x, y = house.position_m[viewpoint, :2].tolist()
            axes.annotate(
                text, (x, y), (4, 4), textcoords="offset points", fontsize=7,
                color=path.colour, zorder=9, path_effects=_HALO,
            )  # fmt: skip


def _darkest(walk: InstructionWalk) -> float:
    """Where the colours end: attention that hardly prefers any word is to look pale."""
    return max(float(walk.attention.max()), 3 / len(walk.words))


def _draw_words(
    axes: Axes, walk: InstructionWalk, part: slice, most: float, longest: int
) -> AxesImage:
    """Words `part` of a heat map with `longest` rows; a shorter last part has cells as wide as the others."""
    weights, words = walk.attention[:, part], walk.words[part]
    width = len(words) if part.stop is None else part.stop - part.start
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=most, aspect="auto")
    decisions = np.arange(len(weights))
    labels = [str(d + 1) for d in decisions]
    if walk.stopped:
        labels[-1] = f"{labels[-1]} (stop)"
    axes.set_yticks(decisions, labels, fontsize=6)
    shown = [_fit(w, walk) for w in words]
    axes.xaxis.tick_top()  # beside the first row, whichever walk is the longest
    axes.set_xticks(range(len(words)), shown, rotation=90, fontsize=7, parse_math=False)
    axes.set(xlim=(-0.5, width - 0.5), ylim=(longest - 0.5, -0.5))
    axes.set_ylabel("decision", fontsize=8, loc="top")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def _fit(word: str, walk: InstructionWalk) -> str:
    plain = one_line(word, 100)
    short = plain if len(plain) <= _LONGEST_WORD else f"{plain[:_LONGEST_WORD]}…"
    return f"{short}*" if word in walk.unknown else short
