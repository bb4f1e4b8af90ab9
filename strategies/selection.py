"""Which round's model is the result of a run: the last one's, or the best on one validation split.

The best model so far travels in the server state under `best.`, so that it survives a restart. Agents are compared by
success rate, then SPL; speakers by BLEU-2, then BLEU-4. The earliest of equals wins. Choosing on val-unseen is what
the published numbers do; they choose on what they report.
"""

from collections.abc import Mapping

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.federation import Scalar
from fedsuite.vln.config import FedVLNConfig

BEST = "best."
BEST_ROUND, BEST_SCORE, BEST_SECOND = "best-round", "best-score", "best-second-score"


def criteria(config: FedVLNConfig) -> tuple[str, str] | None:
    """The metrics that decide, the second between equals; None if the last round counts."""
    if config.selection == "last":
        return None
    split = config.selection.removeprefix("best-").replace("-", "_")
    names = ("bleu-2", "bleu-4") if config.stage == "speaker" else ("sr", "spl")
    return f"{split}.{names[0]}", f"{split}.{names[1]}"


def keep_best(
    config: FedVLNConfig,
    number: int,
    metrics: Mapping[str, float],
    model: Arrays,
    before: Mapping[str, Scalar],
    best: Arrays,
) -> tuple[Arrays, dict[str, Scalar]]:
    """(best arrays under their prefix, scalars) after round `number`; `best`, `before`: what there was until now."""
    wanted = criteria(config)
    if wanted is None:
        return {}, {}
    kept = {k: before[k] for k in (BEST_ROUND, BEST_SCORE, BEST_SECOND) if k in before}
    if wanted[0] not in metrics:
        return best, kept
    score = tuple(metrics[name] for name in wanted)
    if BEST_ROUND in kept and score <= (float(kept[BEST_SCORE]), float(kept[BEST_SECOND])):
        return best, kept
    scalars: dict[str, Scalar] = {BEST_ROUND: number, BEST_SCORE: score[0], BEST_SECOND: score[1]}
    return with_prefix(model, BEST), scalars


def best_of(arrays: Arrays) -> Arrays:
    """The best model in a server state, by plain names; {} if there is none."""
    return under_prefix(arrays, BEST)
