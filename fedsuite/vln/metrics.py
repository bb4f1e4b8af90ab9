"""The table of metrics of FedVLN: what an agent's walks score, and what a speaker's instructions do.

Rows of one's own (`evaluation.metrics`) are computed of `Walks` (fedsuite/vln/evaluation/metrics.py), one number per walk;
houses send their means, which are averaged by numbers of instructions. Speakers are scored by sums over houses.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fedsuite.settings.metrics import SHARE, Metric, Metrics, with_own

if TYPE_CHECKING:
    from fedsuite.vln.config import FedVLNConfig

SPEAKER_STAGE = "speaker"
# First in the history.
LEADING = (
    "val_unseen.sr", "val_seen.sr", "val_unseen.spl", "val_unseen.ne",
    "val_seen.bleu-2", "val_unseen.bleu-2", "val_seen.bleu-4", "val_unseen.bleu-4",
)  # fmt: skip


def _bleu(order: int, published: bool, sums: Mapping[str, float]) -> float:
    from fedsuite.vln.evaluation.bleu import corpus_bleu  # whoever reads tables has no use for it

    return corpus_bleu(sums, order, published)


def _of_words(name: str, sums: Mapping[str, float]) -> float:
    return sums[name] / max(sums["target-words"], 1.0)


_share = partial(Metric, unit=SHARE, lower=False)
_metres = partial(Metric, unit="m", digits=2)
_corpus = partial(Metric, unit="0 to 100", lower=False)

AGENT = (
    _share("sr", "SR", order=4, paper=True, curve="success rate"),
    _share("spl", "SPL", order=3, paper=True),
    _metres("ne", "NE (m)", lower=True, order=1, paper=True),
    _share("osr", "OSR", order=2, paper=True),
    _share("cls", "CLS", order=5, paper=True),
    _share("ndtw", "nDTW", order=6, paper=True),
    _share("sdtw", "SDTW", order=7, tables="run"),
    _metres("tl", "TL (m)", order=8, tables="run"),
    Metric("steps", unit="steps", tables=""),
)
# Of runs with a backdoor, in houses that are walked with triggers (fedsuite/vln/training/backdoor.py).
BACKDOOR = (
    Metric("asr", "ASR", SHARE, lower=True, counted_by="triggered", order=9, tables="experiment"),
    _share("triggered-sr", "SR, triggers", order=10, tables="experiment"),
    Metric("triggered", averaged="sum", tables="", evaluation=False),
)
GOAL_PROGRESS = _metres("gp", "GP (m)", lower=False, order=0)  # of NDH alone
SPEAKER = (
    _corpus("bleu-1", "BLEU-1", averaged=partial(_bleu, 1, False), tables="experiment"),
    _corpus(
        "bleu-2", "BLEU-2", averaged=partial(_bleu, 2, False), paper=True, curve="BLEU-2"
    ),
    _corpus("bleu-3", "BLEU-3", averaged=partial(_bleu, 3, False), tables="experiment"),
    _corpus("bleu-4", "BLEU-4", averaged=partial(_bleu, 4, False)),
    _corpus("bleu-4-published", "BLEU-4, published", averaged=partial(_bleu, 4, True)),
    Metric(
        "xe-loss", "cross-entropy", "nats", lower=True, tables="run",
        averaged=partial(_of_words, "cross-entropy"),
    ),
    _share(
        "word-accuracy", "word accuracy", tables="run", averaged=partial(_of_words, "right-words")
    ),
)  # fmt: skip
AGENT_METRICS, SPEAKER_METRICS = Metrics(AGENT), Metrics(SPEAKER)
ALL = (*AGENT, GOAL_PROGRESS, *BACKDOOR, *SPEAKER)


def metrics_of(config: "FedVLNConfig") -> Metrics:
    """Of a run's stage."""
    if config.stage == SPEAKER_STAGE:
        return SPEAKER_METRICS
    rows = (GOAL_PROGRESS, *AGENT) if config.data.dataset == "ndh" else AGENT
    rows = (*rows, *BACKDOOR) if config.sabotage.triggers else rows
    return with_own(rows, config.evaluation.metrics)


def as_metrics(report: Any) -> dict[str, float]:
    """A training report by the names of its fields, as it is sent."""
    return {key.replace("_", "-"): value for key, value in vars(report).items()}
