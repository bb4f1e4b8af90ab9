"""Tables and sentences of the pages whose numbers are those of stored scores.

    python -m docs.tables --check     # says which cells and sentences differ, exit code 1 if any does
    python -m docs.tables --write     # puts the scores' numbers into the tables; sentences are for you to change

Before such a table its page has a comment, in TOML, which the site leaves out; sentences.py has that of a sentence:

    <!-- scores
    file = "fedrl/table1-8.csv"          # in docs/results; several: a list
    keys = { method = "method" }         # column of the page -> column of the scores: what chooses a row's lines
    names = { "FedRL-1, sum" = { file = "fedrl/table1-8-sum.csv", method = "FedRL-1" } }
    cells = ["", "", "{success-rate*100:.1f}"]
    beside = "fedrl/table1-8.page.csv"
    -->

A cell of the page says which lines of the scores are meant; `names` says it for cells that are written otherwise there,
with `file = ""` that no scores of a row were kept, with `left` for which of its columns, with `own` cells of that row
alone, by column. A key may be a list: a column, and a text with {} for the cell. `where` chooses lines for the whole
table. `cells` has an entry for each column of the page: "" for a column that is not made of scores, "words" for one of
sentences, whose numbers are not checked, a form (scores.py), or a table with `form` and a choice of its own; with `less`
= { variant = "other" } the cell is what the lines chosen have more than those, paired, and with `over` their quotient. What
is chosen may be a pattern with *, and a list of several; @NAME in it is what the row chooses under that name.

`beside` is a table like the page's, whose cells are what is not made of scores: published numbers, and those of runs of
which nothing else was kept. Its first lines, with #, say where they come from. Without `cells` the whole table is this one.
A number that neither has is an error.

A cell for which there are no scores has no number; one of words alone, bold type and a remark in brackets are left as they
are.
"""

import argparse
import csv
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from docs import scores
from docs.scores import TableError, number_of, read_scores
from docs.sentences import NUMBERS, missing

COMMENT = re.compile(r"^<!-- scores\n(.*?)-->\n\n?", re.MULTILINE | re.DOTALL)
REMARK = re.compile(r" \([^\d)]*\)$")
NUMBER, WORD = re.compile(r"\d"), re.compile(r"[^\W\d_]{3}")


@dataclass(frozen=True)
class Difference:
    """page, line (from 1): where; found: what the page has, "" in a sentence; told: what the scores say."""

    page: str
    line: int
    found: str
    told: str

    def __str__(self) -> str:
        has = f"{self.found!r}, the scores say" if self.found else "the text after it has no"
        return f"docs/{self.page}:{self.line}: {has} {self.told!r}"


@cache
def beside_of(file: str) -> list[list[str]]:
    """Titles and rows of a table that goes beside the scores."""
    return list(csv.reader(read_scores(file).splitlines()))


def cells_of(line: str) -> list[str]:
    """What a row of a page has, by column."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@dataclass(frozen=True)
class Table:
    """A table of a page. lines: of the page, its rows; first: number of the first, from 0; header: titles of its columns."""

    about: Mapping[str, Any]
    header: list[str]
    lines: list[str]
    first: int

    def told(self, line: str, number: int) -> list[str]:
        """A row, the number-th of the table, as the scores have it."""
        cells = cells_of(line)
        forms = self.about.get("cells", [""] * len(self.header))
        if len(forms) != len(self.header) or len(cells) != len(self.header):
            raise TableError(
                f"{len(forms)} forms and {len(cells)} cells for {len(self.header)} columns"
            )
        row: dict[str, Any] = {"file": self.about.get("file", ""), **self.about.get("where", {})}
        for title, key in self.about.get("keys", {}).items():
            name = cells[self.header.index(title)].replace("**", "")
            column, pattern = (key, "{}") if isinstance(key, str) else key
            row |= self.about.get("names", {}).get(name, {column: pattern.format(name)})
        left, own = row.pop("left", []), row.pop("own", {})
        beside = self._beside(cells[0], number)
        found = []
        for title, form, cell, kept in zip(self.header, forms, cells, beside, strict=True):
            names = title == self.header[0] or title in self.about.get("keys", {})
            made = "" if title in left else own.get(title, form)
            told = kept or (cell if names and not made else self._cell(made, cell, row))
            if told is None:
                raise TableError(f"{cell!r} is neither made of scores nor kept beside them")
            found.append(told)
        return found

    def _beside(self, name: str, number: int) -> list[str]:
        if "beside" not in self.about:
            return [""] * len(self.header)
        file = self.about["beside"]
        titles, *rows = beside_of(file)
        if titles != self.header or len(rows) != len(self.lines) or rows[number][0] != name:
            raise TableError(f"{file}: other columns or rows than the page's")
        return rows[number]

    def _cell(self, form: str | Mapping[str, Any], cell: str, row: Mapping[str, Any]) -> str | None:
        """What the cell should be; None for a number that nothing tells."""
        remark = REMARK.search(cell)
        text = cell.replace("**", "").removesuffix(remark[0] if remark else "")
        choice = {**row, **({"form": form} if isinstance(form, str) else form)}
        if form == "words" or (WORD.search(text) and not NUMBER.search(text)):
            return cell
        if not form or choice["file"] == "":
            return None if NUMBER.search(text) else cell
        for name in [name for name in choice if name.startswith("@")]:
            value = choice.pop(name)
            choice = _filled(choice, name, value)
        found = number_of(choice) or ("-" if NUMBER.search(text) else text)
        if found == text:
            return cell
        return f"**{found}**" if cell.startswith("**") and cell.endswith("**") else found


def _filled(choice: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    """A choice with a value for @NAME, in those that it takes away as well."""
    return {
        k: _filled(v, name, value)
        if isinstance(v, Mapping)
        else v.replace(name, value)
        if isinstance(v, str)
        else v
        for k, v in choice.items()
    }


def tables_of(text: str) -> Iterator[Table]:
    """The tables of a page that have a comment."""
    for comment in COMMENT.finditer(text):
        about = scores.about_of(comment[1])
        first = text.count("\n", 0, comment.end())
        rows = []
        for line in text[comment.end() :].split("\n"):
            if not line.startswith("|"):
                break
            rows.append(line)
        if len(rows) < 3:
            raise TableError(f"line {first}: no table after the comment")
        yield Table(about, cells_of(rows[0]), rows[2:], first + 2)


def written(page: str, text: str) -> tuple[str, list[Difference]]:
    """The page with the scores' numbers in its tables, and where it had others."""
    lines, found = text.split("\n"), []
    for table in tables_of(text):
        for number, line in enumerate(table.lines):
            at = table.first + number
            try:
                told = table.told(line, number)
            except TableError as error:
                raise TableError(f"docs/{page}:{at + 1}: {error}") from None
            pairs = list(zip(cells_of(line), told, strict=True))
            found += [Difference(page, at + 1, *pair) for pair in pairs if pair[0] != pair[1]]
            if any(a != b for a, b in pairs):
                lines[at] = "| " + " | ".join(told) + " |"
    found += [Difference(page, line, "", told) for line, told in missing(text)]
    return "\n".join(lines), found


def main(typed: list[str] | None = None) -> int:
    """The command line; returns its exit code."""
    parser = argparse.ArgumentParser(
        description="Tables and sentences of the pages, and the scores they come from."
    )
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--check", action="store_true", help="say what differs from the scores")
    wanted.add_argument(
        "--write", action="store_true", help="put the scores' numbers into the tables"
    )
    write = parser.parse_args(typed).write
    tables, sentences, differ = 0, 0, []
    for path in sorted([*scores.DOCS.glob("*.md"), scores.DOCS.parent / "README.md"]):
        text = path.read_text(encoding="utf-8")
        try:
            new, found = written(path.name, text)
        except (TableError, tomllib.TOMLDecodeError, OSError, KeyError) as error:
            print(f"error: {path.name}: {error}", file=sys.stderr)
            return 2
        tables += len(COMMENT.findall(text))
        sentences += len(NUMBERS.findall(text))
        differ += found
        if write and new != text:
            path.write_text(new, encoding="utf-8")
    for difference in differ:
        print(difference)
    done = "written anew, but for sentences" if write else "differ"
    print(f"{tables} tables, {sentences} texts with numbers; {len(differ)} {done}")
    return 1 if any(not write or not d.found for d in differ) else 0


if __name__ == "__main__":
    sys.exit(main())
