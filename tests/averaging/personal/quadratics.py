"""Clients whose loss is a quadratic, played by hand: f_k(w) = (w - b)' H (w - b) / 2 of a model of two numbers.

The model's first number is the array `body`, the second `head`. A training is plain SGD at 0.1 without randomness.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fedsuite.arrays import Arrays, Share
from fedsuite.averaging.local_method import Learnt, LocalMethod, Point, Visit
from fedsuite.averaging.settings import AveragingSettings, FedAvgSettings

RATE = 0.1
BODY = Share(("body.",))
CLIENTS = (
    (np.array([[1, 0.5], [0.5, 2]]), np.array([1.0, -1])),
    (np.array([[4, 0.5], [0.5, 0.5]]), np.array([-1.0, 2])),
)


def model(body: float, head: float) -> Arrays:
    return {"body": np.array([float(body)]), "head": np.array([float(head)])}


def numbers(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.array([float(arrays["body"][0]), float(arrays["head"][0])])


@dataclass
class Learner:
    """H, b of one client."""

    h: np.ndarray
    b: np.ndarray
    trained: list[tuple[str, int]] = field(
        default_factory=list
    )  # stream and steps of every training

    def slope(self, w: np.ndarray) -> np.ndarray:
        return self.h @ (w - self.b)

    def learn(
        self, start: Arrays, steps: int | None = None, *, only: Share = Share(), toward: Any = None,
        anchor: Arrays | None = None, stream: str = "", asked: int = 2,
    ) -> Learnt:  # fmt: skip
        w, pull = numbers(start), numbers(anchor or start)
        count = asked if steps is None else steps
        moves = np.array([only.covers("body"), only.covers("head")])
        for _ in range(count):
            gradient = self.slope(w) + (toward.strength * (w - pull) if toward else 0)
            w = w - RATE * gradient * moves
        self.trained.append((stream, count))
        return Learnt(model(*w), {"steps": count})

    # by steps

    def gradients(self, *models: Arrays) -> list[Point]:
        return [Point(model(*self.slope(numbers(m))), {}) for m in models]

    def stepped(
        self, start: Arrays, point: Point, stream: str = "", *, factor: float = 1.0
    ) -> Arrays:
        return {k: start[k] - RATE * factor * point.gradient[k] for k in start}

    def report(self) -> dict[str, float]:
        return {"steps": 2}


@dataclass
class Federation:
    """Both clients take part in every round with equal weights; kept: what each keeps, by number."""

    method: LocalMethod
    share: Share = Share()
    steps: int = 2
    settings: dict[str, Any] = field(default_factory=dict)
    kept: dict[int, Arrays] = field(default_factory=lambda: {0: {}, 1: {}})

    def __post_init__(self) -> None:
        self.server = model(0, 0)
        self.own = {k: model(0, 0) for k in self.kept}  # what is personal of the whole model
        self.learners = [Learner(*about) for about in CLIENTS]

    def round(self) -> None:
        settings = FedAvgSettings(federation=AveragingSettings(**self.settings))
        sent = []
        for k, learner in enumerate(self.learners):
            visit = Visit(
                self.received(k), self.kept[k], self.steps, partial(learner.learn, asked=self.steps), self.share,
                settings, partial(_opened, learner),
            )  # fmt: skip
            left = self.method.train(visit)
            sent.append(self.share.select(left.sent))
            self.own[k], self.kept[k] = left.sent, left.kept
        self.server = self.server | {k: (sent[0][k] + sent[1][k]) / 2 for k in sent[0]}

    def received(self, k: int) -> Arrays:
        return self.own[k] | self.share.select(self.server)

    def scored(self, k: int) -> np.ndarray:
        return numbers(self.method.scored(self.received(k), self.kept[k]))


def _opened(learner: Learner, stream: str = "") -> Learner:
    """A training by steps; without randomness all streams are one."""
    return learner
