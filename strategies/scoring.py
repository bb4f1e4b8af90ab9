"""How the scores of houses become one: agents by means over instructions, speakers by sums of what BLEU counts.

A house names its metrics `<split>.<metric>`, with `<split>.count`, its instructions (for speakers its paths).
"""

from collections.abc import Callable, Mapping, Sequence

from fedsuite.arrays import Arrays
from fedsuite.averaging.merging import weighted_means
from fedsuite.federation import Asking, ClientInfo, Reply, Scalar, Task
from fedsuite.vln.evaluation.bleu import speaker_scores
from fedsuite.vln.message_keys import TEST, VALIDATION

# Shown first.
HEADLINE = (
    "val_unseen.sr", "val_seen.sr", "val_unseen.spl", "val_unseen.ne",
    "val_seen.bleu-2", "val_unseen.bleu-2", "val_seen.bleu-4", "val_unseen.bleu-4",
)  # fmt: skip
Scores = Callable[[Sequence[Mapping[str, float]]], dict[str, float]]


def under_split(metrics: Mapping[str, float], split: str) -> dict[str, float]:
    """The metrics named `<split>.<name>`, by name."""
    return {k.removeprefix(f"{split}."): v for k, v in metrics.items() if k.startswith(f"{split}.")}


def agent_means(own: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over instructions, and their number; `own`: metrics of one split by house."""
    counts = [m.get("count", 0.0) for m in own]
    if not sum(counts):
        return {}
    without = [{k: v for k, v in m.items() if k != "count"} for m in own]
    return {**weighted_means(without, counts), "count": sum(counts)}


def speaker_corpus(own: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Corpus BLEU over all houses: their counts add up."""
    names = dict.fromkeys(name for m in own for name in m)
    sums = {name: sum(m.get(name, 0.0) for m in own) for name in names}
    return speaker_scores(sums) if sums.get("count") else {}


def merged_scores(replies: Sequence[Reply], scores: Scores) -> dict[str, float]:
    """One set of metrics, headline first."""
    means: dict[str, float] = {}
    for split in VALIDATION:
        own = [under_split(r.metrics, split) for r in replies]
        means |= {f"{split}.{k}": v for k, v in scores([m for m in own if m]).items()}
    return {k: means[k] for k in HEADLINE if k in means} | means


def by_split(clients: Sequence[ClientInfo]) -> list[list[ClientInfo]]:
    """Clients with validation instructions, those that have unseen ones apart."""
    seen, unseen = (f"{split}.count" for split in VALIDATION)
    apart = [c for c in clients if c.details.get(unseen, 0)]
    rest = [c for c in clients if c.details.get(seen, 0) and not c.details.get(unseen, 0)]
    return [rest, apart]


def evaluate_everywhere(
    model: Arrays,
    clients: Sequence[ClientInfo],
    scores: Scores = agent_means,
    config: Mapping[str, Scalar] | None = None,
) -> Asking[dict[str, float]]:
    """Score one model on the validation instructions of every house that has some; if they write, the leaderboard's too."""
    asked = dict(config or {})
    counts = [f"{split}.count" for split in VALIDATION]
    needs = {c.partition: tuple(n for n in counts if c.details.get(n, 0)) for c in clients}
    writes = {
        c.partition for c in clients if asked.get("write") and c.details.get(f"{TEST}.count", 0)
    }
    replies = yield [
        Task(p, "evaluate", model, asked, {}, needs=own)
        for p, own in needs.items()
        if own or p in writes
    ]
    return merged_scores(replies, scores)
