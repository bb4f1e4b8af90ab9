"""The table of metrics of CDL: what networks that steer are scored by.

Rows of one's own (`evaluation.metrics`) are computed of the steered and the recorded angles of n frames, [n] each, one
number per frame. Silos send sums over frames; what is said of all is of the union of the frames.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fedsuite.settings.metrics import Metric, Metrics, with_own

if TYPE_CHECKING:
    from fedsuite.driving.config import CDLConfig


def _squared(steered: np.ndarray, recorded: np.ndarray) -> np.ndarray:
    return np.square(steered - recorded)


def _absolute(steered: np.ndarray, recorded: np.ndarray) -> np.ndarray:
    return np.abs(steered - recorded)


def _root(sums: Mapping[str, float]) -> float:
    return float(np.sqrt(sums["squared-error"] / sums["count"]))


_error = partial(Metric, lower=True, digits=3)
ERRORS = (
    _error(
        "rmse", "RMSE", compute=_squared, sends="squared-error", averaged=_root, paper=True,
        curve="RMSE of the average model",
    ),
    _error("mae", "MAE", compute=_absolute, sends="absolute-error", paper=True),
)  # fmt: skip
ALL = (
    *ERRORS,
    _error("silo-rmse.mean", "silo RMSE", curve="RMSE of own models at home, mean"),
    _error("silo-rmse.worst", "worst silo"),
    _error("everywhere-rmse.mean", "everywhere"),
)


def metrics_of(config: "CDLConfig") -> Metrics:
    """Of a run."""
    return with_own(ALL, config.evaluation.metrics)
