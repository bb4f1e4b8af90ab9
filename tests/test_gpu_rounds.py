"""What `benchmarks.gpu_rounds` makes of a run's timings, and of its views."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu_rounds import seconds_of, widened
from fedsuite.history import TIMINGS, HistoryWriter
from fedsuite.vln.data.view_files import read_hdf5


def lines(number: int, seconds: float, evaluation: float, kind: str = "round") -> dict[str, Any]:
    spent = {"waiting-seconds": seconds - evaluation, "merging-seconds": 0.0}
    return {
        "round": number,
        "kind": kind,
        "seconds": seconds,
        "evaluation-seconds": evaluation,
    } | spent


def test_minutes_of_a_whole_run_come_from_the_medians_of_a_short_one(tmp_path: Path) -> None:
    ready = {"round": 0, "kind": "ready", "seconds": 20.0}
    rounds = [lines(0, 10, 10), lines(1, 15, 0), lines(2, 10, 3), lines(3, 7, 0), lines(4, 13, 5)]
    HistoryWriter(tmp_path / TIMINGS).append([ready, *rounds, lines(4, 6, 6, "closing")])
    found = seconds_of(tmp_path, rounds=100, every=2)
    assert (found["start"], found["training"], found["evaluation"]) == (45.0, 7.0, 4.0)
    assert found["minutes"] == pytest.approx((45 + 99 * 7 + 50 * 4 + 6) / 60)
    assert seconds_of(tmp_path, rounds=100, every=0)["minutes"] == pytest.approx(
        (45 + 99 * 7 + 6) / 60
    )


def test_widened_views_keep_who_they_are_of(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    given = {f"house_{place}": rng.random((36, 8), np.float32) for place in ("a", "b")}
    with h5py.File(tmp_path / "views.hdf5", "w") as entries:
        for name, views in given.items():
            entries[name] = views
    wide = widened(tmp_path / "views.hdf5", 32, tmp_path / "wide.hdf5")
    found = {f"{scan}_{place}": views for scan, place, views in read_hdf5(wide)}
    assert set(found) == set(given)
    assert {views.shape for views in found.values()} == {(36, 32)}
    assert not np.allclose(found["house_a"], found["house_b"])
    assert all(0.2 < (views > 0).mean() < 0.95 for views in found.values())
