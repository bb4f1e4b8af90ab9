"""Tables of metrics: how clients' values become one, what a run leaves of its table, and what readers make of it."""

from pathlib import Path

import pandas as pd
import pytest

from fedsuite.averaging.merging import merged_metrics
from fedsuite.errors import InputError
from fedsuite.history.metrics import METRICS, metrics_of, write_metrics
from fedsuite.history.tidy import evaluations
from fedsuite.settings.metrics import SHARE, SHARED, Metric, Metrics
from fedsuite.vln.metrics import AGENT_METRICS
from simulations.experiments.sweep import read_sweep
from simulations.systems import BUILT_IN, load_system

TABLE = Metrics((
    Metric("speed", "speed", "m/s", lower=False),
    Metric("falls", averaged="sum", tables="run"),
    Metric("sure", "surely", SHARE, order=1, tables="experiment"),
))  # fmt: skip


def test_the_row_says_how_clients_become_one() -> None:
    own = [{"speed": 1.0, "falls": 2.0, "count": 3.0}, {"speed": 5.0, "falls": 1.0, "count": 1.0}]
    assert merged_metrics(TABLE, own) == {"speed": 2.0, "falls": 3.0, "count": 4.0}
    assert merged_metrics(TABLE, [{"speed": 1.0}, {"speed": 5.0}], [1, 1]) == {"speed": 3.0}
    assert merged_metrics(TABLE, [{"speed": 1.0}], [0]) == {} == merged_metrics(TABLE, [])
    of_sums = Metrics((Metric("per", averaged=lambda s: s["a"] / s["b"]),))
    parts = [{"a": 1.0, "b": 2.0, "count": 1.0}, {"a": 5.0, "b": 1.0, "count": 1.0}]
    assert merged_metrics(of_sums, parts) == {"per": 2.0, "count": 2.0}


def test_what_is_shown_where() -> None:
    names = [[row.name for row in TABLE.shown(w)] for w in ("run", "experiment", "report")]
    assert names == [["sure", "speed", "falls"], ["sure", "speed"], ["speed"]]


def test_a_run_leaves_its_table(tmp_path: Path) -> None:
    write_metrics(tmp_path, TABLE)
    found = metrics_of(tmp_path)
    row = found.row("val_unseen.speed")
    assert (row.heading, row.unit, row.lower) == ("speed", "m/s", False)
    assert found.row("grip") == Metric("grip") and found.row("sure").percent == " (%)"
    (tmp_path / METRICS).write_text('{"speed": {"of-later": 1}}')
    assert metrics_of(tmp_path).row("speed") == Metric("speed")
    for damaged in ("[", '{"speed": 1}', '{"speed": {"title": 1}}', '{"speed": {"lower": "no"}}'):
        (tmp_path / METRICS).write_text(damaged)
        with pytest.raises(InputError, match=f"{METRICS}.*delete this one file"):
            metrics_of(tmp_path)


def test_a_run_of_before_has_the_rows_that_come_with_the_systems(tmp_path: Path) -> None:
    found = metrics_of(tmp_path)
    assert (found.row("test.f1").unit, found.row("val_seen.ne").unit) == (SHARE, "m")
    assert found.row("rmse").lower and not found.is_evaluation("train.loss")
    assert found.is_evaluation("val_seen.steps") and not found.is_evaluation("mixings")


def test_runs_may_have_other_units_for_a_name(tmp_path: Path) -> None:
    for name, unit in (("a", "m/s"), ("b", "km/h")):
        (tmp_path / name).mkdir()
        write_metrics(tmp_path / name, Metrics((Metric("speed", unit=unit),)))
    rounds = pd.DataFrame(
        {"run": ["a", "b", "b"], "round": [1, 1, 2], "speed": [1.0, 2.0, 3.0], "grip": 0.5}
    )
    sources = [(name, tmp_path / name) for name in ("a", "b")]
    frame = evaluations(sources, (rounds, pd.DataFrame()), (pd.DataFrame(), pd.DataFrame()))
    found = {(row.run, row.metric): row.unit for row in frame.itertuples()}
    assert found == {
        ("a", "speed"): "m/s", ("b", "speed"): "km/h", ("a", "grip"): "", ("b", "grip"): "",
    }  # fmt: skip


@pytest.mark.parametrize("system", BUILT_IN)
def test_names_are_given_once(system: str) -> None:
    made = load_system(system)
    names = [row.name for row in (*SHARED, *made.metrics(made.config_class()).rows)]
    assert len(names) == len(set(names)) > len(SHARED)


def test_a_sweep_knows_which_is_better() -> None:
    vary = {"k": [1, 2]}
    for metric, lower in (("val_unseen.ne", True), ("val_unseen.sr", False), ("unheard-of", False)):
        assert read_sweep({"metric": metric, "vary": vary}, "f", None, AGENT_METRICS).lower is lower
    said = {"metric": "val_unseen.ne", "vary": vary, "lower": False}
    assert read_sweep(said, "f", None, AGENT_METRICS).lower is False
