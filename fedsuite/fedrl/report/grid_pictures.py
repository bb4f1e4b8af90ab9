"""Drawings of a Grid-World episode: the map with both agents, what each party saw, the Q-values that chose the action."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedsuite.fedrl.episode import Step
from fedsuite.fedrl.gridworld.episode import GridEpisode, moves_of
from fedsuite.reports.plots import COLOURS

COLOUR_OF = {
    "alpha": COLOURS[0], "beta": COLOURS[1], "gamma": COLOURS[2], "full": COLOURS[0], "joint": "0.35"
}  # fmt: skip
_SIGNS = {"alpha": "\N{GREEK SMALL LETTER ALPHA}", "beta": "\N{GREEK SMALL LETTER BETA}"}
_ARROWS = {"left": "←", "right": "→", "up": "↑", "down": "↓"}
_CELLS = ListedColormap(["0.25", "white"])


def grid_still(episode: GridEpisode, step: int | None = None) -> Figure:
    """The episode before step `step` (from 0), with the action that is chosen then; None: where it ended."""
    last = len(episode.steps)
    at = last if step is None else step
    figure = Figure(figsize=(8.6, 4.0))
    told = episode.steps[min(at, last - 1)]
    rows = [*told.q, "joint"] if len(told.q) > 1 else [*told.q]
    grid = figure.add_gridspec(
        len(rows), 3, left=0.02, right=0.985, top=0.85, bottom=0.14, wspace=0.22, hspace=0.3,
        width_ratios=(3.6, 1.5, 4.0),
    )  # fmt: skip
    _draw_map(figure.add_subplot(grid[:, 0]), episode, at)
    agents = list(episode.windows)
    views = grid[:, 1].subgridspec(max(1, len(agents)), 1, hspace=0.45)
    for row, agent in enumerate(agents):
        seen = episode.windows[agent][min(at, last - 1)]
        _draw_windows(
            figure.add_subplot(views[row]), agent, seen, "sees" if at < last else "saw last"
        )
    panels = [figure.add_subplot(grid[row, 2]) for row in range(len(rows))]
    for name, axes in zip(rows, panels, strict=True):
        q_bars(axes, told.joint if name == "joint" else told.q[name], told.action, name)
    panels[-1].set_xticks(range(16), _labels(), fontsize=7)
    panels[-1].set_xlabel("joint action: alpha's move over beta's (▼ chosen)", fontsize=8)
    figure.suptitle(_title(episode, told, at), fontsize=10)
    return figure


def q_bars(axes: Axes, q: np.ndarray, action: int, name: str) -> None:
    """Q-values [A] of a party, or of all together ("joint"), as bars; the chosen action is full and marked."""
    bars = axes.bar(range(len(q)), q, color=COLOUR_OF[name], width=0.75)
    for number, bar in enumerate(bars):
        bar.set_alpha(1.0 if number == action else 0.4)
    axes.plot([action], [max(float(q[action]), 0.0)], marker="v", color="black", markersize=5)
    axes.axhline(0, color="0.3", linewidth=0.6)
    axes.margins(y=0.2)
    axes.set_xticks([])
    axes.tick_params(labelsize=7)
    axes.set_ylabel("Q together" if name == "joint" else f"Q {name}", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def grid_lines(episode: GridEpisode) -> list[str]:
    """The steps and the end, as text."""
    lines = []
    for number, step in enumerate(episode.steps):
        said = {**step.q, **({"together": step.joint} if len(step.q) > 1 else {})}
        values = "  ".join(f"{name} {q[step.action]:+.2f}" for name, q in said.items())
        where = [f"({r}, {c})" for r, c in episode.cells[number]]
        agents = zip(("alpha", "beta"), where, moves_of(step.action), strict=True)
        walked = "  ".join(f"{agent} {place} {move:5}" for agent, place, move in agents)
        lines.append(f"step {number + 1:2}  {walked}  reward {step.reward:+7.2f}  Q {values}")
    return [*lines, end_of(episode)]


def end_of(episode: GridEpisode) -> str:
    """How it ended."""
    taken = len(episode.steps)
    if not episode.met:
        return f"not met within {taken} steps ({episode.optimum} on the stored path)"
    return f"met after {taken} steps ({episode.optimum} on the stored path)"


def _title(episode: GridEpisode, step: Step, at: int) -> str:
    name = f"test episode {episode.number}"
    if at == len(episode.steps):
        return f"{name}: {end_of(episode)}"
    alpha, beta = moves_of(step.action)
    done = f"alpha {alpha}, beta {beta}, reward {step.reward:+.1f}"
    return f"{name}, step {at + 1} of {len(episode.steps)}: {done}"


def _labels() -> list[str]:
    pairs = (moves_of(action) for action in range(16))
    return [f"{_ARROWS[alpha]}\n{_ARROWS[beta]}" for alpha, beta in pairs]


def _draw_map(axes: Axes, episode: GridEpisode, at: int) -> None:
    """Free cells are white; a line is the way so far, a dashed square what an agent sees now."""
    axes.imshow(episode.grid, cmap=_CELLS, vmin=0, vmax=1)
    size = len(episode.grid)
    for edge in np.arange(-0.5, size):
        axes.axhline(edge, color="0.85", linewidth=0.4)
        axes.axvline(edge, color="0.85", linewidth=0.4)
    for number, agent in enumerate(_SIGNS):
        colour = COLOUR_OF[agent]
        way = episode.cells[: at + 1, number]
        shift = 0.08 * (1 - 2 * number)  # so that two ways over one cell are two lines
        axes.plot(way[:, 1] + shift, way[:, 0] + shift, color=colour, linewidth=2, alpha=0.5)
        row, col = way[-1]
        axes.scatter([col], [row], s=1500 / size, color=colour, marker="os"[number], zorder=3)
        axes.text(
            col, row, _SIGNS[agent], color="white", ha="center", va="center", fontsize=9, zorder=4
        )
        if agent in episode.windows:
            side = episode.windows[agent].shape[-1]
            corner = (col - side / 2, row - side / 2)
            look: dict[str, Any] = {
                "fill": False,
                "edgecolor": colour,
                "linestyle": "--",
                "linewidth": 1.2,
            }
            axes.add_patch(Rectangle(corner, side, side, **look))
    axes.set_xlim(-0.5, size - 0.5)  # windows may reach beyond
    axes.set_ylim(size - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title("map (seen by nobody whole)", fontsize=8)


def _draw_windows(axes: Axes, agent: str, seen: np.ndarray, verb: str) -> None:
    """The last H windows [H, w, w] side by side, newest last."""
    history, side, _ = seen.shape
    gap = np.full((side, 1), np.nan)
    parts: Sequence[np.ndarray] = [part for w in seen for part in (gap, w)][1:]
    strip = np.concatenate(parts, axis=1)
    axes.imshow(strip, cmap=_CELLS, vmin=0, vmax=1)
    middle = side // 2
    sign, colour = _SIGNS[agent], COLOUR_OF[agent]
    for h in range(history):
        left = h * (side + 1)
        axes.add_patch(
            Rectangle((left - 0.5, -0.5), side, side, fill=False, edgecolor=colour, linewidth=1.2)
        )
        axes.plot([left + middle], [middle], marker="os"[agent == "beta"], color=colour)
    axes.set_xlim(-0.7, strip.shape[1] - 0.3)
    axes.set_ylim(side - 0.3, -0.7)
    axes.set_axis_off()
    axes.set_title(f"what {sign} {verb}\n(newest right)", fontsize=8)
