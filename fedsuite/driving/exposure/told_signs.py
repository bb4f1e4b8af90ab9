"""The signs of gradients that steps tell a relay, a server of secure sums, or a neighbour at the first mixing.

A relay and a server have followed all steps before (followed.py). A neighbour of a silo that mixes with it alone gets
(theta_i + theta_j) / 2, and solves for theta_j; what j began with it knows at the first mixing, where all begin alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.arrays import Arrays, module_arrays
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.sums import Sum, steps_in_a_sum
from fedsuite.driving.exposure.visits import ExposedSilo, Visit
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.driving.topology.mixing import mix
from fedsuite.privacy.attacks.inversion import sent_before_mixing
from fedsuite.settings.values import Value

HALVES = np.full((2, 2), 0.5)
ROUNDED = 2.0**-21  # of two numbers, what float32 may lose in their mean


@dataclass(frozen=True, eq=False)
class Step:
    """signs: int8 [P], of the gradient that a step or a sum of steps tells; frames: of it, by the silo's place."""

    signs: np.ndarray
    frames: Mapping[int, Frames]


def single_steps(
    silos: Sequence[ExposedSilo], visits: int, changes: Mapping[str, Value]
) -> list[Step]:
    """One of each silo in turn, as the relay sees it; changes: settings other than the run's."""
    made = []
    for turn in range(visits):
        place = turn % len(silos)
        visit = silos[place].visit(changes, turn // len(silos))
        made.append(Step(_signs(silos[place], visit), {place: visit.frames}))
    return made


def first_mixings(
    silos: Sequence[ExposedSilo], visits: int, changes: Mapping[str, Value]
) -> list[Step]:
    """Of silo i + 1 the first step, whose result silo i solves its mean of two for; what is below rounding tells nothing."""
    start, made = first_backbone(silos[0].config), []
    for turn in range(visits):
        i, j = turn % len(silos), (turn + 1) % len(silos)
        mine, theirs = (silos[k].visit(changes, turn // len(silos), start) for k in (i, j))
        signs = []
        for name in names_sent(silos[j]):
            mixed = mix({name: np.stack([mine.after[name], theirs.after[name]])}, HALVES)[name][0]
            solved = sent_before_mixing(mixed, mine.after[name], 0.5)
            change = theirs.before[name].astype(np.float64) - solved
            least = ROUNDED * (np.abs(mine.after[name]) + np.abs(theirs.before[name]))
            signs.append((np.sign(change) * (np.abs(change) > least)).ravel())
        made.append(Step(np.concatenate(signs).astype(np.int8), {j: theirs.frames}))
    return made


def sums_of_steps(
    silos: Sequence[ExposedSilo], visits: int, changes: Mapping[str, Value], clip: float | None
) -> list[Step]:
    """Sums of one step of every silo, as a server of secure sums sees them."""
    made = []
    for turn in range(visits):
        summed = steps_in_a_sum(silos, changes, turn, clip)
        frames = {place: visit.frames for place, visit in enumerate(summed.visits)}
        made.append(Step(_signs(silos[0], summed), frames))
    return made


def first_backbone(config: CDLConfig) -> Arrays:
    """The backbone that all silos begin with."""
    return module_arrays(initial_network(config))


def names_sent(silo: ExposedSilo) -> list[str]:
    """Of parameters that leave it, in the network's order."""
    network = initial_network(silo.config)
    mixed = names_of(network, silo.config).mixed
    return [name for name, _ in network.named_parameters() if name in mixed]


def _signs(silo: ExposedSilo, seen: Visit | Sum) -> np.ndarray:
    return np.concatenate([seen.signs(name).ravel() for name in names_sent(silo)]).astype(np.int8)
