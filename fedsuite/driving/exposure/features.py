"""Features and angle of a frame from what its silo sends, by division: the head's change of weights over that of its bias.

Of one frame and one plain step the division is exact (fedsuite/privacy/attacks/inversion.py); dropout leaves zeros, which
the attack passes over. What is left of it in the run's own steps, whose batches and moments mix, is measured beside it. A
neighbour on a ring solves the mean of two backbones for the other one, and knows where that began at the first mixing.

Features of all frames are alike, so a cosine says little: what counts is whether the frame is found among others of its
silo. The control is a silo without dropout and contrastive loss. A guesser takes the mean features of another silo's frames.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsuite.arrays import module_arrays
from fedsuite.averaging.privacy_settings import CLIENT
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.visits import BARE, ONE_FRAME, PLAIN, ExposedSilo, Visit
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
    """One attacked step: cosine with the nearest of its frames and that of a guess; whether that frame is nearer than AMONG
    others; whether the angle was told, and by the guess."""

    cosine: float
    guessed: float
    found: bool
    frames: int
    angle_told: bool
    angle_guessed: bool


def feature_findings(silos: Sequence[ExposedSilo], head: str, visits: int) -> Iterator[Finding]:
    """Of steps of all silos in turn, `visits` in each way; head: name of the network's last layer."""
    config = silos[0].config
    control, plain, alone, own = (
        trials(silos, head, visits, changes) for changes in (BARE, PLAIN, ONE_FRAME, {})
    )
    training = config.training
    usual = f"{training.local_updates} x {training.batch_size} frames, {training.optimizer}"
    for tried, target in (
        (plain, "a frame's features, from a plain step of one frame"),
        (alone, f"a frame's features, from a step of one frame with {training.optimizer}"),
        (own, f"one frame's features, from a step as sent ({usual})"),
    ):
        yield from _findings(RELAY, target, tried, control, len(silos))
    if config.objective.regression == "mse":
        guessed = float(np.mean([t.angle_guessed for t in plain]))
        yield _share(
            RELAY, f"a frame's angle to {NEAR:g}, from a plain step of one frame", "share of frames",
            [t.angle_told for t in plain], guessed, [t.angle_told for t in control],
            "angle = prediction - db / 2, which a contrastive loss shifts; the guess is another silo's mean angle",
        )  # fmt: skip
    if len(silos) > 1 and config.privacy.unit != CLIENT:  # else silos get what a server has noised
        tried = ring_trials(silos, head, visits)
        target = "a frame's features, from the mean of two backbones at the first mixing"
        yield from _findings(NEIGHBOUR, target, tried, control, len(silos))


def trials(
    silos: Sequence[ExposedSilo], head: str, visits: int, changes: Mapping[str, Value]
) -> list[Tried]:
    """The attack on one step of each silo in turn, as the relay sees it."""
    made = []
    for turn in range(visits):
        silo, other = silos[turn % len(silos)], silos[(turn + 1) % len(silos)]
        made.append(_tried(silo, other, silo.visit(changes, turn // len(silos)), head, turn))
    return made


def ring_trials(silos: Sequence[ExposedSilo], head: str, visits: int) -> list[Tried]:
    """The first mixing of a ring, one frame and a bare plain step each: silo i solves its mean for silo i + 1."""
    start = module_arrays(initial_network(silos[0].config))
    a, made = np.full((2, 2), 0.5), []
    for turn in range(visits):
        i, j = turn % len(silos), (turn + 1) % len(silos)
        mine, theirs = (silos[k].visit(BARE, turn // len(silos), start) for k in (i, j))
        parts = [f"{head}.weight", f"{head}.bias"]
        mixed = mix({k: np.stack([mine.after[k], theirs.after[k]]) for k in parts}, a)
        solved = {k: sent_before_mixing(mixed[k][0], mine.after[k], 0.5) for k in parts}
        seen = replace(theirs, after=theirs.after | solved)
        made.append(_tried(silos[j], silos[i], seen, head, turn))
    return made


def _tried(silo: ExposedSilo, other: ExposedSilo, visit: Visit, head: str, turn: int) -> Tried:
    weight, bias = (visit.update(f"{head}.{part}") for part in ("weight", "bias"))
    before, truth = visit.before, float(visit.frames.angles[0])
    _, features = silo.output(before, visit.frames)
    _, others = silo.output(before, _distractors(silo, visit.frames, turn))
    public = _first(other.silo.test, GUESSED_FROM)
    guess, angle = other.output(before, public)[1].mean(0), float(public.angles.mean())
    angle_guessed = abs(angle - truth) <= NEAR
    if not bias.any():  # nothing to divide by
        return Tried(0.0, best_match(guess, features), False, len(features), False, angle_guessed)
    found = common_input(weight, bias)
    kept = found != 0
    near, nearest_other, guessed = (
        best_match(x[kept], y[:, kept])
        for x, y in ((found, features), (found, others), (guess, features))
    )
    told = label_of_one(before[f"{head}.weight"], before[f"{head}.bias"], weight, bias)
    return Tried(
        near, guessed, near > nearest_other, len(features), abs(told - truth) <= NEAR, angle_guessed
    )


def _distractors(silo: ExposedSilo, frames: Frames, turn: int) -> Frames:
    """Training frames of the silo that are not among `frames`."""
    train = silo.silo.train
    order = rng_for(silo.config.seed, "distracting frames", turn, silo.number).permutation(
        len(train)
    )
    used = {image.tobytes() for image in frames.images}
    rows = [i for i in order if np.asarray(train.images[i]).tobytes() not in used][:AMONG]
    return Frames(np.array(train.images[rows]), np.array(train.angles[rows]))


def _first(frames: Frames, most: int) -> Frames:
    return Frames(np.array(frames.images[:most]), np.array(frames.angles[:most]))


def _findings(
    attacker: str, target: str, tried: list[Tried], control: list[Tried], silos: int
) -> Iterator[Finding]:
    cosines, silo = np.array([t.cosine for t in tried]), np.arange(len(tried)) % silos
    reached, guessed = mean_of(cosines, silo), float(np.mean([t.guessed for t in tried]))
    yield Finding(
        NAME, attacker, target, "cosine", reached.value, guessed,
        float(np.mean([t.cosine for t in control])), EXACT, len(tried), reached.low, reached.high, GUESS,
    )  # fmt: skip
    frames = tried[0].frames
    yield _share(
        attacker, target, f"share found among {AMONG} others", [t.found for t in tried],
        frames / (frames + AMONG), [t.found for t in control], GUESS,
    )  # fmt: skip


def _share(
    attacker: str, target: str, measure: str, hits: list[bool], chance: float, control: list[bool],
    note: str,
) -> Finding:  # fmt: skip
    low, high = clopper_pearson(sum(hits), len(hits))
    return Finding(
        NAME, attacker, target, measure, float(np.mean(hits)), chance, float(np.mean(control)),
        MOST_TOLD, len(hits), low, high, note,
    )  # fmt: skip
