"""Features and angle of a frame from what its silo sends, by division: the head's change of weights over that of its bias.

Of one frame and one plain step the division is exact (fedsuite/privacy/attacks/inversion.py); dropout leaves zeros, which
the attack passes over. What is left of it in the run's own steps, whose batches and moments mix, is measured beside it. A
neighbour on a ring solves the mean of two backbones for the other one, and knows where that began at the first mixing. The
server of a secure sum has the mean of all silos' changes to divide, and no single one. The control is a silo without dropout
and contrastive loss.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from fedsuite.arrays import module_arrays
from fedsuite.averaging.privacy_settings import EXAMPLE
from fedsuite.driving.exposure.divided import NEAR, Seen, Tried, divide, parts_of
from fedsuite.driving.exposure.hits import mean_or_nan, share_among, share_of_hits
from fedsuite.driving.exposure.sums import steps_in_a_sum
from fedsuite.driving.exposure.visits import BARE, ONE_FRAME, OPEN, PLAIN, ExposedSilo
from fedsuite.driving.plan import initial_network
from fedsuite.driving.topology.mixing import mix
from fedsuite.privacy.attacks.clustered import mean_of
from fedsuite.privacy.attacks.inversion import sent_before_mixing
from fedsuite.privacy.findings import Finding
from fedsuite.settings.values import Value

NAME, RELAY, NEIGHBOUR = "inversion", "server", "neighbour"
EXACT = 0.999  # what controls have to reach, a cosine
GUESS = "cosines pass over zeros; the guess is the mean of another silo's features"

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
        yield share_of_hits(
            NAME, RELAY, f"a frame's angle to {NEAR:g}, from a plain step of one frame", "share of frames",
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
        seen = Seen([(silo, visit)], *(visit.gradient(part) for part in parts_of(head)))
        made.append(divide(seen, other, head, turn))
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
        summed = steps_in_a_sum(silos, changes, turn, clip)
        gradient = (summed.gradient(part) for part in parts_of(head))
        seen = Seen([*zip(silos, summed.visits, strict=True)], *gradient)
        made.append(divide(seen, silos[turn % len(silos)], head, turn))
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
        mixed = mix({k: np.stack([mine.after[k], theirs.after[k]]) for k in parts_of(head)}, a)
        solved = {k: sent_before_mixing(mixed[k][0], mine.after[k], 0.5) for k in mixed}
        changed = ((theirs.before[k] - solved[k]) / theirs.rate for k in parts_of(head))
        made.append(divide(Seen([(silos[j], theirs)], *changed), silos[i], head, turn))
    return made


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
        mean_or_nan([t.cosine for t in bare]),
    )  # fmt: skip
    if not any(t.others for t in tried):
        return  # its silos have no frame that is not in the steps
    chance = float(np.mean([t.frames / (t.frames + t.others) for t in tried]))
    yield share_of_hits(
        NAME, attacker, target, share_among([t.others for t in tried]), [t.found for t in tried],
        chance, [t.found for t in control], GUESS, [t.found for t in bare],
    )  # fmt: skip
