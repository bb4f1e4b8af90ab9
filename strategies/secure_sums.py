"""Any strategy that averages its clients' models, over secure sums (fedsuite/privacy/secure_sum.py).

One batch of training tasks becomes four exchanges (sum_exchanges.py). The strategy is sent, for each client whose masked
change was added, the same model, which is the weighted mean of all of theirs: means of it are that mean, and nothing that it
computes can be of a single client. So it is with control variates, whose plain mean it is sent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsuite.arrays import Arrays, forms_of
from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import (
    Clients,
    Exchanges,
    Reply,
    RoundStrategy,
    ServerState,
    UnderWay,
)  # fmt: skip
from fedsuite.privacy.client_level import next_clip
from fedsuite.privacy.noised_sums import NoisedLevels
from fedsuite.privacy.secure_sum import FEWEST
from fedsuite.privacy.sum_terms import CLIP_RULE, ON, SumTerms, terms_of
from fedsuite.runs.folder import folder_of
from fedsuite.settings.config import RunSettings
from strategies.sum_exchanges import NOT_CLIPPED, OneSum
from strategies.wrapping import Wrapped


def with_secure_sum(
    strategy: RoundStrategy,
    config: RunSettings,
    model: Callable[[], Arrays],
    hidden: tuple[str, ...] = (),
) -> RoundStrategy:
    """The strategy, over secure sums if its run's section `federation` says so; InputError where its model cannot be summed.

    model: makes what travels; hidden: metrics that say something of single models, which the server does not have.
    """
    if (terms := terms_of(config)) is None:
        return strategy
    odd = {name: kind for name, (_, kind) in forms_of(model()).items() if kind != "float32"}
    if odd:
        name, kind = next(iter(odd.items()))
        raise InputError(
            f"{ON}: {name} is {kind}, only float32 can be masked; leave it out of what travels, or set "
            f"{ON} to false"
        )
    return SecureSums(strategy, terms, hidden, folder_of(config).path)


def check_planned(config: RunSettings, members: int) -> None:
    """InputError where a round would have too few members for a sum that hides them, or too many for its noise."""
    if (terms := terms_of(config)) is None:
        return
    if members < FEWEST:
        raise InputError(
            f"{ON}: a round would have {members} members, expected at least {FEWEST}; raise federation.participation-rate "
            f"or the number of clients, or set {ON} to false"
        )
    levels = terms.levels(members, members)
    if isinstance(levels, NoisedLevels) and not levels.is_fine:
        raise InputError(
            f"privacy.noise-multiplier: {levels.multiplier:g} is so little that the rounding of a sum of {members} members "
            f"would hide the noise; raise it, or set {ON} to false"
        )


class SecureSums(Wrapped):
    """Another strategy, which merges by a weighted mean. run: the folder whose ledger has what sums with noise tell."""

    def __init__(
        self, inner: RoundStrategy, terms: SumTerms, hidden: tuple[str, ...], run: Path
    ) -> None:
        super().__init__(inner)
        self.terms, self.hidden, self.run = terms, hidden, run

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        steps, told = self.inner.train(number, state, clients), dict[str, float]()
        clip = self._clip(state)
        replies: Sequence[Reply] | None = None
        while True:
            try:
                tasks = next(steps) if replies is None else steps.send(replies)
            except StopIteration as end:
                metrics = {k: v for k, v in end.value.metrics.items() if k not in self.hidden}
                after = self._adapted(end.value.state, clip, told)
                return replace(end.value, state=after, metrics=metrics | told)
            if isinstance(tasks, UnderWay):
                why = "the strategy goes on before all have answered, which no sum can"
                raise RunFailed(f"round {number}: {ON}: {why}; set {ON} to false")
            if tasks and tasks[0].kind == "train":
                one = OneSum(number, self.terms, tasks, clients, self.run, clip)
                replies = yield from one.run(told)
            else:
                replies = yield tasks

    def _clip(self, state: ServerState) -> float | None:
        """C of a round, which stands where a server that clips has it; None where no change is clipped."""
        own = self.terms.private
        return float(state.rules.get(CLIP_RULE, own.clip)) if own else None

    def _adapted(
        self, state: ServerState, clip: float | None, told: Mapping[str, float]
    ) -> ServerState:
        """With the C of the next round, where it follows how many were not clipped."""
        own, share = self.terms.private, told.get(NOT_CLIPPED)
        if not own or not clip or share is None:
            return state
        after = next_clip(clip, share, own.clip_quantile, own.clip_rate)
        return replace(state, rules={**state.rules, CLIP_RULE: np.asarray(after)})
