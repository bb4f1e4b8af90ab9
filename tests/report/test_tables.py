"""Mean and spread over seeds, and tables in Markdown."""

import math

import pytest

from fedsuite.errors import InputError
from fedsuite.reports.tables import markdown_table, mean_and_spread


def test_mean_and_spread_by_hand():
    three = mean_and_spread([1.0, math.nan, 2.0, 6.0])
    assert (three.mean, three.n) == (3.0, 3)
    assert three.standard_deviation == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert three.text(1) == "3.0 ± 2.6"
    one = mean_and_spread([0.631])
    assert math.isnan(one.standard_deviation)
    assert one.text(1, scale=100) == "63.1"
    assert mean_and_spread([]).text() == "-"


def test_markdown():
    rows = [{"run": "a|b", "sr": "0.50"}, {"run": "c", "sr": "0.25"}]
    assert markdown_table(rows) == "| run | sr |\n| --- | ---: |\n| a\\|b | 0.50 |\n| c | 0.25 |\n"
    with pytest.raises(ValueError, match=r"row 1: expected the columns \['a'\], got \['b'\]"):
        markdown_table([{"a": 1}, {"b": 2}])
    with pytest.raises(InputError, match="no runs to tabulate"):
        markdown_table([])
