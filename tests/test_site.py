"""The documentation site: it builds without a warning, its keys are the code's, and it needs no network."""

import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from simulations.app.key_rows import key_rows
from simulations.shipped import shipped_names
from simulations.systems import BUILT_IN
from tests.harness import ROOT

pytestmark = pytest.mark.slow
ASSET = re.compile(r'(?:src="|<link[^>]+href="|url\(["\']?)(https?://[^"\')]+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Warnings, of links and anchors too, end it with Abort."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NO_MKDOCS_2_WARNING", "1")
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def test_every_key_and_configuration_is_there(site: Path) -> None:
    for system in BUILT_IN:
        page = (site / "reference" / f"{system}.html").read_text(encoding="utf-8")
        told = set(re.findall(r"<td><code>([\w./-]+)</code></td>", page))
        assert {row.key for row in key_rows(system)} <= told
        assert "&gt; 0, &lt;= 1</td>" in page and "\\" not in page.partition("<article")[2]
        assert {name for name in shipped_names() if name.startswith(f"{system}/")} <= told


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 20
    assert {a for p in pages for a in ASSET.findall(p.read_text(encoding="utf-8"))} == set()
    assert not any('class="mermaid"' in p.read_text(encoding="utf-8") for p in pages)


def test_search_sources_and_notebooks_need_no_server(site: Path) -> None:
    assert (
        (site / "search" / "search_index.js").read_text(encoding="utf-8").startswith("var __index")
    )
    for page in sorted((ROOT / "docs").glob("*.md")):
        made = (site / f"{page.stem}.html").read_text(encoding="utf-8")
        assert f'href="sources/{page.stem}.txt"' in made and 'src="style/iframe-worker.js"' in made
        kept = (site / "sources" / f"{page.stem}.txt").read_text(encoding="utf-8")
        assert kept == page.read_text(encoding="utf-8")
    for book in (ROOT / "notebooks").glob("*.ipynb"):
        assert "load_run" in (site / "notebooks" / f"{book.stem}.html").read_text(encoding="utf-8")
    scores = (site / "results" / "fedrl" / "index.html").read_text(encoding="utf-8")
    assert "recorded in commit" in scores and "fedsuite run fedrl/table1-8" in scores
