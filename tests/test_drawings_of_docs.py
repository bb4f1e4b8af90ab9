"""Drawings of the docs are made of stored scores: a number that is changed in the scores, or in what a page asks for, does
not pass."""

from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from docs import drawings, scores
from docs.drawings import Drawing, drawings_of
from docs.scores import TableError, scores_of
from tests.harness import ROOT

pytestmark = pytest.mark.drawn

FILE = "fedrl/figure4-8.csv"
PAGE = """Scores:

<!-- drawing
file = "fedrl/figure4-8.csv"
x = ["run", '-h(\\d+)/']
x-label = "H"
marked = true
panels = { "success (%)" = "success-rate*100", "reward" = "average-reward" }
levels = { random = { method = "random" } }
curves = { alone = { method = "DQN-alpha (*" }, all = { method = "DQN-full (*" } }
-->

![Drawn](figures/drawn.png)
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "figures").mkdir()
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path / "page.md"


def drawing(page: Path) -> Drawing:
    (found,) = drawings_of(page)
    return found


def test_every_drawing_is_what_the_scores_say() -> None:
    found = [one for page in (ROOT / "docs").glob("*.md") for one in drawings_of(page)]
    assert len(found) >= 2 and all(one.is_right for one in found)


def test_points_and_levels_are_those_of_the_scores(page: Path) -> None:
    found, table = drawing(page), pd.read_csv(ROOT / "docs" / "results" / FILE)
    alone = table[table["method"].str.startswith("DQN-alpha (")]
    expected = {
        int(run.split("-h")[1].split("/")[0]): 100 * success
        for run, success in zip(alone["run"], alone["success-rate"], strict=True)
    }
    points = found.curves["alone"]
    assert dict(zip(points["x"], points["success (%)"], strict=True)) == pytest.approx(expected)
    random = table[table["method"] == "random"].iloc[0]
    assert found.levels == {"random": [100 * random["success-rate"], random["average-reward"]]}


def test_what_is_changed_is_drawn_anew(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not drawing(page).is_right
    drawing(page).write()
    assert drawing(page).is_right
    picture = page.parent / "figures" / "drawn.png"
    with Image.open(picture) as image:
        assert image.width > 1000 and len(image.getcolors(1 << 20) or ()) > 50
    page.write_text(PAGE.replace('"H"', '"history"'), encoding="utf-8")
    assert not drawing(page).is_right
    page.write_text(PAGE, encoding="utf-8")
    table = scores_of(FILE).copy()
    row = table.index[table["method"].str.startswith("DQN-full (")][0]
    table.loc[row, "average-reward"] += 0.1
    monkeypatch.setattr(scores, "scores_of", lambda file: table)
    assert not drawing(page).is_right


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"DQN-full (*"', '"DQN-none"', "no scores for"),
        ("average-reward", "mean-reward", "no column mean-reward"),
        ("![Drawn]", "Drawn: ![Drawn]", "no picture after it"),
    ],
)
def test_comments_that_do_not_fit(page: Path, old: str, new: str, said: str) -> None:
    page.write_text(PAGE.replace(old, new), encoding="utf-8")
    with pytest.raises(TableError, match=said):
        drawing(page)


def test_the_command_line(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert drawings.main(["--check"], page.parent) == 1
    assert drawings.main(["--write"], page.parent) == 0
    assert drawings.main(["--check"], page.parent) == 0
    page.write_text(PAGE.replace("DQN-full (*", "nobody"), encoding="utf-8")
    assert drawings.main(["--check"], page.parent) == 2
    said = capsys.readouterr()
    assert "1 drawings; 0 differ" in said.out and "error: page.md" in said.err
