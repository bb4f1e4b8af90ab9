"""Features and angle of a frame from what its silo sends, by division: the head's change of weights over that of its bias.

Of one frame and one plain step the division is exact (fedsuite/privacy/attacks/inversion.py); dropout leaves zeros, which
the attack passes over. What is left of it in the run's own steps, whose batches and moments mix, is measured beside it. A
neighbour on a ring solves the mean of two backbones for the other one, and knows where that began at the first mixing. The
server of a secure sum has the mean of all silos' changes to divide, and no single one.

Features of all frames are alike, so a cosine says little: what counts is whether the frame is found among others of its
silo. The control is a silo without dropout and contrastive loss. A guesser takes the mean features of another silo's frames.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedsuite.arrays import module_arrays
from fedsuite.averaging.privacy_settings import EXAMPLE
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.sums import steps_in_a_sum
from fedsuite.driving.exposure.visits import BARE, ONE_FRAME, OPEN, PLAIN, ExposedSilo, Visit
from fedsuite.driving.plan import initial_network
from fedsuite.driving.topology.mixing import mix
from fedsuite.privacy.attacks.clustered import mean_of
from fedsuite.privacy.attacks.intervals import clopper_pearson
from fedsuite.privacy.attacks.inversion import (
    best_match,
    common_input,
    label_of_one,
    sent_before_mixing,
)
from fedsuite.privacy.findings import Finding
from fedsuite.randomness import rng_for
from fedsuite.settings.values import Value

NAME, RELAY, NEIGHBOUR = "inversion", "server", "neighbour"
NEAR = 0.01  # of an angle that counts as told, in the run's unit
EXACT, MOST_TOLD = 0.999, 0.95  # what the controls have to reach: a cosine, a share
AMONG = 99  # frames of the silo that are not in the step, among which one that is has to be found
GUESSED_FROM = 64  # frames of another silo
GUESS = "cosines pass over zeros; the guess is the mean of another silo's features"


@dataclass(frozen=True)
class Tried:
    """One attacked step, or sum of steps: cosine with the nearest of its frames and that of a guess; whether that frame is
    nearer than AMONG others; whether the first one's angle was told, and by the guess."""

    cosine: float
    guessed: float
    found: bool
    frames: int
    angle_told: bool
    angle_guessed: bool


@dataclass(frozen=True, eq=False)
class Seen:
    """steps: those that are in what was seen, by silo; weight [1, D] and bias [1]: the last layer's gradient by it."""

    steps: Sequence[tuple[ExposedSilo, Visit]]
    weight: np.ndarray
    bias: np.ndarray


# Silos, the last layer's name, how many attacks, settings other than the run's -> what came of them.
Trials = Callable[[Sequence[ExposedSilo], str, int, Mapping[str, Value]], list[Tried]]


def feature_findings(
    silos: Sequence[ExposedSilo],
    head: str,
    visits: int,
    neighbour: bool,
    clip: float | None = None,
) -> Iterator[Finding]:
    """Of steps of all silos in turn, `visits` in each way, or under secure sums of as many sums of all of them.

    head: name of the network's last layer; neighbour: whether a silo gets the mean of two; clip: as of
    steps_in_a_sum.
    """
    config = silos[0].config
    training, summed = config.training, config.federation.secure_sum
    made: Trials = partial(sum_trials, clip=clip) if summed else trials
    defended = summed or config.privacy.unit == EXAMPLE

    def bare(made: Trials, changes: Mapping[str, Value]) -> list[Tried]:
        return made(silos, head, visits, {**changes, **OPEN}) if defended else []

    control = trials(silos, head, visits, {**BARE, **OPEN})
    plain, bare_plain = made(silos, head, visits, PLAIN), bare(trials, PLAIN)
    alone, own = (made(silos, head, visits, changes) for changes in (ONE_FRAME, {}))
    of, step = ("a sum of", "steps") if summed else ("a", "step")
    usual = f"{training.local_updates} x {training.batch_size} frames, {training.optimizer}"
    for tried, undefended, target in (
        (plain, bare_plain, f"a frame's features, from {of} plain {step} of one frame"),
        (alone, bare(trials, ONE_FRAME), f"a frame's features, from {of} {step} of one frame with {training.optimizer}"),
        (own, bare(trials, {}), f"one frame's features, from {of} {step} as sent ({usual})"),
    ):  # fmt: skip
        clusters = visits if summed else len(silos)
        yield from _findings(RELAY, target, tried, control, clusters, undefended)
    if config.objective.regression == "mse" and not summed:
        guessed = float(np.mean([t.angle_guessed for t in plain]))
        yield _share(
            RELAY, f"a frame's angle to {NEAR:g}, from a plain step of one frame", "share of frames",
            [t.angle_told for t in plain], guessed, [t.angle_told for t in control],
            "angle = prediction - db / 2, which a contrastive loss shifts; the guess is another silo's mean angle",
            [t.angle_told for t in bare_plain],
        )  # fmt: skip
    if neighbour:
        tried, undefended = ring_trials(silos, head, visits, BARE), bare(ring_trials, BARE)
        target = "a frame's features, from the mean of two backbones at the first mixing"
        yield from _findings(NEIGHBOUR, target, tried, control, len(silos), undefended)


def trials(
    silos: Sequence[ExposedSilo], head: str, visits: int, changes: Mapping[str, Value]
) -> list[Tried]:
    """The attack on one step of each silo in turn, as the relay sees it."""
    made = []
    for turn in range(visits):
        silo, other = silos[turn % len(silos)], silos[(turn + 1) % len(silos)]
        visit = silo.visit(changes, turn // len(silos))
        seen = Seen([(silo, visit)], *(visit.update(part) for part in _parts(head)))
        made.append(_tried(seen, other, head, turn))
    return made


def sum_trials(
    silos: Sequence[ExposedSilo],
    head: str,
    visits: int,
    changes: Mapping[str, Value],
    clip: float | None = None,
) -> list[Tried]:
    """The attack on sums of one step of every silo, as a server of secure sums sees them."""
    made = []
    for turn in range(visits):
        steps, mean = steps_in_a_sum(silos, changes, turn, clip)
        gradient = (-mean[part] / steps[0].rate for part in _parts(head))
        seen = Seen([*zip(silos, steps, strict=True)], *gradient)
        made.append(_tried(seen, silos[turn % len(silos)], head, turn))
    return made


def ring_trials(
    silos: Sequence[ExposedSilo], head: str, visits: int, changes: Mapping[str, Value]
) -> list[Tried]:
    """The first mixing of a ring, one step each: silo i solves its mean for silo i + 1."""
    start = module_arrays(initial_network(silos[0].config))
    a, made = np.full((2, 2), 0.5), []
    for turn in range(visits):
        i, j = turn % len(silos), (turn + 1) % len(silos)
        mine, theirs = (silos[k].visit(changes, turn // len(silos), start) for k in (i, j))
        mixed = mix({k: np.stack([mine.after[k], theirs.after[k]]) for k in _parts(head)}, a)
        solved = {k: sent_before_mixing(mixed[k][0], mine.after[k], 0.5) for k in mixed}
        changed = ((theirs.before[k] - solved[k]) / theirs.rate for k in _parts(head))
        made.append(_tried(Seen([(silos[j], theirs)], *changed), silos[i], head, turn))
    return made


def _parts(head: str) -> tuple[str, str]:
    return f"{head}.weight", f"{head}.bias"


def _tried(seen: Seen, other: ExposedSilo, head: str, turn: int) -> Tried:
    """other: the silo from whose held-out frames a guesser takes its guess."""
    visit = seen.steps[0][1]
    before, truth = visit.before, float(visit.frames.angles[0])
    features = np.concatenate([s.output(v.before, v.frames)[1] for s, v in seen.steps])
    apart = np.array_split(np.arange(AMONG), len(seen.steps))  # as many of each silo
    others = np.concatenate(
        [
            s.output(v.before, _distractors(s, v.frames, turn, len(rows)))[1]
            for (s, v), rows in zip(seen.steps, apart, strict=True)
            if len(rows)
        ]
    )
    public = _first(other.silo.test, GUESSED_FROM)
    guess, angle = other.output(before, public)[1].mean(0), float(public.angles.mean())
    angle_guessed = abs(angle - truth) <= NEAR
    if not seen.bias.any():  # nothing to divide by
        return Tried(0.0, best_match(guess, features), False, len(features), False, angle_guessed)
    found = common_input(seen.weight, seen.bias)
    kept = found != 0
    near, nearest_other, guessed = (
        best_match(x[kept], y[:, kept])
        for x, y in ((found, features), (found, others), (guess, features))
    )
    weight, bias = (before[part] for part in _parts(head))
    told = label_of_one(weight, bias, seen.weight, seen.bias)
    return Tried(
        near, guessed, near > nearest_other, len(features), abs(told - truth) <= NEAR, angle_guessed
    )


def _distractors(silo: ExposedSilo, frames: Frames, turn: int, most: int) -> Frames:
    """Training frames of the silo that are not among `frames`."""
    train = silo.silo.train
    order = rng_for(silo.config.seed, "distracting frames", turn, silo.number).permutation(
        len(train)
    )
    used = {image.tobytes() for image in frames.images}
    rows = [i for i in order if np.asarray(train.images[i]).tobytes() not in used][:most]
    return Frames(np.array(train.images[rows]), np.array(train.angles[rows]))


def _first(frames: Frames, most: int) -> Frames:
    return Frames(np.array(frames.images[:most]), np.array(frames.angles[:most]))


def _findings(
    attacker: str,
    target: str,
    tried: list[Tried],
    control: list[Tried],
    clusters: int,
    bare: list[Tried],
) -> Iterator[Finding]:
    """clusters: of how many silos, or sums, the trials are in turn; bare: without what defends the run, [] if nothing."""
    cosines, cluster = np.array([t.cosine for t in tried]), np.arange(len(tried)) % clusters
    reached, guessed = mean_of(cosines, cluster), float(np.mean([t.guessed for t in tried]))
    yield Finding(
        NAME, attacker, target, "cosine", reached.value, guessed,
        float(np.mean([t.cosine for t in control])), EXACT, len(tried), reached.low, reached.high, GUESS,
        _mean([t.cosine for t in bare]),
    )  # fmt: skip
    chance = float(np.mean([t.frames / (t.frames + AMONG) for t in tried]))
    yield _share(
        attacker, target, f"share found among {AMONG} others", [t.found for t in tried],
        chance, [t.found for t in control], GUESS, [t.found for t in bare],
    )  # fmt: skip


def _share(
    attacker: str, target: str, measure: str, hits: list[bool], chance: float, control: list[bool],
    note: str, bare: list[bool],
) -> Finding:  # fmt: skip
    low, high = clopper_pearson(sum(hits), len(hits))
    return Finding(
        NAME, attacker, target, measure, float(np.mean(hits)), chance, float(np.mean(control)),
        MOST_TOLD, len(hits), low, high, note, _mean(bare),
    )  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan
