"""Drawing of instructions: which verbs generated ones use, beside human ones, as Figure 4 of FedVLN (Zhou & Wang 2022)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedsuite.errors import InputError
from fedsuite.report.plots import COLOURS, blank_figure, save_figure

MOST_VERBS = 15
_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "---", "++")
_GROUP_WIDTH = 0.8


def verbs_plot(
    frequencies: Mapping[str, Mapping[str, float]], path: Path, *, most: int = MOST_VERBS
) -> None:
    """Bars side by side. frequencies: label -> verb -> uses per instruction; the `most` with the largest sums are drawn."""
    verbs = common_verbs(frequencies, most)
    if not verbs:
        raise InputError("no verbs to draw; give instructions that use some of the known ones")
    if len(frequencies) > len(COLOURS):
        raise InputError(
            f"{len(frequencies)} sets of instructions to draw, at most {len(COLOURS)} can be told apart; draw fewer"
        )
    figure, axes = blank_figure(9.0, 3.6)
    places, width = np.arange(len(verbs)), _GROUP_WIDTH / len(frequencies)
    for number, (label, uses) in enumerate(frequencies.items()):
        axes.bar(
            places + (number - (len(frequencies) - 1) / 2) * width,
            [uses.get(v, 0.0) for v in verbs],
            width,
            color=COLOURS[number],
            hatch=_HATCHES[number],
            edgecolor="white",
            label=label,
        )
    axes.set_xticks(places, verbs, rotation=40, ha="right")
    axes.grid(visible=False, axis="x")
    axes.set_axisbelow(True)
    axes.set_ylabel("uses per instruction")
    axes.legend(frameon=False)
    save_figure(figure, path)


def common_verbs(frequencies: Mapping[str, Mapping[str, float]], most: int) -> list[str]:
    """The verbs with the largest sums over all sets, largest first."""
    sums: dict[str, float] = {}
    for uses in frequencies.values():
        for verb, value in uses.items():
            sums[verb] = sums.get(verb, 0.0) + value
    return sorted(sums, key=lambda verb: (-sums[verb], verb))[:most]
