"""Tables and curves of a sweep, by hand, and the course of a metric against a walk through its rounds."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsuite.reports import sweep_curves
from fedsuite.reports.rounds_to_target import course_of
from simulations.experiments.sweep import Sweep
from simulations.experiments.sweep_table import write_sweep

pytestmark = pytest.mark.drawn


def recorded(
    folder: Path, label: str, seed: int, rows: list[dict], closing: dict | None = None
) -> None:
    """A completed run with these metrics per round (None: not evaluated)."""
    place = folder / label
    place.mkdir(parents=True)
    lines = [{"kind": "round", "round": i, "metrics": m} for i, m in enumerate(rows)]
    if closing is not None:
        lines.append({"kind": "closing", "round": len(rows) - 1, "metrics": closing})
    (place / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (place / "config.json").write_text(json.dumps({"seed": seed}))


def scores(*values: float | None) -> list[dict]:
    """Rows of local-steps = 10 a round and, where evaluated, val_unseen.sr."""
    return [
        {"local-steps": 10 * i} | ({} if v is None else {"val_unseen.sr": v})
        for i, v in enumerate(values)
    ]


def test_table_by_hand(tmp_path: Path) -> None:
    recorded(tmp_path, "rate-1/seed-0", 0, scores(0.1, None, 0.25, 0.4, None, 0.35))
    recorded(tmp_path, "rate-1/seed-1", 1, scores(0.1, None, 0.2, 0.25, None, 0.3))
    recorded(tmp_path, "rate-2/seed-0", 0, scores(0.1, 0.2))
    recorded(tmp_path, "rate-2/seed-1", 1, [{"local-steps": 0}, {"local-steps": 10}])
    labels = [f"rate-{r}/seed-{s}" for r in (1, 2, 3) for s in (0, 1)]
    sweep = Sweep("val_unseen.sr", {"rate": (1.0, 2.0, 3.0)}, (0.25, 0.4))
    write_sweep(tmp_path, sweep, labels, labels[:4])
    text = (tmp_path / "results.md").read_text()
    assert text.splitlines()[2:] == [
        "| rate | seeds | rounds to 0.25 | local steps to 0.25 | rounds to 0.4 | local steps to 0.4 | best "
        "| at round | last |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        # Best: 0.4 in round 3 and 0.3 in round 5; last: 0.35 and 0.3.
        "| 1 | 2 | 2.5 | 25 | 3 (1 of 2 seeds) | 30 (1 of 2 seeds) | 0.3500 ± 0.0707 | 4 | 0.3250 ± 0.0354 |",
        "| 2 | 2 | - | - | - | - | 0.2000 (1 of 2 seeds) | 1 (1 of 2 seeds) | 0.2000 (1 of 2 seeds) |",
    ]
    assert "published protocol" in text and "4 of 6 runs are completed." in text
    assert "higher is better" in text and "at least the target" in text
    table = pd.read_csv(tmp_path / "results.csv")
    assert len(table) == 8
    first = table.iloc[0].to_dict()
    assert first == {
        "run": "rate-1/seed-0", "rate": 1.0, "seed": 0, "metric": "val_unseen.sr", "target": 0.25,
        "rounds": 2.0, "local-steps": 20.0, "best": 0.4, "best-round": 3.0, "last": 0.35,
    }  # fmt: skip
    assert table["rounds"].isna().tolist() == [False, False, False, True, True, True, True, True]
    assert table["best"].isna().tolist() == [False] * 6 + [True] * 2


def test_rounds_to_a_target_agree_with_a_walk_through_the_rounds() -> None:
    rng = np.random.default_rng(0)
    for lower in (False, True):
        for _ in range(50):
            values = rng.choice([0.1, 0.2, 0.3, 0.4, math.nan], size=6)
            if np.isnan(values).all():
                continue
            rounds = pd.DataFrame({"run": "r", "round": range(6), "m": values})
            course = course_of(rounds, pd.DataFrame(), "m")
            assert course is not None
            first, best = None, None
            for number, value in enumerate(values):
                if math.isnan(value):
                    continue
                if first is None and (value <= 0.25 if lower else value >= 0.25):
                    first = number
                if best is None or (value < values[best] if lower else value > values[best]):
                    best = number
            place = course.reached(0.25, lower)
            assert (None if place is None else course.rounds[place]) == first
            assert course.rounds[course.best(lower)] == best


@pytest.mark.parametrize(
    ("rows", "closing", "expected"),
    [
        (scores(0.1, None), {"val_unseen.sr": 0.3}, [(0, 0.1), (1, 0.3)]),
        (scores(0.1, 0.2), {"val_unseen.sr": 0.3}, [(0, 0.1), (1, 0.2)]),
        (scores(0.1, None), {"val_unseen.sr": 0.1, "selected-round": 0}, [(0, 0.1)]),
        (scores(None, None), {"val_unseen.sr": 0.3, "selected-round": 1}, [(1, 0.3)]),
        (scores(None, None), {"loss": 0.3}, None),
    ],
)
def test_the_closing_counts_where_its_round_was_not_evaluated(rows, closing, expected) -> None:
    frames = [
        pd.DataFrame([{"run": "r", "round": i} | m for i, m in enumerate(rows)]),
        pd.DataFrame([{"run": "r", "round": len(rows) - 1} | closing]),
    ]
    course = course_of(*frames, "val_unseen.sr")
    if expected is None:
        assert course is None
        return
    assert list(zip(course.rounds, course.values, strict=True)) == expected
    assert course.steps.tolist() == [10.0 * r for r, _ in expected]


def test_curves_of_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Colour by the first key, style by the second, markers by the others; seeds as a mean with a band."""
    made = []
    original = sweep_curves.blank_figure

    def recording(*size: float):
        figure, axes = original(*size)
        made.append(axes)
        return figure, axes

    monkeypatch.setattr(sweep_curves, "blank_figure", recording)

    def frame(*values: float, run: str = "r") -> pd.DataFrame:
        return pd.DataFrame({"run": run, "round": range(1, len(values) + 1), "value": values})

    both = pd.concat([frame(0.1, 0.3, run="s"), frame(0.3, 0.7, run="t")])
    curves = {
        ("1", "a", "x", "y"): both,
        ("1", "b", "x", "y"): frame(0.2, 0.2),
        ("2", "a", "x", "z"): frame(0.5, 0.6),
    }
    file = tmp_path / "sweep.png"
    sweep_curves.sweep_curves(curves, ["rate", "kind", "p", "q"], "sr", [0.25], file)
    assert file.read_bytes().startswith(b"\x89PNG")
    (axes,) = made
    first, second, third, target = axes.get_lines()
    assert first.get_ydata() == pytest.approx([0.2, 0.5])
    assert first.get_color() == second.get_color() != third.get_color()
    assert first.get_linestyle() == third.get_linestyle() != second.get_linestyle()
    assert first.get_marker() == second.get_marker() != third.get_marker()
    assert list(target.get_ydata()) == [0.25, 0.25] and len(axes.collections) == 1
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "rate = 1", "rate = 2", "kind = a", "kind = b", "p, q = x, y", "p, q = x, z"
    ]  # fmt: skip


def test_many_values_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    save = sweep_curves.save_figure
    monkeypatch.setattr(sweep_curves, "save_figure", lambda f, p: (made.append(f), save(f, p)))
    frame = pd.DataFrame({"run": "r", "round": [1, 2], "value": [0.1, 0.2]})
    for at in (0, 1):
        curves = {(str(i), "a") if at == 0 else ("a", str(i)): frame for i in range(9)}
        sweep_curves.sweep_curves(curves, ["k", "l"], "sr", [], tmp_path / "sweep.png")
        lines = made[-1].axes[0].get_lines()
        seen = {(str(line.get_color()), str(line._unscaled_dash_pattern)) for line in lines}
        assert len(lines) == 9 and len(seen) == 9
