"""How the scores of houses become one, split by split, as the rows of the table of metrics say (fedsuite/vln/metrics.py).

A house names its metrics `<split>.<metric>`, with `<split>.count`, its instructions (for speakers its paths).
"""

from collections.abc import Mapping, Sequence

from fedsuite.arrays import Arrays
from fedsuite.averaging.merging import merged_metrics
from fedsuite.federation import Asking, ClientInfo, Reply, Scalar, Task
from fedsuite.settings.metrics import Metrics
from fedsuite.vln.message_keys import TEST, VALIDATION
from fedsuite.vln.metrics import LEADING


def under_split(metrics: Mapping[str, float], split: str) -> dict[str, float]:
    """The metrics named `<split>.<name>`, by name."""
    return {k.removeprefix(f"{split}."): v for k, v in metrics.items() if k.startswith(f"{split}.")}


def merged_scores(replies: Sequence[Reply], metrics: Metrics) -> dict[str, float]:
    """One set of metrics, the leading ones first."""
    merged: dict[str, float] = {}
    for split in VALIDATION:
        own = [under_split(r.metrics, split) for r in replies]
        merged |= {
            f"{split}.{k}": v for k, v in merged_metrics(metrics, [m for m in own if m]).items()
        }
    return {k: merged[k] for k in LEADING if k in merged} | merged


def by_split(clients: Sequence[ClientInfo]) -> list[list[ClientInfo]]:
    """Clients with validation instructions, those that have unseen ones apart."""
    seen, unseen = (f"{split}.count" for split in VALIDATION)
    apart = [c for c in clients if c.details.get(unseen, 0)]
    rest = [c for c in clients if c.details.get(seen, 0) and not c.details.get(unseen, 0)]
    return [rest, apart]


def evaluate_everywhere(
    model: Arrays,
    clients: Sequence[ClientInfo],
    metrics: Metrics,
    config: Mapping[str, Scalar] | None = None,
) -> Asking[dict[str, float]]:
    """Score one model on the validation instructions of every house that has some; if they write, the leaderboard's too,
    and if they export a model of their own, all."""
    asked = dict(config or {})
    counts = [f"{split}.count" for split in VALIDATION]
    needs = {c.partition: tuple(n for n in counts if c.details.get(n, 0)) for c in clients}
    writes = {
        c.partition for c in clients if asked.get("write") and c.details.get(f"{TEST}.count", 0)
    }
    replies = yield [
        Task(p, "evaluate", model, asked, {}, needs=own)
        for p, own in needs.items()
        if own or p in writes or "export-round" in asked
    ]
    return merged_scores(replies, metrics)
