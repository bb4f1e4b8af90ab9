"""What is done to a client's gradients in every step of a training, before they are clipped."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedsuite.arrays import Share
from fedsuite.averaging.correction import Correction
from fedsuite.averaging.penalties import Penalty


class Gradients:
    """penalty: its gradient is added; anchor: the model that it pulls to, by default where the training starts; correction:
    of SCAFFOLD; only: what moves, all else has no gradients."""

    def __init__(
        self,
        penalty: Penalty | None = None,
        anchor: Mapping[str, np.ndarray] | None = None,
        correction: Correction | None = None,
        only: Share = Share(),
    ) -> None:
        self.penalty, self.correction = penalty, correction
        self.only = None if only == Share() else only
        self._given, self._anchor = anchor, dict[str, Tensor]()

    def shape(self, parameters: Mapping[str, Tensor]) -> None:
        """Call it between `backward` and the optimizer's step, at the first step too."""
        if self.penalty is not None:
            self._anchor = self._anchor or self._pulls_to(parameters)
            self.penalty(parameters, self._anchor).backward()
        if self.correction is not None:
            self.correction.correct(parameters)
        if self.only is not None:
            for name, parameter in parameters.items():
                if not self.only.covers(name):
                    parameter.grad = None

    def _pulls_to(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if self._given is None:
            return {k: p.detach().clone() for k, p in parameters.items()}
        return {k: torch.tensor(self._given[k], device=p.device) for k, p in parameters.items()}


UNCHANGED = Gradients()
