"""The tables of metrics of FedRL: scores of the parties together, by world. The first column is the score, then the reward.

The party with rewards scores all episodes, so that nothing is averaged over clients. Rows of one's own
(`evaluation.metrics`) are computed of `Played`, one number per episode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fedsuite.settings.metrics import COUNT, SHARE, Metric, Metrics, with_own

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
    return with_own(WORLDS[config.world.kind], config.evaluation.metrics)


@dataclass(frozen=True)
class Played:
    """n episodes that are over.

    reward [n]: the sum of an episode's; steps [n]: of a text its words. met [n], bool: whether the agents met; least [n]:
    in how many steps they can; a text is always read, in as many as it has words.
    """

    reward: np.ndarray
    steps: np.ndarray
    met: np.ndarray
    least: np.ndarray

    def means(self, rows: Sequence[Metric]) -> dict[str, float]:
        """Of every row, over the episodes."""
        return {m.name: float(m.values(len(self.steps), self).mean()) for m in rows}


PLAYED = Played(np.array([9.0, -1.0]), np.array([2, 8]), np.array([True, False]), np.array([2, 3]))
"""Two episodes, to try a metric on."""
