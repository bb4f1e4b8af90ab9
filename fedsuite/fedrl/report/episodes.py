"""A played episode as text, as a drawing, and as an animation that goes round for ever."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from fedsuite.errors import InputError
from fedsuite.fedrl.episode import Episode
from fedsuite.fedrl.gridworld.episode import GridEpisode
from fedsuite.fedrl.report.grid_pictures import grid_lines, grid_still
from fedsuite.fedrl.report.text_pictures import text_lines, text_still
from fedsuite.fedrl.text2action.episode import TextEpisode
from fedsuite.storage.files import write_atomically

FRAMES_PER_S = 2.5
END_S = 2.5  # how long the last frame stays
MOST_FRAMES = 100  # of longer episodes only every second, third, ... step is a frame
_COLOURS, _DOTS_PER_INCH = 64, 80


def lines_of(episode: Episode) -> list[str]:
    """Steps and end, as text."""
    if isinstance(episode, GridEpisode):
        return grid_lines(episode)
    assert isinstance(episode, TextEpisode)
    return text_lines(episode)


def still(episode: Episode, step: int | None = None) -> Figure:
    """The episode at step `step` (from 0); None: at its end. InputError if there is no such step."""
    if step is not None and not 0 <= step < len(episode.steps):
        raise InputError(
            f"step: episode {episode.number} has steps 0 to {len(episode.steps) - 1}, got {step}"
        )
    if isinstance(episode, GridEpisode):
        return grid_still(episode, step)
    assert isinstance(episode, TextEpisode)
    return text_still(episode, step)


def shown_steps(count: int) -> list[int]:
    """Steps of an episode of `count` that are frames of its animation."""
    return list(range(0, count, -(-count // MOST_FRAMES)))


def write_animation(episode: Episode, file: Path) -> None:
    """A GIF, 2.5 frames a second, that begins again when it is over."""
    images = [_drawn(figure) for figure in _frames(episode)]
    # One table of colours for all frames, of a few of them, so that nothing flickers.
    sample = np.concatenate([np.asarray(images[i]) for i in (0, len(images) // 2, -1)])
    table = Image.fromarray(sample).quantize(_COLOURS)
    small = [image.quantize(palette=table, dither=Image.Dither.NONE) for image in images]
    step_ms, end_ms = round(1000 / FRAMES_PER_S), round(1000 * END_S)
    durations = [step_ms] * (len(small) - 1) + [end_ms]
    out = io.BytesIO()
    small[0].save(
        out, "GIF", save_all=True, append_images=small[1:], duration=durations, loop=0, optimize=False
    )  # fmt: skip
    write_atomically(file, out.getvalue(), durable=False)


def _frames(episode: Episode) -> Iterator[Figure]:
    for step in shown_steps(len(episode.steps)):
        yield still(episode, step)
    yield still(episode)


def _drawn(figure: Figure) -> Image.Image:
    figure.set_dpi(_DOTS_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())
