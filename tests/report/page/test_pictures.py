"""Pictures of a run's folder in its report: as they are, and left out with a word where they are none."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsuite.reports.page.formats.html import as_html
from simulations.results.report import make_report
from tests.written_runs import houses_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return houses_run(tmp_path / "one", 0, 0.4)


def pictures(run: Path):
    report = make_report([str(run)])
    return report, [s for s in report.parts[0].sections if s.title == "Pictures"]


def test_a_picture_stands_in_the_page_pixel_by_pixel(run: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 45, 3), np.uint8)
    Image.fromarray(pixels).save(run / "walks.png")
    report, (section,) = pictures(run)
    (figure,) = section.figures
    assert figure.title == "Walks in an unseen house, from above, one" and figure.on_paper
    drawn = figure.draw()
    assert np.array_equal(drawn.axes[0].images[0].get_array(), pixels)
    assert "hand the page on" in section.text[0]
    assert '<figure class="paper"' in as_html(report) and "data:image/png" in as_html(report)


def test_what_is_no_picture_is_named(run: Path) -> None:
    assert pictures(run)[1] == []
    (run / "walks.png").write_bytes(b"\x89PNG no picture")
    _, (section,) = pictures(run)
    assert section.figures == () and section.text == (
        "walks.png of one is left out: it is no PNG, or a damaged one.",
    )


def test_the_same_picture_of_another_line_is_named_alone(tmp_path: Path) -> None:
    runs = [houses_run(tmp_path / name, 0, 0.4) for name in ("one", "two", "three")]
    for run in runs[:2]:
        Image.fromarray(np.full((20, 30, 3), 9, np.uint8)).save(run / "walks.png")
    report = make_report([str(run) for run in runs])
    (section,) = [s for s in report.parts[0].sections if s.title == "Pictures"]
    assert [f.title for f in section.figures] == ["Walks in an unseen house, from above, one"]
    same = "Walks in an unseen house, from above, two: the same as Walks in an unseen house, from above, one."
    assert section.text[1:] == (same,)
    Image.fromarray(np.full((20, 30, 3), 8, np.uint8)).save(runs[1] / "walks.png")
    report = make_report([str(run) for run in runs])
    (section,) = [s for s in report.parts[0].sections if s.title == "Pictures"]
    assert len(section.figures) == 2 and len(section.text) == 1
