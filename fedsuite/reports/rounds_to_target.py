"""How soon a run reaches a value of a metric: rounds to a target, best and last value.

A course holds the evaluated rounds of one run: rounds [n] int64 ascending, values [n] of the metric,
steps [n] the metric local-steps there, cumulative (NaN where unknown). Round frames are those of
`fedsuite.history.load_runs`; rounds without evaluation hold NaN and are left out.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

STEPS = "local-steps"
_SELECTED = "selected-round"  # the final scores are of this round's model


@dataclass(frozen=True)
class Course:
    """One metric over the evaluated rounds of one run."""

    rounds: np.ndarray
    values: np.ndarray
    steps: np.ndarray

    def reached(self, target: float, lower: bool = False) -> int | None:
        """Place of the first evaluated round whose value is at least (lower: at most) the target."""
        hits = np.flatnonzero(self.values <= target if lower else self.values >= target)
        return int(hits[0]) if len(hits) else None

    def best(self, lower: bool = False) -> int:
        """Place of the first round with the best value."""
        return int(self.values.argmin() if lower else self.values.argmax())


def course_of(rounds: pd.DataFrame, final: pd.DataFrame, metric: str) -> Course | None:
    """None if the metric was never recorded; the final evaluation counts for its model's round if that had none."""
    frame = rounds.reindex(columns=["round", metric, STEPS])
    last = final.reindex(columns=["round", metric, _SELECTED])
    of_its_round = last[_SELECTED].isna() | (last[_SELECTED] == last["round"])
    found = frame.dropna(subset=metric)
    new = last[of_its_round & ~last["round"].isin(found["round"])]
    steps = frame.set_index("round")[STEPS]
    new = new[["round", metric]].assign(**{STEPS: new["round"].map(steps)})
    parts = [part for part in (found, new.dropna(subset=metric)) if len(part)]
    if not parts:
        return None
    merged = pd.concat(parts).sort_values("round", kind="stable")
    return Course(
        merged["round"].to_numpy(np.int64),
        merged[metric].to_numpy(np.float64),
        merged[STEPS].to_numpy(np.float64),
    )
