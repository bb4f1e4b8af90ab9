"""Who trained when: a row per client, a column per round, with counts at the margins."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedsuite.history import LATE
from fedsuite.reports.page.model import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

NOT, OK, LATER, FAILED = range(4)
STATES = {OK: "reply used", LATER: "late", FAILED: "failed"}
COLOURS_OF = {
    OK: "#0072b2",
    LATER: "#e69f00",
    FAILED: "#d55e00",
}  # also told apart in grey: dark, light, middle
MOST_CLIENTS, MOST_ROUNDS, MOST_NAMES = 120, 1000, 40
WIDTH_IN, ROW_IN, MARGINS_IN = 8.0, 0.14, 1.7


def states_of(clients: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """[clients, rounds] uint8: what became of a client's training in rounds 1, 2, ...; the worst where there were several.

    clients: lines of exchanges; names: of the rows. Nothing where there are more clients than a map shows.
    """
    used = clients[(clients["task"] == "train") & (clients["round"] > 0)]
    if not len(used) or len(names) > MOST_CLIENTS:
        return np.zeros((0, 0), np.uint8)
    status = used["status"].astype(str).to_numpy()
    code = np.where(status == "ok", OK, np.where(status == LATE, LATER, FAILED)).astype(np.uint8)
    rounds = used["round"].to_numpy(np.int64)
    row = pd.Index(names, dtype=str).get_indexer(pd.Index(used["name"].astype(str)))
    found = np.zeros((len(names), int(rounds.max())), np.uint8)
    np.maximum.at(found, (row, rounds - 1), code)
    return found


def figure_of(states: np.ndarray, names: Sequence[str], label: str) -> Figure | None:
    """Of clients that were ever asked; None where that tells nothing: all of them in every round, or one client alone."""
    if not states.size:
        return None
    asked = (states != NOT).any(axis=1)
    states = states[asked]
    kept = [name for name, own in zip(names, asked, strict=True) if own]
    if len(kept) < 2 or (states == OK).all() or states.shape[1] > MOST_ROUNDS:
        return None
    counts = {words: int((states == code).sum()) for code, words in STATES.items()}
    told = ", ".join(f"{words} {count:,}" for words, count in counts.items() if count)
    each = (states == OK).sum(axis=0)
    words = f"{len(kept)} clients by {states.shape[1]} rounds: {told}"
    words += f". Replies used in a round: from {each.min()} to {each.max()}"
    title = f"Who trained in which round of {label}; beside and above: how many replies were used"
    return Figure(
        "who-trained-when", title, f"{words}.", partial(_draw, states, kept), on_paper=True
    )


def _draw(states: np.ndarray, names: Sequence[str]) -> "Drawing":
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure as Drawing
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    clients, rounds = states.shape
    height = max(0.8, ROW_IN * clients)
    figure = Drawing(figsize=(WIDTH_IN, height + MARGINS_IN), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(6, 1), height_ratios=(0.6, height))
    field = figure.add_subplot(grid[1, 0])
    above = figure.add_subplot(grid[0, 0], sharex=field)
    beside = figure.add_subplot(grid[1, 1], sharey=field)
    colours = ListedColormap(["#ffffff", *COLOURS_OF.values()])
    edges = (0.5, rounds + 0.5, clients - 0.5, -0.5)
    field.imshow(
        states,
        cmap=colours,
        vmin=NOT,
        vmax=FAILED,
        extent=edges,
        aspect="auto",
        interpolation="nearest",
    )
    used = states == OK
    above.bar(np.arange(1, rounds + 1), used.sum(axis=0), width=1.0, color=COLOURS_OF[OK])
    beside.barh(np.arange(clients), used.sum(axis=1), height=0.8, color=COLOURS_OF[OK])
    for axes in (above, beside):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
    above.tick_params(labelbottom=False)
    beside.tick_params(labelleft=False)
    above.yaxis.set_major_locator(MaxNLocator(2, integer=True))
    beside.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    above.set_ylabel("clients", fontsize=7)
    beside.set_xlabel("rounds", fontsize=7)
    field.set_xlabel("round")
    field.xaxis.set_major_locator(MaxNLocator(integer=True))
    if clients <= MOST_NAMES:
        field.set_yticks(range(clients), [_short(name) for name in names], fontsize=7)
    else:
        field.set_yticks([])
        field.set_ylabel(f"{clients} clients")
    shown = [Patch(color=COLOURS_OF[c], label=w) for c, w in STATES.items() if (states == c).any()]
    figure.legend(handles=shown, frameon=False, loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _short(name: str, most: int = 20) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
