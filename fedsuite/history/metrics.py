"""What the metrics of the project mean: units, and which numbers of a round are no evaluation."""

import re
from collections.abc import Mapping

SHARE = "share"  # 0 to 1
UNITS: Mapping[str, str] = {
    **dict.fromkeys(("sr", "osr", "spl", "cls", "ndtw", "sdtw", "word-accuracy"), SHARE),
    **dict.fromkeys(("f1", "precision", "recall", "success-rate"), SHARE),
    **dict.fromkeys(("within-1x", "within-3x", "within-5x", "within-10x"), SHARE),
    **dict.fromkeys(("ne", "tl"), "m"),
    **dict.fromkeys(("bleu-1", "bleu-2", "bleu-3", "bleu-4", "bleu-4-published"), "0 to 100"),
    **dict.fromkeys(("steps", "mean-steps", "step-diff"), "steps"),
    **dict.fromkeys(("count", "tagged", "right", "total", "episodes"), "count"),
    **dict.fromkeys(("average-reward", "reward"), "reward"),
    "xe-loss": "nats",
}
"""By the last part of a metric's name."""

NO_EVALUATIONS = frozenset(
    (
        "local-steps", "serial-depth", "server-learning-rate", "update-norm", "modules-sent", "houses-per-client",
        "consensus-distance", "consensus-distance-before-mixing", "mixings", "overlay-bytes", "simulated-seconds",
        "silos-missing", "links-clipped", "exchanges", "epsilon", "selected-round", "best-round", "active", "ended",
    )
)  # fmt: skip
"""Numbers of rounds that count or describe training; so do all that start with "train." or "released."."""

_SPLIT = re.compile(r"(val|valid|test|train)([_-][\w-]+)?")
_OF_TRAINING = ("train.", "released.")


def is_evaluation(metric: str) -> bool:
    """Whether a metric of a round was measured by evaluating."""
    return metric not in NO_EVALUATIONS and not metric.startswith(_OF_TRAINING)


def split_of(metric: str) -> tuple[str, str]:
    """Split, or test, and metric: ("val_unseen", "sr") of val_unseen.sr; ("", "rmse") where there is only one."""
    head, dot, rest = metric.partition(".")
    return (head, rest) if dot and _SPLIT.fullmatch(head) else ("", metric)


def unit_of(metric: str) -> str:
    """The unit of a metric by the last part of its name; "" where it has none or nobody knows."""
    return UNITS.get(metric.rpartition(".")[2], "")
