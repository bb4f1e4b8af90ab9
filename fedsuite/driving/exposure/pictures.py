"""A frame's picture from its gradient, by optimisation (fedsuite/privacy/attacks/gradient_matching.py).

The gradient is that of one frame on the regression loss, without dropout, in the silo's backbone as last mixed, of all that
a silo mixes: more than any silo sends, but for the noise of one that noises its steps. Labels are known, as features.py
tells them. The control is a network whose first layer is linear, at the
same size and with as many steps; a guesser shows a picture of the frame's mean grey.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from fedsuite.averaging.privacy_settings import EXAMPLE
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.visits import ExposedSilo
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.driving.training.contrastive import REGRESSION_LOSSES
from fedsuite.privacy.attacks.clustered import mean_of
from fedsuite.privacy.attacks.gradient_matching import (
    GEIPING,
    IDLG,
    Loss,
    Method,
    reconstruct,
)
from fedsuite.privacy.example_level import NoisedSteps
from fedsuite.privacy.findings import Finding
from fedsuite.privacy.likeness import grey_psnr, psnr, ssim
from fedsuite.randomness import rng_for, torch_generator_for
from fedsuite.settings.config import with_keys

NAME = "matching"
LEAST = {"psnr": 60.0, "ssim": 0.99}  # of the control
CONTROL_UNITS = 16
CUT_DB = 100.0  # decibels of a picture without error count as so many
FAILED = "below the grey picture: a failure of this kind proves nothing, another start or a better prior may succeed"
BETTER = "better than the grey picture"
Gradient = Sequence[Tensor]


@dataclass(frozen=True)
class Likeness:
    """PSNR in decibels and SSIM of a picture, and those of one grey."""

    psnr: float
    ssim: float
    grey_psnr: float
    grey_ssim: float


def picture_findings(
    silos: Sequence[ExposedSilo], seed: int, frames: int, steps: int
) -> Iterator[Finding]:
    """Of one training frame of as many silos; steps: of Geiping's method, a tenth of them of iDLG's L-BFGS."""
    # Without variation, the control's random picture would be smoothed.
    for method in (replace(IDLG, steps=max(1, steps // 10)), replace(GEIPING, steps=steps)):
        control = _control(silos[0], method, seed)
        found = [
            attacked(silos[i % len(silos)], i // len(silos), method, seed) for i in range(frames)
        ]
        note = f"{method.name}, {method.steps} steps; the control is a network with a linear first layer; "
        numbers = np.arange(frames)
        for measure in ("psnr", "ssim"):
            reached = mean_of(np.array([getattr(x, measure) for x in found]), numbers)
            grey = float(np.mean([getattr(x, f"grey_{measure}") for x in found]))
            yield Finding(
                NAME, "server", f"a frame's picture, by {method.name}", measure.upper(), reached.value, grey,
                getattr(control, measure), LEAST[measure], frames, reached.low, reached.high,
                note + (BETTER if reached.value > grey else FAILED),
            )  # fmt: skip


def attacked(silo: ExposedSilo, row: int, method: Method, seed: int) -> Likeness:
    """What the gradient of training frame `row` tells of its picture."""
    config = with_keys(silo.config, {"network.dropout": 0.0})
    network = initial_network(config)
    network.load_state_dict({k: torch.from_numpy(v) for k, v in silo.backbone.items()})
    network.eval()  # BatchNorm as the model has it; one frame has no statistics
    regress = REGRESSION_LOSSES[config.objective.regression]

    def loss(pictures: Tensor, angles: Tensor) -> Tensor:
        return regress(network(255.0 * pictures).predictions, angles)

    frames = silo.silo.train
    truth, angle = np.array(frames.images[row]) / 255.0, float(frames.angles[row])
    mixed = names_of(network, config).mixed
    weights = {name: p for name, p in network.named_parameters() if name in mixed}
    steps = NoisedSteps(config.privacy, 1, 1, rng_for(seed, "noised gradients", row, silo.number))

    def noised(gradient: Gradient) -> Gradient:
        named = {k: g[None] for k, g in zip(weights, gradient, strict=True)}
        found = steps.noised_sum(weights, [named])
        return [found[k] for k in weights]

    sent = noised if config.privacy.unit == EXAMPLE else _as_it_is
    return _likeness(loss, [*weights.values()], truth, angle, method, seed, sent)


def _as_it_is(gradient: Gradient) -> Gradient:
    return gradient


def _control(silo: ExposedSilo, method: Method, seed: int) -> Likeness:
    """On a network whose first layer is linear, in double precision."""
    frames: Frames = silo.silo.train
    truth = np.array(frames.images[0]) / 255.0
    generator = torch_generator_for(seed, "linear first layer")
    first, last = (
        nn.utils.skip_init(nn.Linear, i, o, dtype=torch.float64)
        for i, o in ((truth.size, CONTROL_UNITS), (CONTROL_UNITS, 1))
    )
    with torch.no_grad():
        for layer in (first, last):
            spread = layer.in_features**-0.5
            for p in layer.parameters():
                p.uniform_(-spread, spread, generator=generator)
    network = nn.Sequential(nn.Flatten(), first, nn.Sigmoid(), last)

    def loss(pictures: Tensor, angles: Tensor) -> Tensor:
        return (network(pictures)[:, 0] - angles).square().mean()

    bare = replace(method, variation=0.0, steps=max(method.steps, 1000 if method.signed else 20))
    return _likeness(loss, list(network.parameters()), truth, float(frames.angles[0]), bare, seed)


def _likeness(
    loss: Loss,
    weights: list[nn.Parameter],
    truth: np.ndarray,
    angle: float,
    method: Method,
    seed: int,
    sent: Callable[[Gradient], Gradient] = _as_it_is,
) -> Likeness:
    """sent: what an attacker sees of a gradient."""
    like = weights[0]
    picture = torch.from_numpy(truth)[None].to(like)
    angles = like.new_tensor([angle])
    seen = sent(torch.autograd.grad(loss(picture, angles), weights, allow_unused=False))
    generator = torch_generator_for(seed, "dummy pictures")
    found = reconstruct(loss, weights, seen, tuple(picture.shape), angles, method, generator)
    made = np.nan_to_num(found.pictures[0].double().cpu().numpy(), nan=0.5)  # L-BFGS may run away
    grey = np.full_like(truth, truth.mean())
    return Likeness(
        min(psnr(made, truth), CUT_DB), ssim(made, truth), grey_psnr(truth), ssim(grey, truth)
    )
