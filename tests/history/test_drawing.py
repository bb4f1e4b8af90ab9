"""`run.plot`: what stands in the axes, and what is said of a metric that is not there."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.history import load_run, load_runs
from tests.written_runs import houses_run, parties_run, write_experiment

SR = "val_unseen.sr"


@pytest.fixture(autouse=True)
def closed():
    """No display, and no figure that stays."""
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "houses"
    for seed, score in ((0, 0.4), (1, 0.6)):
        houses_run(folder / "federated" / f"seed-{seed}", seed, score)
    houses_run(folder / "local" / "seed-0", 0, 0.2)
    write_experiment(folder, ["federated/seed-0", "federated/seed-1", "local/seed-0"])
    return folder


def test_a_run_is_one_line_of_its_evaluated_rounds(houses: Path) -> None:
    axes = load_run(houses / "federated" / "seed-0").plot(SR)
    (line,) = axes.get_lines()
    assert line.get_xdata().tolist() == [0, 2] and line.get_ydata() == pytest.approx([4, 40])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "val_unseen.SR (%)")
    assert axes.get_legend() is None and not axes.collections


def test_seeds_are_a_mean_with_a_band_and_variants_a_line_each(houses: Path) -> None:
    axes = load_runs(houses).plot(SR)
    federated, local = axes.get_lines()
    assert federated.get_ydata() == pytest.approx([5, 50]) and local.get_ydata() == pytest.approx(
        [2, 20]
    )
    titles = [text.get_text() for text in axes.get_legend().get_texts()]
    assert titles == ["federated (mean of 2 runs)", "local"]
    (band,) = axes.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert heights.max() == pytest.approx(50 + np.std([40, 60], ddof=1))
    assert heights.min() == pytest.approx(5 - np.std([4, 6], ddof=1))


def test_it_draws_over_counts_and_on_axes_that_are_given(houses: Path) -> None:
    run = load_run(houses / "local" / "seed-0")
    mine = run.plot(SR, x="local-steps")
    assert mine.get_xlabel() == "local-steps"
    assert mine.get_lines()[0].get_xdata().tolist() == [0, 20]
    assert run.plot("val_unseen.spl", axes=mine) is mine and len(mine.get_lines()) == 2
    federated, _ = load_runs(houses).plot(SR, x="local-steps").get_lines()  # as many in each of two
    assert federated.get_xdata().tolist() == [0, 20]


def test_runs_of_several_experiments_are_told_apart(houses: Path, tmp_path: Path) -> None:
    alone = houses_run(tmp_path / "alone", 0, 0.3)
    axes = load_runs([houses, alone]).plot(SR)
    titles = [text.get_text() for text in axes.get_legend().get_texts()]
    assert titles == ["houses/federated (mean of 2 runs)", "houses/local", "alone"]


def test_an_unknown_metric_is_answered_with_near_names(houses: Path, tmp_path: Path) -> None:
    run = load_run(houses / "local" / "seed-0")
    with pytest.raises(
        InputError, match=r"no round has a metric 'val_unsen.sr'; did you mean 'val_unseen.sr' or"
    ):
        run.plot("val_unsen.sr")
    with pytest.raises(InputError, match=r"metric 'zzz'; it has round, .*val_unseen.sr"):
        run.plot("zzz")
    with pytest.raises(InputError, match="metric 'local-step'; did you mean 'local-steps'"):
        run.plot(SR, x="local-step")
    party = load_run(parties_run(tmp_path / "party", "fedrl", 0, 0.5))
    with pytest.raises(InputError, match="measured once, after the last round; see `final`"):
        party.plot("test.success-rate")
