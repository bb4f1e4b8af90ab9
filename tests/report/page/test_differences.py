"""Differences between lines: paired run by run, with an interval, and said to be certain only where it leaves out 0."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedsuite.errors import InputError
from fedsuite.history import load_runs
from fedsuite.history.paired import paired
from simulations.results.report import make_report
from tests.report.page.conftest import table_named
from tests.written_runs import houses_run, parties_run, write_experiment

ALONE = {"federation.method": "local-only"}


def test_the_interval_is_that_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(5)
    for n in (2, 3, 5, 40):
        first, second = rng.normal(1, 2, n), rng.normal(0, 1, n)
        found = paired(dict(enumerate(first)), dict(enumerate(second)))
        twin = stats.ttest_rel(first, second).confidence_interval(0.95)
        assert found.n == n and math.isclose(found.mean, (first - second).mean(), rel_tol=1e-12)
        assert np.allclose((found.low, found.high), (twin.low, twin.high), rtol=1e-9)
        assert found.certain == (stats.ttest_rel(first, second).pvalue < 0.05)


def test_only_pairs_count() -> None:
    found = paired({0: 3.0, 1: 5.0, 2: math.nan, 7: 9.0}, {1: 4.0, 0: 1.0, 2: 0.0, 8: 100.0})
    assert (found.mean, found.n) == (1.5, 2)
    assert found.text(1) == "+1.5 (95 % -4.9 to +7.9, 2 pairs)" and not found.certain
    one, none = paired({1: 2.0}, {1: 1.0}), paired({1: 2.0}, {2: 1.0})
    assert one.text() == "+1.00 (one pair: no interval)" and math.isnan(one.low) and not one.certain
    assert none.text() == "- (no pair: no interval)" and none.n == 0 and not none.certain
    same = paired({1: 2.0, 2: 3.0}, {1: 2.0, 2: 3.0})
    assert (same.low, same.high) == (0.0, 0.0) and not same.certain


def houses(folder: Path, federated: list[float], alone: list[float]) -> Path:
    """An experiment of two variants, a run of each for every score."""
    for seed, score in enumerate(federated):
        houses_run(folder / "federated" / f"seed-{seed}", seed, score)
    for seed, score in enumerate(alone):
        houses_run(folder / "local" / f"seed-{seed}", seed, score, settings=ALONE)
    labels = [f"federated/seed-{s}" for s in range(len(federated))]
    write_experiment(folder, [*labels, *(f"local/seed-{s}" for s in range(len(alone)))])
    return folder


def test_a_report_opens_with_whether_the_best_is_certain(tmp_path: Path) -> None:
    sure = make_report([str(houses(tmp_path / "sure", [0.40, 0.50, 0.61], [0.30, 0.39, 0.50]))])
    (row,) = table_named(sure, "Differences")
    assert row == {
        "": "local", "SR val-unseen (%), less federated": "-10.67", "95 % interval": "-12.10 to -9.23", "pairs": "3",
        "certain": "yes",
    }  # fmt: skip
    assert (
        "federated is better than local, and that is certain (local less federated: -10.67, 95 % -12.10 to -9.23, 3 pairs)."
        in sure.answer[0]
    )
    open_ = make_report([str(houses(tmp_path / "open", [0.40, 0.50, 0.61], [0.45, 0.41, 0.60]))])
    assert table_named(open_, "Differences")[0]["certain"] == "no"
    assert "Whether federated is better than local, these runs leave open (local" in open_.answer[0]


def test_without_two_pairs_there_is_no_table(tmp_path: Path) -> None:
    report = make_report([str(houses(tmp_path / "one", [0.4, 0.5], [0.3]))])
    assert "one pair of runs cannot tell (local less federated: -10.00)" in report.answer[0]
    assert not [t for s in report.parts[0].sections for t in s.tables if t.title == "Differences"]


def test_tests_with_noise_are_no_pairs_of_those_without(tmp_path: Path) -> None:
    for fold, success in ((0, 0.6), (1, 0.8), (2, 0.7)):
        parties_run(tmp_path / "x" / f"fedrl-fold{fold}", "fedrl", fold, success)
        parties_run(tmp_path / "x" / f"dqn-alpha-fold{fold}", "dqn-alpha", fold, success - 0.1)
    names = [f"{m}-fold{f}" for m in ("fedrl", "dqn-alpha") for f in (0, 1, 2)]
    write_experiment(tmp_path / "x", names)
    report = make_report([str(tmp_path / "x")])
    rows = {row[""]: row for row in table_named(report, "Differences")}
    best = next(key for row in rows.values() for key in row if "less" in key).rpartition("less ")[2]
    paired_with = {name for name, row in rows.items() if row["pairs"] != "0"}
    noisy = {name for name in (*rows, best) if "noise" in name or name == "FedRL-2"}
    assert noisy and noisy != {*rows, best}
    assert paired_with == (noisy if best in noisy else {*rows, best} - noisy) - {best}


def test_runs_of_a_notebook_are_compared_by_variant(tmp_path: Path) -> None:
    runs = load_runs(houses(tmp_path / "nb", [0.40, 0.50, 0.61], [0.30, 0.39, 0.50]))
    found = runs.compare("federated", "local", "val_unseen.sr")
    assert found.n == 3 and found.certain and round(found.mean, 4) == 0.1067
    assert str(found) == "+0.1067 (95 % +0.0923 to +0.1210, 3 pairs)"
    with pytest.raises(InputError, match=r"variant \"locall\".*'local'"):
        runs.compare("federated", "locall", "val_unseen.sr")
    with pytest.raises(InputError, match=r"val_unseen\.srr.*'val_unseen\.sr'"):
        runs.compare("federated", "local", "val_unseen.srr")
