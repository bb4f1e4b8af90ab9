"""The steps of a round's rules, and what is kept of them from round to round in `ServerState.rules`.

A rule's own state is there under "<rule>."; the last replies are under "replies.<metric>" as [K, 2] float64, partition and
value, one row for each client that said the metric.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fedsuite.arrays import Arrays, non_finite, under_prefix, with_prefix
from fedsuite.averaging.step import Step
from fedsuite.errors import RunFailed
from fedsuite.federation import Reply, ServerState

PARTICIPATION, MERGE, SERVER_OPTIMIZER = "participation", "merge", "server-optimizer"
_REPLIES, _EXAMPLES, _ROUND = "replies.", "num-examples", "round"


class Steps:
    """Of round `number`, which starts from `state`. remembers: the clients' last replies are kept for the rules."""

    def __init__(self, seed: int, number: int, state: ServerState, remembers: bool) -> None:
        self.seed, self.number, self.state, self.remembers = seed, number, state, remembers
        self.replies = last_replies(state.rules)
        self._made: dict[str, Step] = {}

    def of(self, rule: str, trusted: int | None = None) -> Step:
        """The step of a rule, which is its name behind `federation.`; one in a round."""
        own = {k: v.copy() for k, v in under_prefix(self.state.rules, f"{rule}.").items()}
        step = Step(
            round=self.number,
            seed=self.seed,
            purpose=rule,
            state=own,
            replies=self.replies,
            trusted=trusted,
        )
        self._made[rule] = step
        return step

    @property
    def metrics(self) -> dict[str, float]:
        """What the rules said of the round."""
        return {
            f"{rule}.{k}": v for rule, step in self._made.items() for k, v in step.metrics.items()
        }

    def kept(self, replies: Sequence[Reply]) -> Arrays:
        """`ServerState.rules` after the round; RunFailed where a rule keeps what is no finite number."""
        gone = tuple(f"{rule}." for rule in self._made)
        rules = {k: v for k, v in self.state.rules.items() if not k.startswith(gone)}
        for rule, step in self._made.items():
            own = {k: np.array(v) for k, v in step.state.items()}
            bad = [k for k, v in own.items() if v.dtype.kind not in "fiub"] or non_finite(own)
            if bad:
                raise RunFailed(
                    f"round {self.number}: federation.{rule}: {bad[0]!r} of its state is no array of finite numbers; "
                    "correct the rule"
                )
            rules |= with_prefix(own, f"{rule}.")
        if not self.remembers:
            return rules
        about = {_ROUND: float(self.number)}
        newest = {
            r.partition: {**r.metrics, _EXAMPLES: float(r.num_examples), **about} for r in replies
        }
        return rules | _as_arrays({**self.replies, **newest})


def last_replies(rules: Mapping[str, np.ndarray]) -> dict[int, dict[str, float]]:
    """By partition the metrics of the last replies that are kept."""
    found: dict[int, dict[str, float]] = {}
    for name, rows in under_prefix(rules, _REPLIES).items():
        for partition, value in rows.tolist():
            found.setdefault(int(partition), {})[name] = value
    return dict(sorted(found.items()))


def _as_arrays(replies: Mapping[int, Mapping[str, float]]) -> Arrays:
    names = sorted({name for metrics in replies.values() for name in metrics})
    rows = {n: [(p, m[n]) for p, m in sorted(replies.items()) if n in m] for n in names}
    return {_REPLIES + name: np.array(pairs, np.float64) for name, pairs in rows.items()}
