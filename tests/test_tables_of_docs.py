"""Tables of the docs are made of stored scores: none differs, and a digit that is changed in either does not pass."""

import csv
import statistics
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from docs import tables
from docs.tables import TableError, lines_of, scores_of, shown, tables_of, written
from tests.harness import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MADE = {
    page: text for page in PAGES if "<!-- scores\n" in (text := page.read_text(encoding="utf-8"))
}
SUM = ROOT / "docs" / "results" / "fedrl" / "table1-16-sum.csv"
PAGE = """Scores:

<!-- scores
file = "fedrl/table1-16-sum.csv"
keys = { method = "method" }
names = { kept = { file = "" } }
cells = ["", "{n}", "{success-rate*100:.1f}", "{success-rate:.2f!each}"]
-->

| method | seeds | success | by seed |
|---|---:|---:|---|
| FedRL-1 | 3 | **50.2 ± 1.6** | 0.51, 0.48, 0.51 |
| FedRL-9 | - | none kept | - |
| kept | 7 | 7.0 | 7 |
"""


@pytest.mark.slow
def test_every_page_is_as_its_scores_say() -> None:
    differ = [str(d) for page, text in MADE.items() for d in written(page.name, text)[1]]
    assert differ == []
    assert sum(len([*tables_of(text)]) for text in MADE.values()) >= 40


def cells_with_scores() -> Iterator[tuple[Path, int, int]]:
    """Page, row of the page and column of one cell of every column that is made of scores."""
    for page, text in MADE.items():
        for table in tables_of(text):
            for column, form in enumerate(table.about["cells"]):
                for number, line in enumerate(table.lines, table.first):
                    cell = table.cells(line)[column]
                    if form and any(c.isdigit() for c in cell) and changed(table, line, column):
                        yield page, number, column
                        break


def changed(table: tables.Table, line: str, column: int) -> bool:
    """Whether a row is made of scores: another number in that cell is put right."""
    cells = table.cells(line)
    cells[column] = "98765"
    return table.told(" | ".join(cells))[column] != "98765"


def test_a_changed_digit_of_a_page_is_found_in_every_column() -> None:
    found = [*cells_with_scores()]
    assert len(found) > 200
    for page, text in MADE.items():
        lines = text.split("\n")
        _, number, column = next(cell for cell in found if cell[0] == page)
        cells = [cell.strip() for cell in lines[number].strip().strip("|").split("|")]
        digit = next(c for c in cells[column] if c.isdigit())
        cells[column] = cells[column].replace(digit, str((int(digit) + 1) % 10), 1)
        lines[number] = "| " + " | ".join(cells) + " |"
        new, differ = written(page.name, "\n".join(lines))
        assert [d.line for d in differ] == [number + 1]
        assert differ[0].told in text.split("\n")[number]
        assert [*tables_of(new)] == [*tables_of(text)]


def test_changed_scores_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "fedrl/table1-16-sum.csv",
        "fedvln/train.csv",
        "cdl/group-norm.csv",
        "hostile/roads.jsonl",
    }

    def other(file: str) -> pd.DataFrame:
        table = scores_of(file).copy()
        for name in ("success-rate", "val_unseen.sr", "rmse"):
            if name in table and file in files:
                table[name] += 0.1
        return table

    monkeypatch.setattr(tables, "scores_of", other)
    for page in ("fedrl.md", "fedvln-results.md", "cdl.md", "robustness.md"):
        assert len(written(page, MADE[ROOT / "docs" / page])[1]) >= 4


def test_means_and_spreads_are_those_of_the_lines() -> None:
    with SUM.open(newline="") as file:
        rates = [
            100 * float(r["success-rate"]) for r in csv.DictReader(file) if r["method"] == "FedRL-1"
        ]
    told = f"{statistics.mean(rates):.1f} ± {statistics.stdev(rates):.1f}"
    assert (
        shown("{success-rate*100:.1f}", lines_of("fedrl/table1-16-sum.csv", {"method": "FedRL-1"}))
        == told
    )
    new, differ = written("page.md", PAGE.replace("**50.2 ± 1.6**", "**49.0**"))
    assert [(d.line, d.found, d.told) for d in differ] == [(12, "**49.0**", f"**{told}**")]
    assert new == PAGE


def test_a_cell_without_scores_has_no_number() -> None:
    _, differ = written("page.md", PAGE.replace("| FedRL-9 | - |", "| FedRL-9 | 3 |"))
    assert [(d.found, d.told) for d in differ] == [("3", "-")]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('keys = { method = "method" }', 'keys = { method = "methode" }', "no column methode"),
        ("{success-rate*100:.1f}", "{success*100:.1f}", "no column success"),
        ('cells = ["", ', "cells = [", "3 forms"),
        ("\n-->\n\n", "\n-->\n\ntext\n\n", "no table"),
    ],
)
def test_a_comment_that_does_not_fit_is_refused(old: str, new: str, told: str) -> None:
    assert old in PAGE
    with pytest.raises(TableError, match=told):
        written("page.md", PAGE.replace(old, new))


def test_the_command_says_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "results").symlink_to(ROOT / "docs" / "results")
    page, top = docs / "page.md", tmp_path / "README.md"
    page.write_text(PAGE.replace("0.48", "0.47"), encoding="utf-8")
    top.write_text("nothing\n", encoding="utf-8")
    monkeypatch.setattr(tables, "DOCS", docs)
    assert tables.main(["--check"]) == 1
    assert "docs/page.md:12" in capsys.readouterr().out
    assert tables.main(["--write"]) == 0
    assert tables.main(["--check"]) == 0
    assert (
        page.read_text(encoding="utf-8") == PAGE and top.read_text(encoding="utf-8") == "nothing\n"
    )
