"""What MkDocs adds when it builds the site: pages that are made of the code, so that they are never out of date.

reference/SYSTEM.md: every key of a system, from its settings classes. reference/python.md: what `from fedsuite import ...`
has. index.md, changelog.md, contributing.md, agents.md, security.md, licence.md: the files at the top of the repository.
results/NAME/index.md: what lies in a folder of scores, which pages link to. notebooks/NAME.md: a notebook. sources/NAME.txt:
the Markdown of a page, to which it links.
"""

import csv
import html
import json
import re
from itertools import groupby
from pathlib import Path
from types import GenericAlias
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import fedsuite
from docs.formulas import set_formulas
from fedsuite.settings.config import RunSettings, limits_of
from fedsuite.settings.values import shown
from simulations.app.key_rows import KeyRow, key_rows
from simulations.shipped import shipped
from simulations.systems import BUILT_IN

ROOT = Path(__file__).resolve().parents[1]
TITLES = {"fedvln": "FedVLN", "cdl": "CDL", "fedrl": "FedRL"}
TOP = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "agents.md": "AGENTS.md",
    "security.md": "SECURITY.md",
    "licence.md": "LICENSE",
    "CITATION.cff": "CITATION.cff",
}
MOVED = {f"]({source})": f"]({page})" for page, source in TOP.items()} | {"](docs/": "]("}
FOLDER_LINK = re.compile(r"\]\((results/[\w-]+)/?\)")
MADE_OF = re.compile(
    r"^<!-- (?:scores|numbers|drawing)\n.*?-->\n\n?", re.M | re.S
)  # docs/tables.py


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    for system in BUILT_IN:
        _add(files, config, f"reference/{system}.md", reference(system))
    _add(files, config, "reference/python.md", public_names())
    for page, source in TOP.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == "LICENSE":
            text = f"# Licence\n\n```text\n{text}```\n"
        for there, here in MOVED.items():
            text = text.replace(there, here)
        _add(files, config, page, text)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        _add(files, config, f"notebooks/{path.stem}.md", notebook(path))
    for path in sorted((ROOT / "docs").glob("*.md")):
        _add(files, config, f"sources/{path.stem}.txt", path.read_text(encoding="utf-8"))
    scores = {Path(f.src_uri) for f in files if f.src_uri.startswith("results/")}
    for folder in sorted({file.parent for file in scores}):
        _add(files, config, f"{folder.as_posix()}/index.md", listing(folder))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Formulas are set, links to a folder of scores lead to its listing, what numbers are made of is left to the source."""
    text = set_formulas(FOLDER_LINK.sub(r"](\1/index.md)", MADE_OF.sub("", markdown)))
    source = f"sources/{Path(page.file.src_uri).stem}.txt"
    written = "/" not in page.file.src_uri and files.get_file_from_path(source)
    return f"{text}\n\n[The source of this page]({source})\n" if written else text


def notebook(path: Path) -> str:
    """The cells of a notebook, which is kept without outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    return "\n\n".join(f"```python\n{t}\n```" if kind == "code" else t for kind, t in texts)


def public_names() -> str:
    """The page of what `from fedsuite import ...` has: each name with the first paragraph of its docstring."""
    lines = ["# Public names", "", "`from fedsuite import` any of these:", ""]
    lines += ["| name | what it is |", "| --- | --- |"]
    for name in sorted(fedsuite.__all__, key=str.lower):
        value = getattr(fedsuite, name)
        alias = isinstance(value, GenericAlias)  # whose docstring is that of dict
        text = str(value) if alias else " ".join(str(value.__doc__).split("\n\n")[0].split())
        lines.append(f"| `{name}` | {html.escape(text).replace('|', '&#124;')} |")
    return "\n".join(lines) + "\n"


def reference(system: str) -> str:
    """The page of a system's configuration: what comes along, then every key by section."""
    lines = [
        f"# {TITLES[system]}: configurations and keys",
        "",
        "## Configurations that come along",
        "",
    ]
    lines += ["| name | what it is | time | needs |", "|---|---|---|---|"]
    lines += [f"| `{c.name}` | {c.what} | {c.time} | {c.needs} |" for c in shipped(system)]
    lines += ["", "## Keys", "", f"The same list in a terminal: `fedsuite keys {system}`.", ""]
    common = limits_of(RunSettings)
    rows = [row for row in key_rows(system) if row.section or row.key not in common]
    shared = [row for row in key_rows(system) if row.key in common]
    lines += ["### Keys of every run", "", *_table(shared)]
    for section, inside in groupby(rows, lambda row: row.section):
        title = (
            f"### [{section}]" if section else f"### Keys of {TITLES[system]} outside of sections"
        )
        lines += ["", title, "", *_table(list(inside))]
    return "\n".join(lines) + "\n"


def listing(folder: Path) -> str:
    """A page that links to the files of a folder of scores and says how they were made, by docs/results/about.csv."""
    with (ROOT / "docs" / "results" / "about.csv").open(newline="", encoding="utf-8") as file:
        about = {row["file"]: row for row in csv.DictReader(file)}
    lines = [f"# Scores: {folder.name}", "", "One file per experiment, as it was recorded.", ""]
    for path in sorted(p for p in (ROOT / "docs" / folder).iterdir() if p.is_file()):
        made = about.get(f"{folder.name}/{path.name}", {})
        command = f"`{made['command']}`" if made else ""
        parts = [command, *(made.get(name, "") for name in ("date", "machine"))]
        commit = f"recorded in commit {made['recorded in']}" if made else ""
        told = "; ".join(part for part in [*parts, commit] if part)
        lines.append(f"* [{path.name}]({path.name}){': ' if told else ''}{told}")
    return "\n".join(lines) + "\n"


def _table(rows: list[KeyRow]) -> list[str]:
    cells = [
        f"| `{row.key}` | `{shown(row.default)}` | {_plain(row.help)} | {_plain(row.valid)} |"
        for row in rows
    ]
    return ["| key | default | meaning | valid |", "|---|---|---|---|", *cells]


def _plain(text: str) -> str:
    """Text that is neither HTML nor Markdown."""
    return re.sub(r"[|*_\[\]`]", lambda mark: f"&#{ord(mark[0])};", html.escape(text, quote=False))


def _add(files: Files, config: MkDocsConfig, path: str, text: str) -> None:
    files.append(File.generated(config, path, content=text))
