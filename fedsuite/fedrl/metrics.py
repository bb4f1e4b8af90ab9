"""The tables of metrics of FedRL: scores of the parties together, by world. The first column is the score, then the reward.

The party with rewards scores all episodes, so that nothing is averaged over clients.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from fedsuite.metrics import COUNT, SHARE, Metric, Metrics

if TYPE_CHECKING:
    from fedsuite.fedrl.config import FedRLConfig

_share = partial(Metric, unit=SHARE, lower=False, digits=1)
REWARD = Metric("average-reward", "AvgRwd", "reward", lower=False, paper=True, curve="average reward")  # fmt: skip

GRIDWORLD = (
    _share("success-rate", "success", paper=True, curve="success"),
    REWARD,
    _share("within-1x", "within 2x optimum"),
    Metric("mean-steps", "mean steps", "steps", lower=True),
    *(_share(f"within-{k}x", tables="") for k in (3, 5, 10)),
    Metric("step-diff", unit="steps", lower=True, tables=""),
)
TEXT2ACTION = (
    _share("f1", "F1", paper=True, curve="F1"),
    REWARD,
    _share("precision", "precision"),
    _share("recall", "recall"),
    *(Metric(name, unit=COUNT, averaged="sum", tables="") for name in ("tagged", "right", "total")),
)
WORLDS: Mapping[str, tuple[Metric, ...]] = {"gridworld": GRIDWORLD, "text2action": TEXT2ACTION}
ALL = (*GRIDWORLD, *TEXT2ACTION)


def metrics_of(config: "FedRLConfig") -> Metrics:
    """Of a run's world."""
    return Metrics(WORLDS[config.world.kind])
