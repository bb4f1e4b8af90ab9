"""Which words a house uses, from the update that it sends in one visit."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from fedsuite.privacy.attacks.words import WordsFound, score_told, told_words
from fedsuite.privacy.findings import Finding
from fedsuite.settings.config import with_keys
from fedsuite.settings.values import Value
from fedsuite.vln.data.canaries import real_words, word_uses
from simulations.audits.audited import Audited
from simulations.fedvln.updates import (
    houses_of,
    moved_rows,
    one_pass,
    played,
    undefended,
    updates,
)

TARGET = "words of a house"
LEAST = {"precision": 0.995, "recall": 0.96, "F-score": 0.975, "Spearman": 0.5}  # of the control
BEYOND = "words of a house, beyond the words of all in the sum"
APART = 0.05  # by how much an attack on single houses has to be ahead of who names all words of all of them


def words(audited: Audited) -> Iterator[Finding]:
    """Precision, recall, F-score and rank correlation over the houses of a round, against their training instructions."""
    config, changes = audited.config, undefended(audited.config)
    made = [told_by(audited, {}, False), told_by(audited, one_pass(config), True)]
    if changes:
        made.append(told_by(audited, changes, True))
    told = [pair for pair in made if pair]
    if len(told) < len(made):
        audited.progress("words: left out, the members of a round use all words that there are")
        return
    (found, union), (control, _) = told[:2]
    plain = told[2][0] if changes else found
    values, controls, open_values = measures(found), measures(control), measures(plain)
    for measure, value in values.items():
        low, high = found.intervals[measure]
        yield Finding(
            "words", "server", TARGET, measure, value, found.chance[measure], controls[measure], LEAST[measure],
            found.told if measure == "precision" else found.used, low, high,
            "undefended: in round 1" if changes else "", open_values[measure],
        )  # fmt: skip
    if config.federation.secure_sum:
        yield from beyond(found, union, control, plain)


def beyond(
    found: WordsFound, union: WordsFound, control: WordsFound, plain: WordsFound
) -> Iterator[Finding]:
    """How much more of single houses a sum tells than the words of all of them together, which it may tell."""
    named, values, controls, open_values = map(measures, (union, found, control, plain))
    for measure in ("precision", "F-score"):
        less = named[measure]
        low, high = (end - less for end in found.intervals[measure])
        yield Finding(
            "words", "server", BEYOND, measure, values[measure] - less, 0.0, controls[measure] - less, APART, found.used,
            low, high, f"less {less:.3f}, which naming all words of all in the sum comes to for each of them",
            open_values[measure] - less,
        )  # fmt: skip


def told_by(
    audited: Audited, changes: Mapping[str, Value], first: bool
) -> tuple[WordsFound, WordsFound] | None:
    """The attack on the visits of one round, its members one below the other; and naming, for each, all words of all.

    changes, first: as of `played`. Members that use all words are passed over; None if there are no others.
    """
    seen, config = played(audited, changes, first=first), with_keys(audited.config, changes)
    size = len(audited.roster.words)
    real, rows = real_words(size), []
    for visit, model in updates(seen, config, audited.attack.words.houses):
        moved = moved_rows(visit, model, size)[real]
        uses = word_uses(houses_of(audited, visit.client.partition), size)[real]
        if not (uses > 0).all():
            rows.append((told_words(moved), moved, uses))
    if not rows:
        return None
    every = np.tile(np.any([uses > 0 for _, _, uses in rows], axis=0), len(rows))
    told, moved, uses = (np.concatenate(column) for column in zip(*rows, strict=True))
    scored = partial(score_told, moved=moved, uses=uses)
    return (
        scored(told, rng=audited.rng("words", seen.number)),
        scored(every, rng=audited.rng("words of all", seen.number)),
    )


def measures(found: WordsFound) -> dict[str, float]:
    return {
        "precision": found.precision,
        "recall": found.recall,
        "F-score": found.f_score,
        "Spearman": 0.0 if np.isnan(found.rank) else found.rank,
    }
