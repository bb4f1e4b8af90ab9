"""Curves of what training was measured by, and dotted lines of what does not learn."""

from pathlib import Path

import pytest

from simulations.results.report import make_report
from tests.report.page.test_same_data import house, walked
from tests.written_runs import houses_run, round_row, silos_run, write_experiment, write_run


def figure_named(report, name: str):
    (found,) = (f for f in report.figures() if f.name == name)
    return found


def titled(report, title: str):
    return [s for s in report.parts[0].sections if s.title == title]


def test_losses_and_norms_are_drawn_by_round_with_a_band_over_seeds(tmp_path: Path) -> None:
    for seed, start in ((0, 4.0), (1, 6.0)):
        rows = [
            round_row(n, **{"train.sampled-loss": start / n, "train.gradient-norm": 1.0, "train.loss-limit": 9.0})
            for n in (1, 2)
        ]  # fmt: skip
        rows.append(round_row(2, "closing", **{"val_unseen.sr": 0.5}))
        write_run(tmp_path / "x" / f"seed-{seed}", "fedvln", rows, {"seed": seed})
    write_experiment(tmp_path / "x", ["seed-0", "seed-1"])
    report = make_report([str(tmp_path / "x")])
    (section,) = titled(report, "Training")
    assert [f.title for f in section.figures] == [
        "sampled loss in training over rounds", "gradient norm in training over rounds",
    ]  # fmt: skip
    (axes,) = section.figures[0].draw().axes
    assert axes.get_lines()[0].get_ydata() == pytest.approx([5.0, 2.5])
    low, high = axes.collections[0].get_datalim(axes.transData).intervaly
    assert (low, high) == pytest.approx((2.5 - 0.5**0.5, 5.0 + 2**0.5))


def test_runs_without_measures_of_training_have_no_such_section(houses) -> None:
    assert titled(houses, "Training") == []


def dotted(figure) -> dict[str, float]:
    (axes,) = figure.draw().axes
    return {line.get_label(): line.get_ydata()[0] for line in axes.get_lines() if line.get_color() == "grey"}  # fmt: skip


def test_what_does_not_learn_is_a_dotted_line_where_the_metric_is_the_same(tmp_path: Path) -> None:
    report = make_report([str(houses_run(tmp_path / "one", 0, 0.4))])
    figure = figure_named(report, "val_unseen-sr-over-round")
    assert list(dotted(figure).values()) == [5.0]  # the start of training begins the line itself
    assert "dotted, random walk: 5" in figure.alternative
    legend = [text.get_text() for text in figure.draw().legends[0].get_texts()]
    assert legend == ["one", "random walk (does not learn)"]
    silos = make_report([str(silos_run(tmp_path / "silos"))])
    assert list(dotted(figure_named(silos, "rmse-over-round")).values()) == [0.31, 0.4]


def test_baselines_of_other_data_are_not_drawn(tmp_path: Path) -> None:
    few, many = ([house(f"h{i}", "seen") for i in range(n)] for n in (1, 2))
    runs = [walked(tmp_path / "few", 0.4, 0.04, few), walked(tmp_path / "many", 0.2, 0.02, many)]
    report = make_report([str(run) for run in runs])
    assert dotted(figure_named(report, "val_unseen-sr-over-round")) == {}
