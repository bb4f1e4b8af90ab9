"""Stored scores (docs/results), and numbers made of them by a form: what tables.py and sentences.py compare pages with.

A form has fields {metric*factor:format}: the mean of the lines, with ± their sample standard deviation if there are several.
With !mean it is the mean alone, with !each every value by seed and fold, with !slash the same with strokes, with !of the
mean of those that are there, and how many. {n} is the number of lines.

Of two choices of lines a field is the mean of the differences, first less second, paired by seed and fold; with !ends it is
the 95 % interval of that mean (fedsuite/history/paired.py). Of one choice `over` another, lines are quotients, paired so.
"""

import json
import re
import tomllib
from collections.abc import Callable, Hashable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsuite.history.paired import paired

DOCS = Path(__file__).resolve().parent
FIELD = re.compile(r"\{([\w. -]+?)(?:\*(-?[\d.]+))?(?::([^}!]*))?(?:!(mean|each|slash|of|ends))?\}")
BESIDE = {"each": ", ", "slash": " / "}
ORDER = ("seed", "fold")


class TableError(ValueError):
    """A comment that does not fit its table, its text or its scores."""


def about_of(comment: str) -> dict[str, Any]:
    """What a comment says: itself in TOML, or `from = "FILE.toml#NAME"`, a table in a file of docs/results."""
    about = tomllib.loads(comment)
    if "from" not in about:
        return about
    file, _, name = str(about["from"]).partition("#")
    kept = tomllib.loads((DOCS / "results" / file).read_text(encoding="utf-8"))
    if name not in kept:
        raise TableError(f"{file} has no table [{name}]; it has {', '.join(kept)}")
    return dict(kept[name])


def read_scores(file: str) -> str:
    """A file of docs/results without the remarks that it may open with, lines that begin with #."""
    lines = (DOCS / "results" / file).read_text(encoding="utf-8").splitlines(keepends=True)
    first = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join(lines[first:])


@cache
def scores_of(file: str) -> pd.DataFrame:
    """The same as a table."""
    text = read_scores(file)
    if file.endswith(".jsonl"):
        return pd.DataFrame(map(json.loads, text.splitlines()))
    return pd.read_csv(StringIO(text))


def lines_of(file: str | list[str], choice: Mapping[str, Any]) -> pd.DataFrame:
    """Lines of the scores that a cell is about, by seed and fold."""
    files = (file,) if isinstance(file, str) else tuple(file)
    wanted = ((k, tuple(map(str, v if isinstance(v, list) else [v]))) for k, v in choice.items())
    return _lines(files, tuple(wanted), scores_of)


@cache
def _lines(
    files: tuple[str, ...],
    choice: tuple[tuple[str, tuple[str, ...]], ...],
    scores: Callable[[str], pd.DataFrame],
) -> pd.DataFrame:
    table = pd.concat([scores(file) for file in files], ignore_index=True)
    for column, wanted in choice:
        if column not in table:
            raise TableError(f"{', '.join(files)}: no column {column}")
        meant = [any(fnmatchcase(str(v), w) for w in wanted) for v in table[column]]
        table = table.loc[np.array(meant, bool)]
    return table.sort_values([c for c in ORDER if c in table])


def number_of(entry: Mapping[str, Any]) -> str:
    """An entry's `form` with the numbers of the lines that it chooses in `file`, or with what these have more than those of
    `less`, or with their quotients by those of `over`; "" where there are no such lines."""
    choice = dict(entry)
    form, file = choice.pop("form"), choice.pop("file")
    less, over = choice.pop("less", None), choice.pop("over", None)
    lines = lines_of(file, choice)
    if less is None and over is None:
        return shown(form, lines)
    choice = {"file": file, **(less or over)}
    others = lines_of(choice.pop("file"), choice)
    if lines.empty or others.empty:
        return ""
    return apart(form, lines, others) if less else shown(form, quotients(form, lines, others))


def shown(form: str, lines: pd.DataFrame) -> str:
    """A form with the numbers of these lines; "" where there are none."""
    found = ""
    if lines.empty:
        return found
    for text, metric, factor, style, kind in _parts(form):
        found += text
        if metric == "n":
            found += str(len(lines))
        elif metric:
            values = _values(lines, metric, factor)
            there = values.dropna()
            if there.empty or (len(there) < len(values) and kind != "of"):
                return ""
            if kind in BESIDE:
                found += BESIDE[kind].join(f"{v:{style}}" for v in values)
            else:
                spread = f" ± {there.std():{style}}" if len(there) > 1 and kind != "mean" else ""
                part = f" ({len(there)} of {len(values)})" if len(there) < len(values) else ""
                found += f"{there.mean():{style}}{spread}{part}"
    return found


def apart(form: str, first: pd.DataFrame, second: pd.DataFrame) -> str:
    """A form with the differences of these lines, paired; an interval that reaches below 0 has signs."""
    found = ""
    for text, metric, factor, style, kind in _parts(form):
        found += text
        if metric:
            pair = paired(_by_draw(first, metric, factor), _by_draw(second, metric, factor))
            if pair.n == 0:
                raise TableError(f"no two lines of one seed and fold for {form}")
            sign = "+" if pair.low < 0 else ""
            bare = style.lstrip("+")
            ends = f"{pair.low:{sign}{bare}} to {pair.high:{sign}{bare}}"
            found += ends if kind == "ends" else f"{pair.mean:{style}}"
    return found


def quotients(form: str, first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """The form's metrics of these lines, divided by the other ones', of seeds and folds that both have."""
    found = {}
    for metric in {part[1] for part in _parts(form)} - {"", "n"}:
        above, below = (_by_draw(lines, metric, "") for lines in (first, second))
        found[metric] = [above[key] / below[key] for key in above if key in below]
    return pd.DataFrame(found)


def _values(lines: pd.DataFrame, metric: str, factor: str) -> pd.Series:
    if metric not in lines:
        raise TableError(f"no column {metric}")
    return lines[metric].astype(float) * float(factor or 1)


def _by_draw(lines: pd.DataFrame, metric: str, factor: str) -> dict[Hashable, float]:
    """The metric by seed and fold."""
    columns = [lines[name].fillna(0) for name in ORDER if name in lines]
    keys = list(zip(*columns, strict=True))
    if len(set(keys)) < len(keys):
        raise TableError(f"several lines of one seed and fold, for {metric}")
    return dict(zip(keys, _values(lines, metric, factor), strict=True))


def _parts(form: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Text, and the field after it: metric, factor, format, kind."""
    end = 0
    for field in FIELD.finditer(form):
        yield form[end : field.start()], *(part or "" for part in field.groups())  # type: ignore[misc]
        end = field.end()
    yield form[end:], "", "", "", ""
