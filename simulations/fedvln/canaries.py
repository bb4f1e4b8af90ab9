"""How much a round lets through of single instructions, by canaries in the houses that train in it.

The control is round 1, in which other houses may train: it has canaries of its own.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsuite.privacy.attacks.canaries import (
    epsilon_of_many_runs,
    epsilon_of_one_run,
    right_guesses,
)
from fedsuite.privacy.attacks.intervals import between
from fedsuite.privacy.findings import AT_LEAST, Finding
from fedsuite.settings.config import with_keys
from fedsuite.settings.values import Value
from fedsuite.vln.data.canaries import Canaries, draw, word_uses
from simulations.audits.audited import Audited
from simulations.fedvln.updates import holding, houses_of, moved_rows, played, undefended, updates

TARGET = "whether an instruction was among a house's"
LEAST = 0.5  # of the largest bound that so many canaries allow, for the control


def canaries(audited: Audited) -> Iterator[Finding]:
    """The bound of one run, and that of many visits where these are asked for."""
    own, plain = audited.attack.canaries, undefended(audited.config)
    rounds = _Attacked(audited, {}, False), _Attacked(audited, plain, True)
    if min(r.m for r in rounds) < 2:
        audited.progress(
            "canaries: the houses of the round use all words, so there is none to put in"
        )
        return
    attacked, control = rounds
    value, most = attacked.bound, attacked.largest_bound
    note = f"{attacked.m} canaries in {len(attacked.drawn)} houses, delta {own.delta:g}; at most {most:.2f} with so many"
    yield Finding(
        "canaries", "server", TARGET, AT_LEAST, value, 0.0, control.bound, LEAST * control.largest_bound, attacked.guesses,
        note=note, undefended=control.bound,
    )  # fmt: skip
    if own.visits:
        yield from _many(attacked, control)


@dataclass(frozen=True)
class _Attacked:
    """A round with canaries in its houses; changes: keys with other values; first: round 1."""

    audited: Audited
    changes: Mapping[str, Value]
    first: bool

    @cached_property
    def drawn(self) -> dict[int, Canaries]:
        """For every house that trains in the round, without one that uses all words."""
        audited = self.audited
        seen = played(audited, self.changes, first=self.first)
        visits = [visit for visit in seen.training if not visit.task.aside]
        size = len(audited.roster.words)
        each, found = math.ceil(audited.attack.canaries.count / len(visits)), {}
        for partition in (visit.client.partition for visit in visits):
            uses = word_uses(houses_of(audited, partition), size)
            found[partition] = draw(uses, each, audited.rng("canaries", partition))
        return {p: c for p, c in found.items() if len(c.words)}

    @property
    def m(self) -> int:
        """How many canaries there are."""
        return sum(len(c.words) for c in self.drawn.values())

    @property
    def guesses(self) -> int:
        return max(1, math.floor(self.audited.attack.canaries.guesses * self.m))

    @cached_property
    def bound(self) -> float:
        return self._bound(right_guesses(*self.scored(self.drawn), self.guesses))

    @property
    def largest_bound(self) -> float:
        """Where all guesses are right."""
        return self._bound(self.guesses)

    def _bound(self, right: int) -> float:
        return epsilon_of_one_run(self.m, self.guesses, right, self.audited.attack.canaries.delta)

    def scored(self, drawn: Mapping[int, Canaries]) -> tuple[np.ndarray, np.ndarray]:
        """How far the canaries' rows have moved, and their coins, of all houses one after another."""
        config = with_keys(self.audited.config, self.changes)
        altered = holding(drawn, config.data.max_instruction_length)
        seen = played(self.audited, self.changes, altered, self.first)
        scores, inside, size = [], [], len(self.audited.roster.words)
        for visit, model in updates(seen, config, len(seen.training)):
            if (own := drawn.get(visit.client.partition)) is not None:
                scores.append(moved_rows(visit, model, size)[own.words])
                inside.append(own.inside)
        return np.concatenate(scores), np.concatenate(inside)

    def bound_of_visits(self, half: int) -> float:
        """By the first house's first canary, which is in so many visits and not in as many."""
        partition, first = next(iter(self.drawn.items()))
        moves = []
        for number in range(2 * half):
            one = Canaries(first.words[:1], np.array([number < half]))
            moves.append(self.scored({partition: one})[0][0])
        told = np.array(moves) > between(np.array(moves))
        missed, false = int((~told[:half]).sum()), int(told[half:].sum())
        return epsilon_of_many_runs(false, half, missed, half, self.audited.attack.canaries.delta)


def _many(attacked: _Attacked, plain: _Attacked) -> Iterator[Finding]:
    """One canary of the first house, in half of the visits."""
    own = attacked.audited.attack.canaries
    half = max(1, own.visits // 2)
    value, control = (each.bound_of_visits(half) for each in (attacked, plain))
    most = epsilon_of_many_runs(0, half, 0, half, own.delta)
    note = f"one canary, {half} visits with it and {half} without; at most {most:.2f} with so many"
    yield Finding(
        "canaries", "server", f"{TARGET}, many visits", AT_LEAST, value, 0.0, control, LEAST * most, 2 * half, note=note,
        undefended=control,
    )  # fmt: skip
