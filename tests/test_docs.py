"""What README and docs promise: commands parse, configurations and keys exist, Python blocks run, no figure is forgotten."""

import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from typer.main import get_command

from fedsuite.errors import InputError
from fedsuite.settings.config import RunSettings, parse_text, read_config, to_flat
from simulations.commands.cli import app
from simulations.experiments.request import Request, describe, split_changes
from simulations.experiments.sweep import SweepOptions
from simulations.experiments.variants import chosen_labels
from simulations.shipped import shipped_names
from simulations.systems import System, load_system
from tests.harness import ROOT

TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "AGENTS.md", "SECURITY.md")
PAGES = [ROOT / name for name in TOP]
PAGES += sorted((ROOT / "docs").glob("*.md"))
LONGEST_README = 120
EXECUTED_ELSEWHERE = dict.fromkeys(
    ("extending.md", "extending-systems.md"), "tests/test_extending.py"
)
FENCED = re.compile(r"^(<!-- not run: .+ -->\n+)?```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OWN = re.compile(r"=[\w.]+:\w+$")  # module:NAME of a page's own file
ENDS = {">", "|", "&&", "&", ";", "(", "2>&1"}  # of a command


def code_lines(text: str) -> Iterator[str]:
    """Lines of indented and fenced blocks, continued ones joined, and commands in a line of a table or of text."""
    blocks = [body for _, _, body in FENCED.findall(text)]
    rest = FENCED.sub("", text)
    blocks += [line[4:] for line in rest.splitlines() if line.startswith("    ")]
    yield from "\n".join(blocks).replace("\\\n", " ").splitlines()
    yield from re.findall(r"`(fedsuite [^`]+)`", rest)


def commands(page: Path) -> list[list[str]]:
    """Every `fedsuite ...` of a page as words, without remarks and what a shell does with its output."""
    found = []
    for line in code_lines(page.read_text(encoding="utf-8")):
        typed = re.sub(r"\s\([^)]*\)\s*$", "", re.sub(r"\s#.*", "", line)).strip()
        if typed.startswith("fedsuite ") and "..." not in typed:
            found.append(list(takewhile(lambda w: w not in ENDS, shlex.split(typed)))[1:])
    return found


def _names(command: click.Command, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield before
    for name, inner in getattr(command, "commands", {}).items():
        yield from _names(inner, (*before, name))


NAMED = set(_names(get_command(app)))


def context_of(words: list[str]) -> click.Context:
    """The command's own parser takes it; nothing is run."""
    command, name = get_command(app), "fedsuite"
    while isinstance(command, click.Group):
        assert words, "a group without a command"
        name, words = words[0], words[1:]
        assert name in command.commands, name
        command = command.commands[name]
    return command.make_context(name, list(words))


def check_request(context: click.Context, own: bool = False) -> None:
    """Configuration, keys, values, variants and seeds of a run, sweep or config are ones that there are, and go together.

    own: files of the reader's own are there, too.
    """
    given = context.params
    config = Path(given["config"])
    if not own and ("/" not in str(config) or "$" in str(config) or given.get("resume")):
        return  # a file, or a run, of the reader's own
    sweep = None
    if context.info_name == "sweep":
        sweep = SweepOptions(
            given["vary"] or [], given["metric"], given["target"] or [], False, given["variant"]
        )
    changes, only = given["change"] or [], given["only"] or []
    changes = [change for change in changes if own or not OWN.search(change)]
    if len(changes) < len(given["change"] or []) and "system=" in "".join(given["change"]):
        return  # a system of the reader's own
    typed = split_changes(changes)
    request = Request(config, changes, only=only, seeds=given.get("seeds"), sweep=sweep)
    described = describe(request, typed)
    chosen = chosen_labels(only, [r.label for r in described.runs])
    assert chosen
    for run in described.runs:
        system = load_system(typed.get("system", str(run.table["system"])))
        cls = system.config_class
        values = {key: parse_text(cls, key, text) for key, text in typed.items()}
        settings = read_config(cls, {**run.table, **values})
        if run.label in chosen and len(changes) == len(given["change"] or []):
            check_settings(system, settings)


ABSENT = re.compile(
    r"(start|speaker)-from: \S+ does not exist|network '\S+': expected |device: cuda "
)
CHECKED: set[str] = set()  # of those that differ in more than seed and name


def check_settings(system: System[Any], settings: RunSettings) -> None:
    """A run of these settings is not refused, unless for a file or a device that is not here."""
    flat = {k: v for k, v in to_flat(settings).items() if k not in ("seed", "name")}
    if (told := str(sorted(flat.items()))) in CHECKED:
        return
    try:
        system.validate(settings)
    except InputError as error:
        if not ABSENT.match(str(error)):
            raise
    CHECKED.add(told)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_one(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for words in commands(page):
        if tuple(words) in NAMED or words in (["--install-completion"], ["--version"]):
            continue  # in a sentence
        context = context_of(words)
        if context.info_name in ("run", "sweep", "config") and context.params["config"]:
            check_request(context)


def test_the_check_of_commands_checks() -> None:
    for line, error in (
        ("run cdl/quickstart --engin ray", click.NoSuchOption),
        ("runn cdl/quickstart", AssertionError),
        ("run cdl/nothing", ValueError),
        ("run cdl/quickstart --set training.rate=1", ValueError),
        ("run cdl/quickstart --set seed=-1", ValueError),
        ("run cdl/quickstart --only nobody", ValueError),
        ("run cdl/quickstart --only cdl --set federation.secure-sum=true", InputError),
    ):
        with pytest.raises(error):
            check_request(context_of(line.split()))
    assert sum(len(commands(page)) for page in PAGES) > 120


def python_blocks(page: Path) -> list[str]:
    found = FENCED.findall(page.read_text(encoding="utf-8"))
    return [body for skipped, kind, body in found if kind == "python" and not skipped]


def play(page: Path) -> None:
    """The page's Python blocks, one after the other, in the present folder."""
    names: dict[str, object] = {}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), names)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which README's blocks have run; what they made also has the name that other pages use."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        play(PAGES[0])
    (made,) = (folder / "runs").iterdir()
    shutil.copytree(made, made.with_name("fedvln-quickstart"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES[1:] if python_blocks(p)], ids=lambda p: p.name)
def test_python_blocks_run(desk: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name in EXECUTED_ELSEWHERE:
        assert (ROOT / EXECUTED_ELSEWHERE[page.name]).is_file()
        return
    monkeypatch.chdir(desk)
    play(page)


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= LONGEST_README
    for page in PAGES[: len(TOP)]:
        links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (ROOT / link).exists()] == []


PAPERS = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
SECTIONS = {"FedVLN": "fedvln", "CDL": "cdl", "FedRL": "fedrl"}


def rows_of(paper: str) -> dict[str, str]:
    """First cell -> row of a paper's table."""
    section = PAPERS.partition(f"\n## {paper} ")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return {row.split("|")[1].strip(): row for row in rows}


@pytest.mark.parametrize("paper", SECTIONS)
def test_every_row_has_a_command_or_a_page(paper: str) -> None:
    rows = rows_of(paper)
    assert len(rows) >= 9
    told = re.compile(rf"`fedsuite (run|sweep) {SECTIONS[paper]}/|\]\(")
    assert [name for name, row in rows.items() if not told.search(row)] == []
    named = re.findall(rf"{SECTIONS[paper]}/[\w-]+", "".join(rows.values()))
    assert set(named) <= set(shipped_names())


@pytest.mark.needs_shared
@pytest.mark.parametrize("paper", SECTIONS)
def test_no_table_or_figure_is_forgotten(shared: Path, paper: str) -> None:
    """Those that the notes on the papers name."""
    notes = (shared / "specs" / f"{SECTIONS[paper]}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:Table|Figure) \d)\b", notes))
    for kind, numbers in re.findall(r"\b(Table|Figure)s (\d-\d|\d and \d)", notes):
        first, last = re.findall(r"\d", numbers)
        named |= {f"{kind} {n}" for n in range(int(first), int(last) + 1)}
    listed = set(re.findall(r"(?:Table|Figure) \d", " ".join(rows_of(paper))))
    assert len(named) >= 3 and named <= listed


def test_how_to_cite_it() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["authors"] == [{"name": "fedsuite contributors"}]
    assert [paper["year"] for paper in cited["references"]] == [2022, 2024, 2019]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{cited["version"]}"' in project


def test_hooks_before_commits_are_the_projects_own() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in hooks["repos"]] == ["local"]
    entries = [hook["entry"] for hook in hooks["repos"][0]["hooks"]]
    assert entries and all(entry.startswith(".venv/bin/") for entry in entries)


LONGEST_PAGE = 2500


def words_of(text: str) -> int:
    """Words that a reader sees: comments, rules and signs do not count."""
    return len(re.findall(r"\S*\w\S*", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)))


@pytest.mark.parametrize("page", PAGES[len(TOP) :], ids=lambda page: page.name)
def test_a_page_is_read_in_one_go(page: Path) -> None:
    words = words_of(page.read_text(encoding="utf-8"))
    assert words <= LONGEST_PAGE, f"{words} words"


@pytest.mark.parametrize("system", ["fedvln", "cdl", "fedrl"])
def test_every_system_has_its_four_pages(system: str) -> None:
    """How it works, differences, results and what was tried; keys are generated."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [f"{system}.md", f"{system}-differences.md", f"{system}-results.md", f"log-{system}.md"]
    assert [page for page in pages if not (ROOT / "docs" / page).is_file()] == []
    assert all(f": {page}\n" in nav for page in [*pages, f"reference/{system}.md"])
    differences = (ROOT / "docs" / f"{system}-differences.md").read_text(encoding="utf-8")
    numbered = re.findall(r"^(?:\| )?(\d+)(?:\.| \|) ", differences, re.MULTILINE)
    assert numbered == [str(i + 1) for i in range(len(numbered))] and len(numbered) > 10


HISTORY = re.compile(
    r"\broll call|\bsaboteur|once said|unless told otherwise|as (?:it is|they are) now\b|\btoday's\b|the day before\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", PAGES[len(TOP) :], ids=lambda page: page.name)
def test_pages_have_neither_private_words_nor_a_history_of_their_own(page: Path) -> None:
    found = HISTORY.findall(page.read_text(encoding="utf-8"))
    assert not found or page.name in ("benchmarks.md",)  # compares code of two days
