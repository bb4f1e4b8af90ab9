"""DP-SGD: what a client learns hides whether any one of its examples was there (Abadi et al. 2016, 1607.00133, Algorithm 1).

Symbols: n examples of the client; B the batch size, so that q = min(1, B / n) is the chance of each example to be in the
batch of a step (Poisson); g_i the gradient of example i, all trained arrays together; C the clipping norm; z the noise
multiplier.

  g = (sum over the batch of g_i min(1, C / ||g_i||) + N(0, (z C)^2 I)) / (q n)

A batch has B examples on average, and may have none. Who is in it is drawn like the noise, and told to nobody; so is
whatever masks a gradient, such as dropout (masks.py says why). n is no secret, nor is the number of steps. The divisor is
fixed; what comes after g is post-processing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedsuite.averaging.privacy_settings import EXAMPLE, PrivacySettings
from fedsuite.errors import InputError
from fedsuite.privacy.ledger import Release, read, record
from fedsuite.privacy.masks import draws_of
from fedsuite.privacy.noise_source import noise_source

AT_ONCE = 16  # examples whose gradients are held at the same time
Tensors = Mapping[str, Tensor]
LossOfOne = Callable[..., Tensor]  # (parameters, parts of one example) -> its loss


def sampling_rate(batch: int, examples: int) -> float:
    """q."""
    return min(1.0, batch / max(examples, 1))


@dataclass(frozen=True)
class NoisedSteps:
    """The steps of one visit. rng: of its draws and its noise; epsilon: of all that the client's ledger has."""

    settings: PrivacySettings
    batch: int
    examples: int
    rng: np.random.Generator
    epsilon: float = 0.0

    def rows(self) -> np.ndarray:
        """Rows of the examples of one step, ascending."""
        drawn = self.rng.random(self.examples) < sampling_rate(self.batch, self.examples)
        return np.flatnonzero(drawn)

    def gradients(
        self, loss: LossOfOne, parameters: Tensors, examples: tuple[Tensor, ...]
    ) -> dict[str, Tensor]:
        """g by name, of the examples of a batch [b, ...], b >= 0."""
        parts = (per_example_gradients(loss, parameters, some) for some in _parts(examples))
        return self.noised_sum(parameters, parts)

    def noised_sum(self, parameters: Tensors, found: Iterable[Tensors]) -> dict[str, Tensor]:
        """g by name, of the gradients [b, ...] of some examples after those of others; what torch draws without a generator
        of its own while they are found is drawn like the noise."""
        summed = {
            k: torch.zeros(p.shape, dtype=torch.float64, device=p.device)
            for k, p in parameters.items()
        }
        with draws_of(self.rng, next(iter(parameters.values())).device):
            for each in found:
                for name, value in clipped_sum(each, self.settings.clip).items():
                    summed[name] += value
        return {k: self._noised(summed[k]).to(parameters[k].dtype) for k in sorted(summed)}

    def _noised(self, summed: Tensor) -> Tensor:
        scale = self.settings.noise_multiplier * self.settings.clip
        noise = torch.from_numpy(np.asarray(self.rng.normal(0.0, scale, summed.shape)))
        size = sampling_rate(self.batch, self.examples) * max(self.examples, 1)
        return (summed + noise.to(summed.device)) / size


def begin_visit(
    settings: PrivacySettings,
    folder: Path,
    number: int,
    steps: int,
    batch: int,
    examples: int,
    seeded: Callable[[], np.random.Generator],
) -> NoisedSteps:
    """A visit of `steps` steps in round `number`, which the ledger in the client's private `folder` has from now on.

    InputError where it would take epsilon above privacy.max-epsilon: then nothing is trained.
    """
    release = Release(
        round=number, unit=EXAMPLE, noise_multiplier=settings.noise_multiplier, delta=settings.delta,
        sampling=sampling_rate(batch, examples), count=steps, noise=settings.noise,
    )  # fmt: skip
    most = settings.max_epsilon
    if most and (epsilon := read(folder).and_then(release).epsilon()) > most:
        raise InputError(
            f"privacy.max-epsilon: round {number} would take this client's epsilon to {epsilon:.4g}, above {most:g}; end "
            "the run before it"
        )
    ledger = record(folder, release, private=True)
    rng = noise_source(settings.noise, seeded)
    return NoisedSteps(settings, batch, examples, rng, ledger.epsilon())


def per_example_gradients(
    loss: LossOfOne, parameters: Tensors, examples: tuple[Tensor, ...]
) -> dict[str, Tensor]:
    """Gradients [b, ...] of `parameters` by name, one for each example [b, ...]."""
    over = torch.func.vmap(
        torch.func.grad(loss), in_dims=(None, *(0 for _ in examples)), randomness="different"
    )
    found: dict[str, Tensor] = over(dict(parameters), *examples)
    return found


def clipped_sum(gradients: Tensors, clip: float) -> dict[str, Tensor]:
    """sum_i g_i min(1, C / ||g_i||) of gradients [b, ...], float64; ValueError where one is not finite."""
    squares = sum(g.flatten(1).double().square().sum(1) for g in gradients.values())
    norms = torch.as_tensor(squares).sqrt()
    if not torch.isfinite(norms).all():
        raise ValueError("training diverged: the gradient of an example holds NaN or infinity")
    factors = clip / norms.clamp_min(clip)
    return {k: torch.tensordot(factors, g.double(), dims=1) for k, g in gradients.items()}


def check_hides(network: torch.nn.Module) -> None:
    """InputError for a network in which examples of a batch know of one another."""
    for name, module in network.named_modules():
        if getattr(module, "track_running_stats", False):
            raise InputError(
                f"privacy.unit: example, but {name or 'the network'} ({type(module).__name__}) keeps statistics of the "
                "data, which get no noise; normalise by groups or layers"
            )


def _parts(examples: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, ...]]:
    """At most AT_ONCE examples at a time; none where there are none."""
    if len(examples[-1]):
        yield from zip(*(t.split(AT_ONCE) for t in examples), strict=True)
