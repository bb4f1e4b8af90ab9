"""Who trained when: the map's cells are the history's lines, and its margins their counts."""

from pathlib import Path

import numpy as np
import pandas as pd

from fedsuite.reports.page.formats.drawing import as_svg
from fedsuite.reports.page.formats.html import as_html
from fedsuite.reports.page.taking_part import (
    FAILED,
    LATER,
    MOST_CLIENTS,
    NOT,
    OK,
    figure_of,
    states_of,
)
from simulations.results.report import make_report
from tests.written_runs import client_row, round_row, write_run

NAMES = ["oak", "elm", "ash"]


def lines(*rows: tuple[int, str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["round", "name", "task", "status"])


def test_a_cell_is_what_became_of_a_client_in_a_round() -> None:
    told = lines(
        (0, "ash", "train", "ok"), (1, "oak", "train", "ok"), (1, "elm", "evaluate", "error"), (2, "elm", "train", "late"),
        (2, "oak", "train", "ok"), (2, "oak", "train", "error"), (3, "elm", "train", "ok"),
    )  # fmt: skip
    found = states_of(told, NAMES)
    assert found.tolist() == [[OK, FAILED, NOT], [NOT, LATER, OK], [NOT, NOT, NOT]]
    figure = figure_of(found, NAMES, "run")
    assert figure.alternative == (
        "2 clients by 3 rounds: reply used 2, late 1, failed 1. Replies used in a round: from 0 to 1."
    )
    field, above, beside = figure.draw().axes
    assert np.array_equal(field.images[0].get_array(), found[:2])
    assert [bar.get_height() for bar in above.patches] == [1, 0, 1]
    assert [bar.get_width() for bar in beside.patches] == [1, 1]
    assert [text.get_text() for text in field.get_yticklabels()] == ["oak", "elm"]


def test_a_map_that_tells_nothing_is_left_out() -> None:
    assert figure_of(np.full((3, 2), OK, np.uint8), NAMES, "run") is None
    assert figure_of(np.array([[OK, NOT]], np.uint8), ["oak"], "run") is None
    many = [f"h{i}" for i in range(MOST_CLIENTS + 1)]
    assert states_of(lines((1, "h0", "train", "ok")), many).size == 0
    assert figure_of(np.zeros((0, 0), np.uint8), many, "run") is None


def test_it_stands_in_the_report_with_names_as_text(tmp_path: Path) -> None:
    rows = [client_row(1, 0, "<b>oak</b>", "train"), client_row(2, 1, "$elm$", "train")]
    rows += [round_row(1), round_row(2, **{"val_unseen.sr": 0.5}), round_row(2, "closing")]
    report = make_report([str(write_run(tmp_path / "x", "fedvln", rows))])
    (figure,) = (f for f in report.figures() if f.name == "who-trained-when")
    assert '<figure class="paper" role="group"' in as_html(report)
    svg = as_svg(figure, "x")
    assert "<b>" not in svg and "$elm$" in svg and "&lt;b&gt;oak" in svg
