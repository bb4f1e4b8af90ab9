"""Local training of the silos of one client by DP-SGD: each frame's gradient is clipped, and their sum noised.

The updates are those of learner.py without a sub-network, but for what a mini-batch is, where its dropout is drawn from and
how its gradient comes about (fedsuite/privacy/example_level.py). Nothing that is computed of frames leaves a silo otherwise:
losses are told to nobody.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsuite.averaging.privacy_settings import EPSILON
from fedsuite.driving.model.networks import Output
from fedsuite.driving.training.contrastive import REGRESSION_LOSSES
from fedsuite.driving.training.learner import Learner, Matrix
from fedsuite.driving.training.silo_networks import BACKBONE, Tensors
from fedsuite.privacy.example_level import NoisedSteps

Visits = Callable[[int, int], NoisedSteps]


class PrivateLearner(Learner):
    """begin: (which of this client's silos, updates) -> the noised steps of its visit, which the silo's ledger then has."""

    def __init__(self, begin: Visits, *given: Any) -> None:
        super().__init__(*given)
        self.begin, self.visits = begin, list[NoisedSteps]()

    def train(self, first: int, count: int, matrix: Matrix) -> dict[str, np.ndarray]:
        """As of every learner; returns the epsilon [S] that each silo has spent so far."""
        updates = count * self.config.training.local_updates
        self.visits = [self.begin(i, updates) for i in range(len(self.site.silos))]
        super().train(first, count, matrix)
        return {EPSILON: np.array([visit.epsilon for visit in self.visits])}

    def _update(self, t: int, number: int) -> dict[str, np.ndarray]:
        """One optimizer step of every silo."""
        for i in range(len(self.site.silos)):
            for name, gradient in self._noised(i, self._silo_rows(BACKBONE, i)).items():
                stacked = self.networks.backbone[name]
                if stacked.grad is None:
                    stacked.grad = torch.zeros_like(stacked)
                stacked.grad[i] = gradient
        self.networks.optimizers[BACKBONE].step()
        return {}

    def _noised(self, i: int, rows: Tensors) -> dict[str, Tensor]:
        """The gradient of silo i: of a batch of its frames, and of the penalty, which knows none of them."""
        trained = {k: v for k, v in rows.items() if v.requires_grad}
        now = {k: v.detach() for k, v in trained.items()}
        found = self.visits[i].gradients(partial(self._loss_of_one, rows), now, self._frames(i))
        if self.penalty is not None:
            pull = self.penalty(trained, {k: v[i] for k, v in self.start.items()})
            pulls = torch.autograd.grad(pull, [*trained.values()], allow_unused=True)
            for name, gradient in zip(trained, pulls, strict=True):
                found[name] = found[name] if gradient is None else found[name] + gradient
        return found

    def _loss_of_one(self, rows: Tensors, now: Tensors, image: Tensor, angle: Tensor) -> Tensor:
        output: Output = torch.func.functional_call(
            self.network, {**rows, **now}, (image[None].float(),)
        )
        loss: Tensor = REGRESSION_LOSSES[self.config.objective.regression](
            output.predictions, angle[None]
        )
        return loss

    def _frames(self, i: int) -> tuple[Tensor, Tensor]:
        """A batch of silo i: images uint8 [b, C, H, W], angles float32 [b]; mirrored by coins as secret as the rows."""
        frames, visit = self.site.frames[i], self.visits[i]
        rows = visit.rows()
        images, angles = frames.images[rows], frames.angles[rows]
        if self.config.training.flip:
            mirrored = visit.rng.random(len(rows)) < 0.5
            images = np.where(mirrored[:, None, None, None], images[..., ::-1], images)
            angles = np.where(mirrored, -angles, angles)
        found = torch.from_numpy(np.array(images)), torch.from_numpy(np.array(angles))
        return found[0].to(self.networks.device), found[1].to(self.networks.device)
