"""Drawings of the pages that are made of stored scores, as their tables are.

    python -m docs.drawings --check     # says which differ from the scores, exit code 1 if any does
    python -m docs.drawings --write     # draws those anew

Before such a picture its page has a comment, in TOML, which the site leaves out:

    <!-- drawing
    file = "fedrl/figure4-8.csv"                  # in docs/results
    x = "round"                                   # column of the scores, or a column and a pattern whose group is a number
    x-label = "thousand gradient steps"
    panels = { "success (%)" = "success-rate*100", "average reward" = "average-reward" }
    curves = { FedRL-1 = { file = "fedrl/figure4-8-sum.csv", method = "FedRL-1 (*" }, DQN-full = { method = "DQN-full (*" } }
    levels = { random = { method = "random" } }   # what does not depend on x
    marked = true                                 # x are a few chosen values, each with its own mark
    -->

    ![Success over the length of the history](figures/fedrl-history.png)

A curve chooses its lines of the scores as a row of a table does (tables.py); of several at one x it is their mean, with one
sample standard deviation on either side. The file keeps what it was made of, by its SHA-256: another version of matplotlib
makes other bytes of the same numbers, and those are no difference.
"""

import argparse
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image, PngImagePlugin

from docs import scores
from docs.scores import TableError, lines_of
from fedsuite.reports.plots import learning_curves
from fedsuite.storage.files import sha256_of

COMMENT = re.compile(
    r"^<!-- drawing\n(?P<about>.*?)-->\n\n?!\[[^\]]*\]\((?P<file>[^)]+\.png)\)$", re.M | re.S
)
BEGUN = "<!-- drawing\n"
KEPT = "Scores"  # the text of a PNG file that says what it was made of


class Drawing:
    """What a comment asks for."""

    def __init__(self, about: Mapping[str, Any], picture: Path) -> None:
        self.about, self.picture = about, picture
        self.metrics: dict[str, tuple[str, float]] = {}  # label -> column, factor
        for label, form in about["panels"].items():
            column, _, factor = form.partition("*")
            self.metrics[label] = column, float(factor or 1)
        self.curves = {name: self._points(choice) for name, choice in about["curves"].items()}
        self.levels = {
            name: [float(self._values(self._lines(choice), label).mean()) for label in self.metrics]
            for name, choice in about.get("levels", {}).items()
        }

    @property
    def made_of(self) -> str:
        """SHA-256 of all numbers and words in it."""
        # Versions of pandas differ in the last bits of a mean.
        points = {
            name: points.to_csv(index=False, float_format="%.9g")
            for name, points in self.curves.items()
        }
        levels = {name: [f"{x:.9g}" for x in values] for name, values in self.levels.items()}
        told = (self.about["x-label"], self.about.get("marked", False), points, levels)
        return sha256_of(repr(told).encode())

    @property
    def is_right(self) -> bool:
        """Whether the picture is there and was made of these."""
        if not self.picture.exists():
            return False
        with Image.open(self.picture) as image:
            return image.info.get(KEPT) == self.made_of

    def write(self) -> None:
        """Draw it."""
        with tempfile.TemporaryDirectory() as folder:
            drawn = Path(folder) / "drawn.png"
            learning_curves(
                self.curves,
                {label: label for label in self.metrics},
                drawn,
                x="x",
                x_label=self.about["x-label"],
                levels=self.levels,
                marked=self.about.get("marked", False),
            )
            text = PngImagePlugin.PngInfo()
            text.add_text(KEPT, self.made_of)
            with Image.open(drawn) as image:
                image.convert("RGB").save(self.picture, optimize=True, pnginfo=text)

    def _lines(self, choice: Mapping[str, Any]) -> pd.DataFrame:
        own = {"file": self.about.get("file", ""), **choice}
        lines = lines_of(own.pop("file"), own)
        if lines.empty:
            raise TableError(f"{self.picture.name}: no scores for {dict(choice)}")
        return lines

    def _values(self, lines: pd.DataFrame, label: str) -> pd.Series:
        column, factor = self.metrics[label]
        if column not in lines:
            raise TableError(f"{self.picture.name}: no column {column}")
        return lines[column].astype(float) * factor

    def _points(self, choice: Mapping[str, Any]) -> pd.DataFrame:
        """Columns x, and a metric for every panel under its label."""
        lines, x = self._lines(choice), self.about["x"]
        column, pattern = (x, "(.*)") if isinstance(x, str) else x
        at = lines[column].astype(str).str.extract(pattern, expand=False).astype(float)
        values = {label: self._values(lines, label) for label in self.metrics}
        return pd.DataFrame({"x": at, **values}).sort_values("x", kind="stable")


def drawings_of(page: Path) -> Iterator[Drawing]:
    """Those that a page asks for."""
    text = page.read_text(encoding="utf-8")
    found = list(COMMENT.finditer(text))
    if len(found) != text.count(BEGUN):
        raise TableError(f"{page.name}: a comment that asks for a drawing has no picture after it")
    for one in found:
        yield Drawing(tomllib.loads(one["about"]), page.parent / one["file"])


def main(typed: list[str] | None = None, pages: Path = scores.DOCS) -> int:
    """The command line, about the pages of a folder; returns its exit code."""
    parser = argparse.ArgumentParser(
        description="Drawings of the pages, and the scores they come from."
    )
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--check", action="store_true", help="say what differs from the scores")
    wanted.add_argument("--write", action="store_true", help="draw those that differ anew")
    write = parser.parse_args(typed).write
    number, differ = 0, 0
    for page in sorted(pages.glob("*.md")):
        try:
            for drawing in drawings_of(page):
                number += 1
                if drawing.is_right:
                    continue
                differ += 1
                done = "drawn anew" if write else "not what the scores say"
                print(f"docs/{page.name}: {drawing.picture.name} {done}")
                if write:
                    drawing.write()
        except (TableError, tomllib.TOMLDecodeError, OSError, KeyError, ValueError) as error:
            print(f"error: {page.name}: {error}", file=sys.stderr)
            return 2
    print(f"{number} drawings; {differ} {'drawn anew' if write else 'differ'}")
    return 1 if differ and not write else 0


if __name__ == "__main__":
    sys.exit(main())
