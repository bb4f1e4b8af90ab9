"""Whether a frame was in a step, by the signs of its gradient: an attacker who has frames in hand recognises them.

Of a frame (x, y) that may have been in a step, anybody with the network computes the gradient g(x, y) of the regression
loss. Its score is the cosine of signs of fedsuite/privacy/attacks/recognition.py, and of a step of one frame its absolute
value. Signs are what a follower has of all steps, of Adam's, too (followed.py).

Dropout may turn the sign of a frame's error, and with it all of its gradient. The attacker's gradients are those of single
frames, without dropout and contrastive loss. Chance is a guess among all frames; the control a plain step of one frame
without either.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedsuite.arrays import Arrays
from fedsuite.averaging.privacy_settings import EXAMPLE
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.hits import (
    AMONG,
    distractors,
    mean_or_nan,
    share_among,
    share_of_hits,
)
from fedsuite.driving.exposure.told_signs import (
    Step,
    first_backbone,
    first_mixings,
    names_sent,
    single_steps,
    sums_of_steps,
)
from fedsuite.driving.exposure.visits import BARE, ONE_FRAME, OPEN, PLAIN, ExposedSilo
from fedsuite.driving.plan import initial_network
from fedsuite.driving.training.contrastive import REGRESSION_LOSSES
from fedsuite.privacy.attacks.clustered import mean_of
from fedsuite.privacy.attacks.membership import auc
from fedsuite.privacy.attacks.recognition import Steps
from fedsuite.privacy.findings import Finding
from fedsuite.settings.config import with_keys
from fedsuite.settings.values import Value

NAME, RELAY, NEIGHBOUR = "recognition", "server", "neighbour"
LEAST_AUC = 0.95  # of the control
NOTE = "by signs of gradients of frames that the attacker has"


@dataclass(frozen=True)
class Recognised:
    """One attacked step, or sum of steps: scores of its frames and of others, as many of each silo."""

    frames: np.ndarray
    others: np.ndarray

    @property
    def found(self) -> bool:
        """Whether a frame of it has the highest score."""
        return bool(self.frames.max() > self.others.max(initial=-np.inf))

    @property
    def area(self) -> float:
        """The share of pairs of a frame and another in which the frame has the higher score."""
        return auc(self.frames, self.others)

    @property
    def chance(self) -> float:
        """Of found, by a guess."""
        return len(self.frames) / (len(self.frames) + len(self.others))


def recognition_findings(
    silos: Sequence[ExposedSilo], visits: int, neighbour: bool, clip: float | None = None
) -> Iterator[Finding]:
    """Of steps of all silos in turn, `visits` in each way, or under secure sums of as many sums of all of them; neighbour,
    clip: as of feature_findings."""
    config = silos[0].config
    training, summed = config.training, config.federation.secure_sum
    of, step = ("a sum of", "steps") if summed else ("a", "step")
    usual = f"{training.local_updates} x {training.batch_size} frames, {training.optimizer}"
    ways = {
        f"a frame, from {of} plain {step} of one frame": PLAIN,
        f"a frame, from {of} {step} of one frame with {training.optimizer}": ONE_FRAME,
        f"one frame, from {of} {step} as sent ({usual})": {},
    }
    attacked = [single_steps(silos, visits, {**BARE, **OPEN})]
    for changes in ways.values():
        if summed:
            attacked.append(sums_of_steps(silos, visits, changes, clip))
        else:
            attacked.append(single_steps(silos, visits, changes))
    noised = config.privacy.unit == EXAMPLE
    if summed or noised:
        attacked += [single_steps(silos, visits, {**way, **OPEN}) for way in ways.values()]
    made = recognised(silos, [s for steps in attacked for s in steps])
    control, *tried = (made[i : i + visits] for i in range(0, len(made), visits))
    tried, bare = tried[: len(ways)], tried[len(ways) :] or [[]] * len(ways)
    for target, own, undefended in zip(ways, tried, bare, strict=True):
        yield from _share(RELAY, target, own, control, undefended)
    areas = {n: r.area for n, r in enumerate(tried[-1]) if len(r.others)}
    if areas:
        clusters = np.array([*areas]) % (visits if summed else len(silos))
        area = mean_of(np.array([*areas.values()]), clusters)
        yield Finding(
            NAME, RELAY, f"any frame, from {of} {step} as sent ({usual})", "AUC", area.value, 0.5,
            float(np.mean([r.area for r in control])), LEAST_AUC, len(areas), area.low, area.high,
            NOTE, mean_or_nan([r.area for r in bare[-1] if len(r.others)]),
        )  # fmt: skip
    if not neighbour:
        return
    mean, start = "from the mean of two backbones at the first mixing", first_backbone(config)
    first_ways: dict[str, Mapping[str, Value]] = {
        f"a frame, {mean}, after a step of one frame with {training.optimizer}": ONE_FRAME,
        f"one frame, {mean}, after a step as sent ({usual})": {},
    }
    for target, changes in first_ways.items():
        own = recognised(silos, first_mixings(silos, visits, changes), start)
        opened = first_mixings(silos, visits, {**changes, **OPEN}) if noised else []
        yield from _share(NEIGHBOUR, target, own, control, recognised(silos, opened, start))


def _share(
    attacker: str, target: str, tried: Sequence[Recognised], control: Sequence[Recognised],
    bare: Sequence[Recognised],
) -> Iterator[Finding]:  # fmt: skip
    others = [len(r.others) for r in tried]
    if any(others):  # else its silos have no frame that is not in the steps
        yield share_of_hits(
            NAME, attacker, target, share_among(others), [r.found for r in tried],
            float(np.mean([r.chance for r in tried])), [r.found for r in control], NOTE,
            [r.found for r in bare],
        )  # fmt: skip


def recognised(
    silos: Sequence[ExposedSilo], steps: Sequence[Step], start: Arrays | None = None
) -> list[Recognised]:
    """start: the backbone that all steps start from; None: the silos' own as last mixed."""
    inside, outside = ([list[np.ndarray]() for _ in steps] for _ in range(2))
    for place, silo in enumerate(silos):
        mine = [(n, step) for n, step in enumerate(steps) if place in step.frames]
        if not mine:
            continue
        largest = max(len(step.frames[place]) for _, step in mine)
        train = silo.silo.train
        nothing = Frames(train.images[:0], train.angles[:0])
        pool = distractors(silo, nothing, place, AMONG + largest)
        scores = scores_of(silo, pool, [step for _, step in mine], start)
        for (n, step), pooled in zip(mine, scores.T, strict=True):
            own, most = step.frames[place], _most(step, place)
            used = {image.tobytes() for image in own.images}
            rows = [i for i, image in enumerate(pool.images) if image.tobytes() not in used]
            outside[n].append(pooled[rows[:most]])
            inside[n].append(scores_of(silo, own, [step], start)[:, 0])
    return [Recognised(*map(np.concatenate, two)) for two in zip(inside, outside, strict=True)]


def scores_of(
    silo: ExposedSilo, frames: Frames, steps: Sequence[Step], start: Arrays | None = None
) -> np.ndarray:
    """Of n frames and m steps [n, m]; start: as of recognised."""
    config = with_keys(silo.config, {"network.dropout": 0.0})
    network = initial_network(config).train()
    own = silo.backbone if start is None else start
    network.load_state_dict({k: torch.tensor(v) for k, v in own.items()})
    names = names_sent(silo)
    weights = [p for n, p in network.named_parameters() if n in names]
    regress = REGRESSION_LOSSES[config.objective.regression]
    seen = Steps(torch.tensor(np.stack([step.signs for step in steps])))
    alone = torch.tensor([sum(map(len, step.frames.values())) == 1 for step in steps])
    found = []
    for image, angle in zip(frames.images, frames.angles, strict=True):
        predicted = network(torch.from_numpy(np.array(image))[None].float()).predictions
        loss = regress(predicted, torch.tensor([angle], dtype=torch.float32))
        cosines = seen.scores(torch.autograd.grad(loss, weights))
        found.append(torch.where(alone, cosines.abs(), cosines))
    return torch.stack(found).numpy() if found else np.zeros((0, len(steps)))


def _most(step: Step, place: int) -> int:
    """How many others a silo gives."""
    parts = np.array_split(np.arange(AMONG), len(step.frames))
    return len(parts[[*step.frames].index(place)])
