"""Tables of metrics: how clients' values become one, what a run leaves of its table, and what readers make of it."""

from pathlib import Path

import pandas as pd
import pytest

from fedsuite.averaging.merging import merged_metrics
from fedsuite.errors import InputError
from fedsuite.history.metrics import METRICS, metrics_of, write_metrics
from fedsuite.history.tidy import evaluations
from fedsuite.settings.metrics import SHARE, SHARED, Metric, Metrics, with_own
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


def test_what_tables_show_of_a_row() -> None:
    rows = {name: TABLE.row(name) for name in ("speed", "falls", "sure", "val_seen.sure", "other")}
    assert [row.scale for row in rows.values()] == [1, 1, 100, 100, 1]
    assert [row.heading for row in rows.values()] == ["speed", "falls", "surely", "surely", "other"]
    assert [row.percent for row in rows.values()] == ["", "", " (%)", " (%)", ""]


def test_values_of_sums() -> None:
    sums = {"speed": 6.0, "falls": 3.0, "squares": 20.0, "count": 4.0}
    assert (TABLE.row("speed").of(sums), TABLE.row("falls").of(sums)) == (1.5, 3.0)
    root = Metric("rms", sends="squares", averaged=lambda s: s["squares"] ** 0.5)
    assert root.of(sums) == 20**0.5 and Metric("mean", sends="squares").of(sums) == 5.0
    assert [row.sent for row in (root, TABLE.row("speed"))] == ["squares", "speed"]


def test_values_are_one_for_each_example() -> None:
    twice = Metric("twice", compute=lambda x, y: [2 * a for a in x])
    found = twice.values(2, [1, 2], [0, 0])
    assert found.dtype == float and found.tolist() == [2.0, 4.0]
    for count, given in ((3, [1, 2]), (1, [[1, 2]])):
        with pytest.raises(InputError, match=rf"twice gives numbers of shape .*each of {count} ex"):
            twice.values(count, given, given)


def test_rows_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_rows.py").write_text(
        "from fedsuite.settings.metrics import Metric\n"
        "def zero(x): return 0 * x\n"
        "ONE = Metric('grip', compute=zero)\n"
        "TWO = [ONE, Metric('slip', compute=zero)]\n"
        "AGAIN = Metric('speed', compute=zero)\n"
        "TWICE = [ONE, ONE]\n"
        "DOTTED = Metric('a.b', compute=zero)\n"
        "NAMELESS = Metric('', compute=zero)\n"
        "OF_ALL = Metric('epsilon', compute=zero)\n"
        "COLUMN = Metric('status', compute=zero)\n"
        "NOTHING = []\n"
        "UNCOMPUTED = Metric('grip')\n"
        "MIXED = [ONE, 3]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rows = TABLE.rows
    assert with_own(rows, "") == TABLE
    assert [r.name for r in with_own(rows, "own_rows:ONE").rows] == [
        "speed",
        "falls",
        "sure",
        "grip",
    ]
    assert [r.name for r in with_own(rows, "own_rows:TWO").rows[3:]] == ["grip", "slip"]
    for name in ("AGAIN", "TWICE", "DOTTED", "NAMELESS", "OF_ALL", "COLUMN"):
        with pytest.raises(InputError, match=f'"own_rows:{name}" has a metric .*rename it'):
            with_own(rows, f"own_rows:{name}")
    for name, kind in (
        ("NOTHING", "list"),
        ("UNCOMPUTED", "Metric"),
        ("MIXED", "list"),
        ("zero", "function"),
    ):
        with pytest.raises(InputError, match=f'"own_rows:{name}" is a {kind}, expected a Metric'):
            with_own(rows, f"own_rows:{name}")


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
