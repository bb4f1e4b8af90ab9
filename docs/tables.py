"""Tables of the pages whose numbers are those of stored scores.

    python -m docs.tables --check     # says which cells differ, exit code 1 if any does
    python -m docs.tables --write     # puts the scores' numbers into the pages

Before such a table its page has a comment, in TOML, which the site leaves out:

    <!-- scores
    file = "fedrl/table1-8.csv"          # in docs/results; several: a list
    keys = { method = "method" }         # column of the page -> column of the scores: what chooses a row's lines
    names = { "FedRL-1, sum" = { file = "fedrl/table1-8-sum.csv", method = "FedRL-1" } }
    cells = ["", "", "{success-rate*100:.1f}"]
    -->

A cell of the page says which lines of the scores are meant; `names` says it for cells that are written otherwise there, with
`file = ""` that no scores of a row were kept, with `left` which of its columns are left as they are. A key may be a list: a
column, and a text with {} for the cell.
`where` chooses lines for the whole table. `cells` has an entry for each column of the page: "" for a column that is left as
it is, a form, or a table with `form` and a choice of its own. What is chosen may be a pattern with *, and a list of several.

A form has fields {metric*factor:format}: the mean of the lines, with ± their sample standard deviation if there are several.
With !mean it is the mean alone, with !each every value by seed and fold, with !slash the same with strokes, with !of the
mean of those that are there, and how many. {n} is the number of lines, @NAME what the row chooses under that name.

A cell for which there are no scores has no number; one of words alone, bold type and a remark in brackets are left as they
are.
"""

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

DOCS = Path(__file__).resolve().parent
COMMENT = re.compile(r"^<!-- scores\n(.*?)^-->\n\n?", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"\{([\w. -]+?)(?:\*(-?[\d.]+))?(?::([^}!]*))?(?:!(mean|each|slash|of))?\}")
REMARK = re.compile(r" \([^\d)]*\)$")
NUMBER, WORD = re.compile(r"\d"), re.compile(r"[^\W\d_]{3}")
BESIDE = {"each": ", ", "slash": " / "}
ORDER = ("seed", "fold")


class TableError(ValueError):
    """A comment that does not fit its table or its scores."""


@dataclass(frozen=True)
class Difference:
    """page, line (from 1): where; found: what the page has; told: what the scores say."""

    page: str
    line: int
    found: str
    told: str

    def __str__(self) -> str:
        return f"docs/{self.page}:{self.line}: {self.found!r}, the scores say {self.told!r}"


@cache
def scores_of(file: str) -> pd.DataFrame:
    """A file of docs/results."""
    path = DOCS / "results" / file
    if path.suffix == ".jsonl":
        return pd.DataFrame(map(json.loads, path.read_text(encoding="utf-8").splitlines()))
    return pd.read_csv(path)


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
            if metric not in lines:
                raise TableError(f"no column {metric}")
            values = lines[metric].astype(float) * float(factor or 1)
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


def _parts(form: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Text, and the field after it: metric, factor, format, kind."""
    end = 0
    for field in FIELD.finditer(form):
        yield form[end : field.start()], *(part or "" for part in field.groups())  # type: ignore[misc]
        end = field.end()
    yield form[end:], "", "", "", ""


@dataclass(frozen=True)
class Table:
    """A table of a page. lines: of the page, its rows; first: number of the first, from 0; header: titles of its columns."""

    about: Mapping[str, Any]
    header: list[str]
    lines: list[str]
    first: int

    def cells(self, line: str) -> list[str]:
        """What a row of the page has, by column."""
        return [cell.strip() for cell in line.strip().strip("|").split("|")]

    def told(self, line: str) -> list[str]:
        """The row as the scores have it."""
        cells = self.cells(line)
        forms = self.about["cells"]
        if len(forms) != len(self.header) or len(cells) != len(self.header):
            raise TableError(
                f"{len(forms)} forms and {len(cells)} cells for {len(self.header)} columns"
            )
        row: dict[str, Any] = {"file": self.about["file"], **self.about.get("where", {})}
        for title, key in self.about.get("keys", {}).items():
            name = cells[self.header.index(title)].replace("**", "")
            column, pattern = (key, "{}") if isinstance(key, str) else key
            row |= self.about.get("names", {}).get(name, {column: pattern.format(name)})
        left = row.pop("left", [])
        return [
            cell if title in left else self._cell(form, cell, row)
            for title, form, cell in zip(self.header, forms, cells, strict=True)
        ]

    def _cell(self, form: str | Mapping[str, Any], cell: str, row: Mapping[str, Any]) -> str:
        remark = REMARK.search(cell)
        text = cell.replace("**", "").removesuffix(remark[0] if remark else "")
        words = WORD.search(text) and not NUMBER.search(text)
        if not form or row["file"] == "" or words:
            return cell
        choice = {**row, **({"form": form} if isinstance(form, str) else form)}
        for name in [name for name in choice if name.startswith("@")]:
            value = choice.pop(name)
            choice = {
                k: v.replace(name, value) if isinstance(v, str) else v for k, v in choice.items()
            }
        told, file = choice.pop("form"), choice.pop("file")
        found = shown(told, lines_of(file, choice)) or ("-" if NUMBER.search(text) else text)
        if found == text:
            return cell
        return f"**{found}**" if cell.startswith("**") and cell.endswith("**") else found


def tables_of(text: str) -> Iterator[Table]:
    """The tables of a page that have a comment."""
    for comment in COMMENT.finditer(text):
        about = tomllib.loads(comment[1])
        first = text.count("\n", 0, comment.end())
        rows = []
        for line in text[comment.end() :].split("\n"):
            if not line.startswith("|"):
                break
            rows.append(line)
        if len(rows) < 3:
            raise TableError(f"line {first}: no table after the comment")
        header = [cell.strip() for cell in rows[0].strip().strip("|").split("|")]
        yield Table(about, header, rows[2:], first + 2)


def written(page: str, text: str) -> tuple[str, list[Difference]]:
    """The page with the scores' numbers, and where it had others."""
    lines, found = text.split("\n"), []
    for table in tables_of(text):
        for number, line in enumerate(table.lines, table.first):
            try:
                told = table.told(line)
            except TableError as error:
                raise TableError(f"docs/{page}:{number + 1}: {error}") from None
            pairs = list(zip(table.cells(line), told, strict=True))
            found += [Difference(page, number + 1, *pair) for pair in pairs if pair[0] != pair[1]]
            if any(a != b for a, b in pairs):
                lines[number] = "| " + " | ".join(told) + " |"
    return "\n".join(lines), found


def main(typed: list[str] | None = None) -> int:
    """The command line; returns its exit code."""
    parser = argparse.ArgumentParser(
        description="Tables of the pages, and the scores they come from."
    )
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument(
        "--check", action="store_true", help="say which cells differ from the scores"
    )
    wanted.add_argument(
        "--write", action="store_true", help="put the scores' numbers into the pages"
    )
    write = parser.parse_args(typed).write
    count, differ = 0, []
    for path in sorted([*DOCS.glob("*.md"), DOCS.parent / "README.md"]):
        text = path.read_text(encoding="utf-8")
        try:
            new, found = written(path.name, text)
        except (TableError, tomllib.TOMLDecodeError, OSError, KeyError) as error:
            print(f"error: {path.name}: {error}", file=sys.stderr)
            return 2
        count += len(COMMENT.findall(text))
        differ += found
        if write and new != text:
            path.write_text(new, encoding="utf-8")
    for difference in differ:
        print(difference)
    print(f"{count} tables, {len(differ)} cells {'written anew' if write else 'differ'}")
    return 1 if differ and not write else 0


if __name__ == "__main__":
    sys.exit(main())
