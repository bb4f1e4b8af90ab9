"""What is written: a page that asks nothing of the network, and names from clients that stay text in every format."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsuite.errors import InputError
from fedsuite.reports.page.formats import html
from fedsuite.reports.page.formats.drawing import as_svg
from fedsuite.reports.page.formats.html import as_html
from fedsuite.reports.page.formats.latex import as_latex
from fedsuite.reports.page.formats.markdown import as_markdown
from fedsuite.reports.page.formats.table import check_free, format_of
from fedsuite.reports.page.formats.terminal import print_report
from fedsuite.reports.page.model import Part, Report, Section, Table
from simulations.results.report import make_report
from tests.written_runs import HOSTILE

EMPTY_TAGS = {"meta", "link", "use", "path", "rect", "br"}


class Page(HTMLParser):
    """Tags with their attributes, texts by tag, and whether tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in EMPTY_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag) -> None:
        if tag not in EMPTY_TAGS:
            assert self.open.pop() == tag

    def handle_data(self, text) -> None:
        self.texts.append((self.open[-1] if self.open else "", text))


@pytest.fixture(scope="module")
def text(hostile) -> str:
    return as_html(hostile)


@pytest.fixture(scope="module")
def page(text) -> Page:
    return Page(text)


def of_text(*cells: str) -> Report:
    """A report of nothing but these cells."""
    table = Table("t", tuple(f"c{i}" for i in range(len(cells))), (tuple(cells),))
    return Report("r", (), (Part("p", (Section("s", tables=(table,)),)),))


@pytest.mark.slow
def test_the_page_refers_to_nothing_but_itself(page, text) -> None:
    ids = [own["id"] for _, own in page.tags if "id" in own]
    assert len(set(ids)) == len(ids)
    asked = [
        value
        for _, own in page.tags
        for name, value in own.items()
        if name.rpartition(":")[2] in ("src", "href", "srcset", "action", "data", "poster")
    ]
    assert asked
    for value in asked:
        assert value.startswith("data:") or (value[0] == "#" and value[1:] in ids)
    inside = re.findall(r"url\(([^)]*)\)", text)
    assert inside and all(found[0] == "#" and found[1:] in ids for found in inside)
    assert "http" not in re.sub(r'http-equiv="', "", text) and "@import" not in text


def test_the_page_is_well_formed_and_forbids_itself_the_network(page, text) -> None:
    assert page.open == []
    (policy,) = (own["content"] for tag, own in page.tags if tag == "meta" and "http-equiv" in own)
    assert policy.startswith("default-src 'none'")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy


def test_hostile_names_are_text_in_the_page(page, text) -> None:
    assert [tag for tag, _ in page.tags].count("script") == 1
    shown = {found for tag, found in page.texts if tag == "td"}
    assert HOSTILE[0] in shown and HOSTILE[1] in shown
    assert "\x1b" not in text and "oak red" in shown


def test_hostile_names_are_text_in_figures(written) -> None:
    report = make_report([str(written.hostile)])
    (bars,) = (f for f in report.figures() if f.name == "participation")
    drawing = Page(as_svg(bars, "x"))
    texts = " ".join(found for tag, found in drawing.texts if tag == "text")
    assert "<script>" in texts and "$x$" in texts  # no tag, no formula
    assert "script" not in {tag for tag, _ in drawing.tags}


def test_every_figure_has_words_and_all_axes_are_there_without_script(page, hostile) -> None:
    labels = [own["aria-label"] for _, own in page.tags if own.get("role") == "img"]
    assert len(labels) == len(hostile.figures()) > 5
    assert all(len(label or "") > 30 for label in labels)
    panes = [own for _, own in page.tags if own.get("class") == "choice"]
    assert len(panes) == 5 and not any("hidden" in own for own in panes)


def test_latex_is_escaped_and_balanced() -> None:
    written = as_latex(of_text(*HOSTILE, "-1.5 ± 0.2", "#1 [x] --a-b"))
    (row,) = (line for line in written.split("\n") if line.startswith(r"\textless"))
    first, second, third, number, last = row.removesuffix(r" \\").split(" & ")
    assert first == r"\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{}"
    start = r"50\%\_\&\$x\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}end\{table\}"
    assert second.startswith(start)
    assert third == "oak red"
    assert number == r"$-1.5$ $\pm$ 0.2"
    assert last == r"\#1 {[}x{]} {-}{-}a-b"
    plain = re.sub(r"\\[{}]", "", written)
    assert plain.count("{") == plain.count("}")
    assert written.count(r"\begin{tabular}") == written.count(r"\end{tabular}") == 1
    assert r"\toprule" in written and r"\bottomrule" in written


def test_markdown_cells_stay_in_their_columns_and_hold_no_markup() -> None:
    lines = as_markdown(of_text(*HOSTILE, "val_unseen.sr")).split("\n")
    rows = [line for line in lines if line.startswith("|")]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [5, 5, 5]
    assert r"\<script\>alert(1)\</script\>" in rows[2]
    assert r"\`a\` \*\*b\*\*" in rows[2] and "val_unseen.sr" in rows[2]


def test_markdown_paragraphs_begin_nothing_else(hostile) -> None:
    title = Report("# no heading", ("1. no list", "- no list", "## none"), ())
    written = as_markdown(title)
    assert "1\\. no list" in written and "\\- no list" in written and "\n\\## none" in written
    assert "<script>" not in as_markdown(hostile).replace("\\<script", "")


def test_the_terminal_shows_names_as_they_are(hostile, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    print_report(hostile)
    shown = capsys.readouterr().out
    assert HOSTILE[0] in shown and "\x1b" not in shown
    print_report(of_text("[bold]x[/bold]", ":smile:"))
    assert "[bold]x[/bold]" in (shown := capsys.readouterr().out) and ":smile:" in shown


@pytest.mark.slow
def test_few_rows_stand_side_by_side_in_a_narrow_terminal(houses, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_report(houses)
    shown = capsys.readouterr().out
    assert "SR val-unseen (%)" in shown and "45.00 ± 7.07" in shown


@pytest.mark.slow
def test_a_folder_has_every_figure_as_png_and_pdf(houses, tmp_path: Path) -> None:
    names = {figure.name for figure in houses.figures()[:2]}
    section = Section("s", figures=tuple(houses.figures()[:2]))
    few = Report("few", (), (Part("p", (section,)),))
    format_of(f"{tmp_path}/out/")(few, tmp_path / "out")
    folder = tmp_path / "out"
    files = {path.name for path in folder.iterdir()}
    assert files == {"report.md", "report.tex"} | {f"{n}.{k}" for n in names for k in ("png", "pdf")}  # fmt: skip
    linked = re.findall(r"\]\(([^)]*)\)", (folder / "report.md").read_text())
    assert set(linked) == {f"{name}.png" for name in names}
    with Image.open(folder / linked[0]) as picture:
        assert picture.width > 600
    format_of("few.pdf")(few, tmp_path / "few.pdf")
    data = (tmp_path / "few.pdf").read_bytes()
    assert data.startswith(b"%PDF") and len(re.findall(rb"/Type /Page\b", data)) == 2


def test_figures_follow_the_page_but_those_on_paper(houses) -> None:
    curve = next(f for f in houses.figures() if f.choice)
    svg = as_svg(curve, "x")
    assert "var(--f-blue, #0072b2)" in svg and "var(--f-page, #ffffff)" in svg
    assert not re.search(r"(fill|stroke): #(000000|ffffff)", svg)
    assert "var(" not in as_svg(replace(curve, on_paper=True), "x")
    names = set(re.findall(r"var\((--f-\w+)", svg))
    dark = (Path(html.__file__).parent / "page.css").read_text()
    assert names <= set(re.findall(r"(--f-\w+):", dark))


def test_values_at_the_cursor_stand_where_they_are_drawn(houses) -> None:
    """Places from the attribute are those of the path's corners in the SVG."""
    curve = next(f for f in houses.figures() if f.choice)
    svg = as_svg(curve, "x")
    (panel,) = json.loads(unescape(re.search(r'data-values="([^"]*)"', svg)[1]))
    name, xs, ys = panel["lines"][0]
    assert (name, xs) == ("federated", [0, 2]) and ys == pytest.approx([4.5, 45])
    (x0, x1), (y0, y1) = panel["x"], panel["y"]
    places = [(x0 + x1 * x, y0 + y1 * y) for x, y in zip(xs, ys, strict=True)]
    drawn = [
        [tuple(map(float, corner)) for corner in re.findall(r"[ML] ([\d.]+) ([\d.]+)", path)]
        for path in re.findall(r'<path d="([^"]*)"[^>]*stroke: var\(--f-blue', svg)
    ]
    assert any(len(corners) == 2 and np.allclose(corners, places, atol=0.01) for corners in drawn)
    assert panel["names"][0] == "rounds"


def test_a_table_too_wide_for_paper_is_printed_as_several_that_begin_alike() -> None:
    wide = of_text(*map(str, range(15))).parts[0].sections[0].tables[0]
    assert html.sheets(wide) == [[0, *range(1, 8)], [0, *range(8, 15)]]
    assert html.sheets(of_text(*"abcdefghi").parts[0].sections[0].tables[0]) == [[*range(9)]]
    printed = re.findall(
        r'<div class="sheets">(.*?)</div>', as_html(of_text(*map(str, range(15)))), re.S
    )
    assert re.findall(r">c(\d+)<", printed[0]) == [
        str(i) for part in html.sheets(wide) for i in part
    ]


@pytest.mark.parametrize("name", ["report", "report.docx", "report.png"])
def test_endings_that_are_no_format_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"expected a name that ends in one of \.html, \.md"):
        format_of(name)


def test_nothing_is_written_over_without_being_told(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    check_free(str(file), overwrite=False)
    file.write_text("mine")
    for name in (str(file), f"{tmp_path}/"):
        with pytest.raises(InputError, match="is there already; choose another name, or"):
            check_free(name, overwrite=False)
        check_free(name, overwrite=True)
