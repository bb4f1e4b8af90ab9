"""Tables of the docs are made of stored scores: none differs, and a digit that is changed in either does not pass."""

import csv
import re
import statistics
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from docs import scores, tables
from docs.scores import TableError, lines_of, scores_of, shown
from docs.tables import beside_of, cells_of, tables_of, written
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
beside = "page.csv"
cells = ["", "{n}", "{success-rate*100:.1f}", "{success-rate:.2f!each}"]
-->

| method | seeds | success | by seed |
|---|---:|---:|---|
| FedRL-1 | 3 | **50.2 ± 1.6** | 0.51, 0.48, 0.51 |
| FedRL-9 | - | none kept | - |
| kept | 7 | 7.0 | 7 |

<!-- numbers
file = "fedrl/table1-16-sum.csv"
of = [
  { method = "FedRL-1", form = "{success-rate*100:.1f!mean} %" },
  { method = "FedRL-1", less = { method = "DQN-alpha" }, form = "{success-rate*100:+.1f}, {success-rate*100:.1f!ends}" },
]
-->

With FedRL agents meet in **50.2 %** of the episodes
(+9.9, 1.2 to 18.6).
"""
BESIDE = {"page.csv": "method,seeds,success,by seed\nFedRL-1,,,\nFedRL-9,,,\nkept,7,7.0,7\n"}


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The table that goes beside the scores of PAGE."""
    read = scores.read_scores
    monkeypatch.setattr(tables, "read_scores", lambda file: BESIDE.get(file) or read(file))
    yield
    beside_of.cache_clear()


@pytest.mark.slow
def test_every_page_is_as_its_scores_say() -> None:
    differ = [str(d) for page, text in MADE.items() for d in written(page.name, text)[1]]
    assert differ == []
    assert sum(len([*tables_of(text)]) for text in MADE.values()) >= 40


def test_a_changed_digit_of_a_page_is_found_in_every_column() -> None:
    """In the first row of a column of every table that has a number."""
    found = 0
    for table in (table for text in MADE.values() for table in tables_of(text)):
        keys = {table.header[0], *table.about.get("keys", {})}
        forms = table.about.get("cells", table.header)
        keys |= {t for t, form in zip(table.header, forms, strict=True) if form == "words"}
        for column in (i for i, title in enumerate(table.header) if title not in keys):
            for number, line in enumerate(table.lines):
                cells = cells_of(line)
                if any(c.isdigit() for c in cells[column]):
                    kept = cells[column]
                    digit = next(c for c in kept if c.isdigit())
                    cells[column] = kept.replace(digit, str((int(digit) + 1) % 10), 1)
                    told = table.told(f"| {' | '.join(cells)} |", number)[column]
                    assert told.replace("**", "") == kept.replace("**", "")
                    found += 1
                    break
    assert found > 300


def test_changed_scores_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "fedrl/table1-16-sum.csv",
        "fedvln/searched.csv",
        "cdl/group-norm.csv",
        "hostile/roads.jsonl",
    }

    def other(file: str) -> pd.DataFrame:
        table = scores_of(file).copy()
        for name in ("success-rate", "val_unseen.sr", "rmse"):
            if name in table and file in files:
                table[name] += 0.1
        return table

    monkeypatch.setattr(scores, "scores_of", other)
    for page in ("fedrl-results.md", "fedvln-results.md", "cdl-results.md", "robustness.md"):
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
    assert [(d.line, d.found, d.told) for d in differ] == [(13, "**49.0**", f"**{told}**")]
    assert new == PAGE


FORM = '"{success-rate*100:+.1f} ({success-rate*100:.1f!ends})"'
APART = (
    """
<!-- scores
file = "fedrl/table1-16-sum.csv"
keys = { method = "@method" }
cells = ["", { method = "@method", less = { method = "@other" }, form = """
    + FORM
    + """ }]
names = { one = { "@method" = "FedRL-1", "@other" = "DQN-alpha" } }
-->

| method | more |
|---|---:|
| one | 0.0 |
"""
)


def test_a_cell_may_be_a_difference_paired_by_seed() -> None:
    """The sentence's difference, which is tested against the scores, as a cell."""
    new, differ = written("page.md", APART)
    assert [d.told for d in differ] == ["+9.9 (1.2 to 18.6)"]
    assert written("page.md", new) == (new, [])
    other = APART.replace("DQN-alpha", "nobody")
    assert [d.told for d in written("page.md", other)[1]] == ["-"]


def test_a_cell_may_be_a_quotient_paired_by_seed() -> None:
    by_seed = [
        dict(zip(lines["seed"], lines["success-rate"], strict=True))
        for name in ("FedRL-1", "DQN-alpha")
        for lines in [lines_of("fedrl/table1-16-sum.csv", {"method": name})]
    ]
    found = [by_seed[0][seed] / by_seed[1][seed] for seed in by_seed[0]]
    page = APART.replace("less =", "over =").replace(FORM, '"{success-rate:.3f}"')
    told = f"{statistics.mean(found):.3f} ± {statistics.stdev(found):.3f}"
    assert [d.told for d in written("page.md", page)[1]] == [told]
    nobody = page.replace("DQN-alpha", "nobody")
    assert [d.told for d in written("page.md", nobody)[1]] == ["-"]


def test_a_row_may_have_cells_of_its_own() -> None:
    own = 'names = { "FedRL-9" = { method = "DQN-alpha", own = { success = "{success-rate*100:.0f!mean}" } }, '
    page = PAGE.replace("names = { ", own).replace("| none kept | - |", "| 1 | 1 |")
    told = [d.told for d in written("page.md", page)[1]]
    lines = lines_of("fedrl/table1-16-sum.csv", {"method": "DQN-alpha"})
    assert told[:2] == ["3", shown("{success-rate*100:.0f!mean}", lines)]
    assert told[2] == shown("{success-rate:.2f!each}", lines)


def test_a_cell_without_scores_has_no_number() -> None:
    _, differ = written("page.md", PAGE.replace("| FedRL-9 | - |", "| FedRL-9 | 3 |"))
    assert [(d.found, d.told) for d in differ] == [("3", "-")]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('keys = { method = "method" }', 'keys = { method = "methode" }', "no column methode"),
        ("{success-rate*100:.1f}", "{success*100:.1f}", "no column success"),
        ('cells = ["", ', "cells = [", "3 forms"),
        ("\n-->\n\n| method", "\n-->\n\ntext\n\n| method", "no table"),
        ("| kept | 7", "| held | 7", "other columns or rows"),
        ('beside = "page.csv"\n', "", "neither made of scores nor kept beside"),
        ('"DQN-alpha" }, form', '"D*" }, form', "several lines of one seed"),
        ('{ method = "FedRL-1", form', '{ method = "FedRL-8", form', "no scores for"),
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
    monkeypatch.setattr(scores, "DOCS", docs)
    assert tables.main(["--check"]) == 1
    assert "docs/page.md:13" in capsys.readouterr().out
    assert tables.main(["--write"]) == 0
    assert tables.main(["--check"]) == 0
    assert (
        page.read_text(encoding="utf-8") == PAGE and top.read_text(encoding="utf-8") == "nothing\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("**50.2 %** of", "**50.3 %** of", "50.2 %"),
        ("+9.9, 1.2", "+9.9, 1.3", "+9.9, 1.2 to 18.6"),
        ("(+9.9", "(19.9", "+9.9, 1.2 to 18.6"),
        ("to 18.6", "to 18.61", "+9.9, 1.2 to 18.6"),
        ("to 18.6).", "to 18.6)", None),
        ("in **50.2 %** of the episodes\n(+9.9, 1.2 to 18.6)", "(+9.9, 1.2 to 18.6) 50.2 %", "+9.9, 1.2 to 18.6"),
    ],
)  # fmt: skip
def test_a_sentence_has_what_the_scores_say_in_their_order(
    old: str, new: str, told: str | None
) -> None:
    assert PAGE.count(old) == 1
    kept, differ = written("page.md", PAGE.replace(old, new))
    assert [d.told for d in differ] == ([told] if told else [])
    assert kept == PAGE.replace(old, new)


def test_every_digit_that_is_kept_beside_the_scores_is_on_a_page() -> None:
    """Whichever is changed, the page differs; none is kept for nothing."""
    made = [table for text in MADE.values() for table in tables_of(text)]
    used = {table.about["beside"]: table for table in made if "beside" in table.about}
    kept = {f"beside/{path.name}" for path in (ROOT / "docs" / "results" / "beside").iterdir()}
    assert used.keys() == kept and len(kept) > 20
    for file, table in used.items():
        titles, *rows = beside_of(file)
        assert scores.read_scores(file) != (ROOT / "docs" / "results" / file).read_text()
        for row, column in ((r, c) for r in rows for c in range(1, len(titles)) if r[c]):
            cell = row[column]
            row[column] = f"{cell}1"
            number = rows.index(row)
            assert table.told(table.lines[number], number)[column] == f"{cell}1"
            row[column] = cell


RESULTS = [
    p
    for p in PAGES
    if re.search(r"results|^log|^README|claims|robust|backdoor|privacy|gpu|scale|bench", p.name)
]


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.name)
def test_every_table_of_a_page_of_results_is_made_of_scores(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    made = {table.first for table in tables_of(text)}
    lines = text.split("\n")
    ruled = [i for i, line in enumerate(lines) if re.fullmatch(r"\|( *:?-+:? *\|)+", line)]
    numbers = [i + 1 for i in ruled if "-:" in lines[i]]
    assert [lines[i - 2] for i in numbers if i not in made] == []


def test_every_file_of_scores_says_how_it_was_made() -> None:
    """Command and the commit that brought it; date and machine where they are known."""
    folder = ROOT / "docs" / "results"
    with (folder / "about.csv").open(newline="", encoding="utf-8") as file:
        about = {row["file"]: row for row in csv.DictReader(file)}
    stored = {str(p.relative_to(folder)) for p in folder.glob("*/*") if p.parent.name != "beside"}
    assert about.keys() == stored
    for name, row in about.items():
        assert row["command"].startswith(("fedsuite ", "python -m ")), name
        assert re.fullmatch("[0-9a-f]{7,12}", row["recorded in"]), name
        assert re.match(r"20\d\d-[01]\d-[0-3]\d\b|$", row["date"]), name
    remarks = [p.read_text(encoding="utf-8") for p in (folder / "beside").iterdir()]
    assert all(text.startswith("# ") for text in remarks)


def test_a_comment_may_stand_in_a_file_of_scores() -> None:
    kept = tomllib.loads((scores.DOCS / "results" / "readme.toml").read_text(encoding="utf-8"))
    assert scores.about_of('from = "readme.toml#notes"') == kept["notes"]
    assert scores.about_of('file = "a.csv"') == {"file": "a.csv"}
    with pytest.raises(TableError, match=r"readme.toml has no table \[cld\]; it has table, notes"):
        scores.about_of('from = "readme.toml#cld"')
