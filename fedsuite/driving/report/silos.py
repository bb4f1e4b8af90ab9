"""Drawings of driving silos: how their steering angles are distributed, and what their cameras see."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fedsuite.driving.data.frames import Silo
from fedsuite.reports.plots import COLOURS, save_figure

_COLUMNS = 4
_BINS = 41


def plot_steering(silos: Sequence[Silo], path: Path) -> None:
    """A histogram of the training angles of every silo, all on one axis of angles, beside that of their union."""
    rows = -(-(len(silos) + 1) // _COLUMNS)
    figure = Figure(figsize=(2.2 * _COLUMNS, 1.5 * rows), layout="constrained")
    panels = figure.subplots(rows, _COLUMNS, squeeze=False, sharex=True).ravel()
    for unused in panels[len(silos) + 1 :]:
        unused.set_axis_off()
    union = np.concatenate([s.train.angles for s in silos])
    limit = float(np.abs(union).max()) or 1.0
    bins = np.linspace(-limit, limit, _BINS)
    parts = [("all silos", union, COLOURS[-1])]
    parts += [(s.name, np.asarray(s.train.angles), COLOURS[0]) for s in silos]
    for axes, (name, angles, colour) in zip(panels, parts, strict=False):
        axes.hist(angles, bins=bins, weights=np.full(len(angles), 1 / len(angles)), color=colour)
        axes.set_title(f"{name}: {angles.mean():+.2f} ± {angles.std():.2f}", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("steering angle, left positive", fontsize=9)
    figure.supylabel("share of frames", fontsize=9)
    save_figure(figure, path)


def plot_frames(silos: Sequence[Silo], path: Path, per_silo: int = 4) -> None:
    """Some training frames of every silo, one row a silo, with their angles."""
    figure = Figure(figsize=(1.6 * per_silo, 1.75 * len(silos)), layout="constrained")
    grid = figure.subplots(len(silos), per_silo, squeeze=False)
    for row, silo in zip(grid, silos, strict=True):
        chosen = np.linspace(0, len(silo.train) - 1, per_silo).astype(int)
        for axes, i in zip(row, chosen, strict=True):
            image = np.moveaxis(silo.train.images[i], 0, -1)
            axes.imshow(
                image if image.shape[-1] == 3 else image[..., 0], cmap="gray", vmin=0, vmax=255
            )
            axes.set_title(f"{silo.train.angles[i]:+.2f}", fontsize=8)
            axes.set_xticks([])
            axes.set_yticks([])
        row[0].set_ylabel(silo.name, fontsize=8)
    save_figure(figure, path)
