"""The pictures that a run left when its data were at hand: walks through a house, frames and angles, who mixes with whom."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.model import Figure, Section
from fedsuite.reports.page.results import lines_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

MOST_LINES = 2  # whose pictures are shown, of the first run that has them
MOST_PIXELS, DOTS_PER_INCH = 12_000_000, 150
NOTE = "They show the data of the run: look at them before you hand the page on."


def pictures_section(digests: Sequence[Digest]) -> Section:
    """Files that systems name; those that are damaged or very large, or shown already, are named in their place."""
    firsts = [
        next(
            (d for d in own if any((d.place.folder / n).is_file() for n in d.answers.pictures)),
            None,
        )
        for own in lines_of(digests).values()
    ]
    figures, left, shown = [], [], dict[bytes, str]()
    for digest in [d for d in firsts if d][:MOST_LINES]:
        for name, what in digest.answers.pictures.items():
            file = digest.place.folder / name
            if not file.is_file():
                continue
            title = f"{what}, {digest.place.label}"
            if reason := _unfit(file):
                left.append(f"{name} of {digest.place.label} is left out: {reason}.")
            elif (same := shown.setdefault(file.read_bytes(), title)) != title:
                left.append(f"{title}: the same as {same}.")
            else:
                draw = partial(_draw, file)
                figures.append(
                    Figure(f"picture-{file.stem}", title, f"Picture. {title}.", draw, on_paper=True)
                )
    text = [NOTE] if figures else []
    return Section("Pictures", (*text, *left), figures=tuple(figures))


def _unfit(file: Path) -> str:
    """Why a file is not shown; "" for a picture. Its pixels are not read."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file, formats=("PNG",)) as picture:
            width, height = picture.size
            picture.verify()
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError, Image.DecompressionBombError):
        return "it is no PNG, or a damaged one"
    return f"{width} x {height} pixels are too many" if width * height > MOST_PIXELS else ""


def _draw(file: Path) -> "Drawing":
    """The picture alone, in its own size."""
    import numpy as np
    from matplotlib.figure import Figure as Drawing
    from PIL import Image

    with Image.open(file, formats=("PNG",)) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    height, width, _ = pixels.shape
    figure = Drawing(figsize=(width / DOTS_PER_INCH, height / DOTS_PER_INCH), dpi=DOTS_PER_INCH)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.imshow(pixels, aspect="auto", interpolation="none")
    return figure
