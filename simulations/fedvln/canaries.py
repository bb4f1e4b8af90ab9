"""How much a round lets through of single instructions, by canaries in the houses that train in it."""

import math
from collections.abc import Iterator, Mapping

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
    own = audited.attack.canaries
    drawn = _drawn(audited)
    m = sum(len(c.words) for c in drawn.values())
    if m < 2:
        audited.progress(
            "canaries: the houses of the round use all words, so there is none to put in"
        )
        return
    guesses, plain = max(1, math.floor(own.guesses * m)), undefended(audited.config)

    def bound(changes: Mapping[str, Value], first: bool) -> float:
        scores, inside = _scored(audited, drawn, changes, first)
        right = right_guesses(scores, inside, guesses)
        return epsilon_of_one_run(m, guesses, right, own.delta)

    value, control = bound({}, False), bound(plain, True)
    most = epsilon_of_one_run(m, guesses, guesses, own.delta)
    note = (
        f"{m} canaries in {len(drawn)} houses, delta {own.delta:g}; at most {most:.2f} with so many"
    )
    yield Finding(
        "canaries", "server", TARGET, AT_LEAST, value, 0.0, control, LEAST * most, guesses, note=note, undefended=control
    )  # fmt: skip
    if own.visits:
        yield from _many(audited, drawn)


def _drawn(audited: Audited) -> dict[int, Canaries]:
    """For every house that trains in the round, without one that uses all words."""
    visits = [visit for visit in played(audited).training if not visit.task.aside]
    each, size = math.ceil(audited.attack.canaries.count / len(visits)), len(audited.roster.words)
    found = {}
    for partition in (visit.client.partition for visit in visits):
        uses = word_uses(houses_of(audited, partition), size)
        found[partition] = draw(uses, each, audited.rng("canaries", partition))
    return {p: c for p, c in found.items() if len(c.words)}


def _scored(
    audited: Audited, drawn: Mapping[int, Canaries], changes: Mapping[str, Value], first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """How far the canaries' rows have moved, and their coins, of all houses one after another."""
    config = with_keys(audited.config, changes)
    altered = holding(drawn, config.data.max_instruction_length)
    seen = played(audited, changes, altered, first)
    scores, inside, size = [], [], len(audited.roster.words)
    for visit, model in updates(seen, config, len(seen.training)):
        if (own := drawn.get(visit.client.partition)) is not None:
            scores.append(moved_rows(visit, model, size)[own.words])
            inside.append(own.inside)
    return np.concatenate(scores), np.concatenate(inside)


def _many(audited: Audited, drawn: Mapping[int, Canaries]) -> Iterator[Finding]:
    """One canary of the first house, in half of the visits."""
    own, (partition, first) = audited.attack.canaries, next(iter(drawn.items()))
    half = max(1, own.visits // 2)

    def errors(changes: Mapping[str, Value], new: bool) -> float:
        moves = []
        for number in range(2 * half):
            one = Canaries(first.words[:1], np.array([number < half]))
            moves.append(_scored(audited, {partition: one}, changes, new)[0][0])
        told = np.array(moves) > between(np.array(moves))
        missed, false = int((~told[:half]).sum()), int(told[half:].sum())
        return epsilon_of_many_runs(false, half, missed, half, own.delta)

    value, control = errors({}, False), errors(undefended(audited.config), True)
    most = epsilon_of_many_runs(0, half, 0, half, own.delta)
    note = f"one canary, {half} visits with it and {half} without; at most {most:.2f} with so many"
    yield Finding(
        "canaries", "server", f"{TARGET}, many visits", AT_LEAST, value, 0.0, control, LEAST * most, 2 * half, note=note,
        undefended=control,
    )  # fmt: skip
