"""Result tables: spread over seeds, the value of a run, and both forms of the table."""

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from fedsuite.errors import InputError
from fedsuite.history import load_runs
from fedsuite.report.tables import (
    markdown_table,
    mean_and_spread,
    results_rows,
    results_table,
)

NAN = math.nan


def frame(sr, ne=None, run=None):
    table = pd.DataFrame({"round": range(1, len(sr) + 1), "sr": sr})
    if ne is not None:
        table["ne"] = ne
    if run is not None:
        table.insert(0, "run", run)
    return table


def seeds(*frames):
    return pd.concat([f.assign(run=f"seed-{i}") for i, f in enumerate(frames)])


def test_mean_and_spread_by_hand():
    three = mean_and_spread([1.0, NAN, 2.0, 6.0])
    assert (three.mean, three.n) == (3.0, 3)
    assert three.standard_deviation == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert three.text(1) == "3.0 ± 2.6"
    one = mean_and_spread([0.631])
    assert math.isnan(one.standard_deviation)
    assert one.text(1, scale=100) == "63.1"
    assert mean_and_spread([]).text() == "-"


def test_the_last_recorded_value_counts():
    rows = results_rows({"a": frame([0.1, 0.5, 0.3, NAN])}, ["sr"])
    assert rows == [{"run": "a", "seeds": "1", "sr": "0.30"}]


def test_the_best_round_counts_for_all_metrics():
    """Seed 0 is best in round 2, seed 1 in round 1 (the first of two equals)."""
    both = seeds(frame([0.1, 0.5, 0.3], [9.0, 8.0, 1.0]), frame([0.7, 0.7, 0.2], [4.0, 5.0, 6.0]))
    (row,) = results_rows({"a": both}, ["sr", "ne"], best_by="sr", percent=["sr"], digits=1)
    assert row == {"run": "a", "seeds": "2", "sr (%)": "60.0 ± 14.1", "ne": "6.0 ± 2.8"}


def test_row_order_of_the_frame_does_not_matter():
    both = seeds(frame([0.1, 0.5]), frame([0.2, 0.9])).sample(frac=1, random_state=3)
    (row,) = results_rows({"a": both}, ["sr"])
    assert row["sr"] == "0.70 ± 0.28"


def test_seeds_without_a_value_are_told():
    both = seeds(frame([0.5, 0.5], [NAN, NAN]), frame([0.5, 0.5], [3.0, NAN]))
    assert results_rows({"a": both}, ["ne"])[0]["ne"] == "3.00 (n=1)"
    assert results_rows({"a": both.assign(ne=np.nan)}, ["ne"])[0]["ne"] == "-"


def test_table_of_runs_on_disk(tmp_path):
    for name, values in (("lan-1", [0.2, 0.4]), ("lan-2", [0.1, 0.6])):
        (tmp_path / name).mkdir()
        lines = [
            json.dumps({"round": r, "kind": "round", "metrics": {"sr": v}})
            for r, v in enumerate(values, 1)
        ]
        (tmp_path / name / "history.jsonl").write_text("\n".join(lines) + "\n")
    table = results_table({"Fed-Lan": load_runs(tmp_path).rounds}, ["sr"], title="val_unseen")
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    assert "val_unseen" in out.getvalue() and "Fed-Lan" in out.getvalue()
    assert "0.50 ± 0.14" in out.getvalue()


def test_markdown():
    rows = results_rows({"a|b": frame([0.5]), "c": frame([0.25])}, ["sr"])
    assert markdown_table(rows) == (
        "| run | seeds | sr |\n| --- | ---: | ---: |\n| a\\|b | 1 | 0.50 |\n| c | 1 | 0.25 |\n"
    )
    with pytest.raises(ValueError, match=r"row 1: expected the columns \['a'\], got \['b'\]"):
        markdown_table([{"a": 1}, {"b": 2}])


def test_bad_input_is_named():
    with pytest.raises(InputError, match="run 'a' has no metric 'srr'; did you mean sr"):
        results_rows({"a": frame([0.5])}, ["srr"])
    with pytest.raises(InputError, match="it has ne, sr"):
        results_rows({"a": frame([0.5], [1.0])}, ["loss"])
    with pytest.raises(InputError, match="it has none"):
        results_rows({"a": pd.DataFrame()}, ["loss"])
    with pytest.raises(InputError, match="no runs to tabulate"):
        results_table({}, ["sr"])
