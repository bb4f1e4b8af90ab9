"""Hostile texts through every place where text from elsewhere gets in, and out of every format: they stay text."""

import csv
import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsuite.reports.tables import markdown_table
from fedsuite.storage.escaping import (
    LONGEST,
    PlainConsole,
    csv_text,
    in_latex,
    in_markdown,
    markdown_code,
    markdown_paragraph,
)
from simulations.commands import cli as command
from simulations.experiments.comparison import write_comparison
from tests.harness import exit_code_of
from tests.written_runs import client_row, round_row, write_experiment, write_run

pytestmark = pytest.mark.drawn

TEXTS = {
    "latex": "-1\\input{/etc/passwd} \\write18{id} $x$ %",
    "latex at a row's begin": "*[1cm] --",
    "colours": "\x1b[31mred\x1b[2J",
    "a link (OSC 8)": "\x1b]8;;http://evil.example\x07click\x1b]8;;\x07",
    "the clipboard (OSC 52)": "\x1b]52;c;cm0gLXJm\x07copied",
    "C1": "\x9b31mred \x9d52;c;eA==\x9c",
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "an attribute": "\" onmouseover=\"alert(1)' x='",
    "entities": "&lt;b&gt; &#60;b&#62;",
    "a link": "[click](javascript:alert(1)) <http://evil.example> http://evil.example www.evil.example",
    "an image": "![x](http://evil.example/x.png)",
    "markup": "[bold]x[/bold] [/] [link=http://evil.example]y[/link] :skull:",
    "code": "```\n<b>bold</b>\n```",
    "a table": "a | b\n|---|\n| c |",
    "a formula": '=HYPERLINK("http://evil.example";"x")',
    "a sum": "+1+cmd|' /C calc'!A0",
    "a minus": "-2+3",
    "a function": "@SUM(1+1)",
    "a formula after a tab": "\t=1+1",
    "a formula after a return": "\r=1+1",
    "right to left": "abc\u202e\u2066gpj.exe\u2069",
    "lines": "one\nerror: two\r\n# three\u2028four\x0bfive",
    "zero width": "a\u200bb\ufeff",
}
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
EVIL = "evil.example"


class Page(HTMLParser):
    """Tags and attributes' names of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}


def hostile_run(folder: Path, text: str) -> Path:
    """A failed run in which everything that others can write is this text."""
    failed = {"status": "error", "reason": text}
    rows = [
        round_row(0, **{"val_unseen.sr": 0.1, f"train.{text}": 1.0}),
        client_row(1, 0, text, "train", metrics={text: 1.0}),
        client_row(1, 1, f"{text} ", "train", **failed),
        client_row(1, 0, text, "evaluate", metrics={"val_unseen.sr": 0.2, "val_unseen.count": 9.0}),
        round_row(1, **{"val_unseen.sr": 0.2, f"train.{text}": 0.5}),
    ]
    fit = CONTROLS.sub("", text).replace("\n", "")  # settings with others are refused
    settings = {"num-rounds": 1, "name": "x", "data.dir": fit, "start-from": fit}
    record = {
        "error": text,
        "versions": {"fedsuite": text, text: "1"},
        "placement": {text: text},
        "nodes": {text: {text: text}},
    }
    return write_run(folder, "fedvln", rows, settings, "failed", **record)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each hostile text, in an experiment of its own whose variant is called after it too."""
    root, found = tmp_path_factory.mktemp("hostile"), {}
    for number, (what, text) in enumerate(TEXTS.items()):
        label = "".join(c for c in text if c not in "/\0")[:100]
        hostile_run(root / str(number) / label, text)
        write_experiment(root / str(number), [label])
        found[what] = root / str(number)
    return found


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`call("show", "a")` in this process: what is printed, with the exit code and the errors checked."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["fedsuite", *arguments])
        assert exit_code_of(command.main) == code, capsys.readouterr()
        out, err = capsys.readouterr()
        return out + err

    return call


@pytest.mark.slow
@pytest.mark.parametrize("what", ["latex", "script", "code", "a table", "lines", "a link"])
def test_a_report_of_one(call, runs: dict[str, Path], tmp_path: Path, what: str) -> None:
    _check_reports(call, [runs[what]], tmp_path, ("md", "tex"))


@pytest.mark.slow
def test_a_report_of_all(call, runs: dict[str, Path], tmp_path: Path) -> None:
    html = _check_reports(call, [*runs.values()], tmp_path, ("md", "tex", "html"))
    page = Page(html)
    assert not page.tags & {"b", "img", "iframe"} and html.count("<script>") == 1
    assert not {name for name in page.attributes if name.startswith("on")}
    assert f'href="http://{EVIL}' not in html


def _check_reports(call, runs: list[Path], folder: Path, kinds: tuple[str, ...]) -> str:
    """Writes them; the last one."""
    files = {kind: folder / f"r.{kind}" for kind in kinds}
    outs = [argument for file in files.values() for argument in ("-o", str(file))]
    call("report", *map(str, runs), *outs)
    text = {kind: file.read_bytes().decode() for kind, file in files.items()}
    assert not any(CONTROLS.search(written) for written in text.values())
    _check_markdown(text["md"])
    _check_latex(text["tex"])
    assert not CONTROLS.search(call("report", *map(str, runs)))
    return text[kinds[-1]]


def _check_markdown(text: str) -> None:
    """As a reader of Markdown has it: no raw HTML, no link or picture to elsewhere, as many columns in all rows."""
    markdown = pytest.importorskip("markdown_it")
    tokens = markdown.MarkdownIt("commonmark").enable("table").parse(text)
    inner = [t for token in tokens for t in (token, *(token.children or ()))]
    kinds = {t.type for t in inner}
    assert not kinds & {"html_block", "html_inline", "image", "link_open", "hardbreak"}
    prose = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.S | re.M)
    assert f"http://{EVIL}" not in prose and f"www.{EVIL}" not in prose
    for block in re.findall(r"(?:^\|.*\n)+", prose, re.M):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}) == 1


def _check_latex(text: str) -> None:
    """No command but those that the report itself uses, and all braces closed."""
    known = (
        "usepackage begin end centering caption toprule midrule bottomrule par smallskip footnotesize pm ldots "
        "textbackslash textasciicircum textasciitilde "
        "textless textgreater textbar textquotedbl textasciigrave textquotesingle"
    )
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert set(re.findall(r"\\([a-zA-Z]+)", body)) <= set(known.split())
    assert not re.search(r"(?<!\\)%|\^\^", body)
    plain = re.sub(r"\\[\\{}$%&#_]", "", body)
    assert plain.count("{") == plain.count("}")
    assert set(re.findall(r"\$([^$]*)\$", plain)) <= {r"\pm"} | set(
        re.findall(r"-[\d.,e+-]+", plain)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command_line", "what"),
    [("show", what) for what in TEXTS]
    + [
        (c, w)
        for c in ("watch", "runs")
        for w in ("the clipboard (OSC 52)", "C1", "markup", "lines")
    ],
)
def test_what_terminals_get(call, runs: dict[str, Path], what: str, command_line: str) -> None:
    """Nothing but lines of text, whatever a run's files hold; what is not markup is there as it was."""
    run = next(path for path in runs[what].iterdir() if path.is_dir())
    shown = call(command_line, str(runs[what] if command_line == "runs" else run))
    assert not CONTROLS.search(shown) and "failed" in shown
    assert not re.search(r"^(error: two|# three|five)", shown, re.M)
    if what == "markup" and command_line == "show":
        assert "[bold]x[/bold] [/]" in shown and ":skull:" in shown


@pytest.mark.slow
def test_no_cell_of_a_csv_file_is_a_formula(call, runs: dict[str, Path], tmp_path: Path) -> None:
    """Of all frames of all runs, whose texts are there, but for what makes them a formula; Parquet has them as they are."""
    call("export", *map(str, runs.values()), "--to", "csv", "-o", str(tmp_path))
    call("export", *map(str, runs.values()), "--to", "parquet", "-o", str(tmp_path))
    cells = {cell for file in tmp_path.glob("*.csv") for cell in _cells(file)}
    assert all(_is_number(cell) or not cell.startswith(tuple("=+-@\t\r\n")) for cell in cells)
    assert set(pd.read_parquet(tmp_path / "clients.parquet")["reason"]) >= {*TEXTS.values()}
    for text in TEXTS.values():
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        assert (f"'{text}" if text[0] in "=+-@\t\n" else text) in cells


def _cells(file: Path) -> list[str]:
    """As programs read it that begin a row at every kind of line's end, but for those in quotes."""
    text = file.read_bytes().decode()
    assert "\r" not in text
    return [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]


def _is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", cell))


def test_numbers_of_a_csv_file_stay_numbers_and_honest_bytes_stay() -> None:
    frame = pd.DataFrame({
        "run": pd.Categorical(["a", "b"]), "round": [-1, 2], "loss": [-0.5, float("nan")], "ok": [True, False],
        "reason": ["", None], "mixed": [-3, "text, with a comma"],
    })  # fmt: skip
    assert csv_text(frame) == frame.to_csv(index=False)
    two = pd.DataFrame([["=a", "-1"]], columns=["=x", "=x"])
    assert csv_text(two) == "'=x,'=x\n'=a,'-1\n"
    alike = pd.DataFrame({"name": pd.Categorical(["=a", "'=a"])})
    assert csv_text(alike) == "name\n'=a\n'=a\n"


@pytest.mark.parametrize("what", TEXTS)
def test_results_of_an_experiment(runs: dict[str, Path], tmp_path: Path, what: str) -> None:
    """results.md, which is shown in the terminal too."""
    labels = json.loads((runs[what] / "experiment.json").read_text())["runs"]
    write_comparison(runs[what], [run["name"] for run in labels])
    text = (runs[what] / "results.md").read_text()
    _check_markdown(text)
    assert not CONTROLS.search(text)
    cell = markdown_table([{TEXTS[what]: TEXTS[what]}])
    _check_markdown(cell)
    assert cell.count("\n") == 3 and not CONTROLS.search(cell)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("-1\\input{/etc/passwd}", r"-1\textbackslash{}input\{/etc/passwd\}"),
        ("-1.5 ± 0.2", r"$-1.5$ $\pm$ 0.2"),
        ("-1,234", "$-1,234$"),
        ("-2e-05", "$-2e-05$"),
        ("-1$\\input{x}$", r"-1\$\textbackslash{}input\{x\}\$"),
        ("-50%", r"-50\%"),
        ("-1}", r"-1\}"),
        ("-", "-"),
        ("-٣", "-٣"),
        ("*[1cm]", "{*}{[}1cm{]}"),
    ],
)
def test_only_whole_numbers_are_mathematics(text: str, latex: str) -> None:
    assert in_latex(text) == latex


def test_code_in_markdown_ends_where_it_ends() -> None:
    """However many backticks are in it, and whatever stands before it."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    written = f"- item\n\n{markdown_code('a = `1`' + chr(10) + '````' + chr(10) + '<b>' + chr(27))}\n\nafter"
    kinds = [t.type for t in markdown.parse(written)]
    assert kinds.count("fence") == 1 and "html_block" not in kinds and "code_block" not in kinds
    assert markdown_paragraph("    <b>x") == r"\<b\>x"
    assert in_markdown("val_unseen.sr 1.5 a-b") == "val_unseen.sr 1.5 a-b"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_plain_console_prints_text_alone(text: str) -> None:
    """A text by itself, in a table, as a Text of someone else's making; with colours of our own."""
    out = io.StringIO()
    console = PlainConsole(file=out, width=300, force_terminal=True, color_system="truecolor")
    table = Table(text, box=None)
    table.add_row(text)
    table.add_row(Text(text, "red"))
    for thing in (text, Text(text), table):
        console.print(thing)
    own = re.sub("\x1b\\[[0-9;]*m", "", out.getvalue())
    assert not CONTROLS.search(own.replace("\t", " "))
    assert "\x1b]" not in out.getvalue()


def test_what_is_not_plain_would_be_noticed() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(Text(TEXTS["the clipboard (OSC 52)"]))
    assert CONTROLS.search(out.getvalue())
    assert len(in_latex("x" * 10**6)) < LONGEST + 10
