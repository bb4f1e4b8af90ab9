"""Local training of the silos of one client: u updates per mixing step (Do et al. 2024, DPASGD and its update rules).

Mixing step t = 0, 1, 2, ... of a silo with backbone theta^b and sub-network theta^s:

  t = 0   u updates of theta^b on L_lr alone, then theta^s := theta^b, before anything is mixed
  t > 0   u updates; theta^b descends L_lr + w beta L_cd+, theta^s descends w (1 - beta) L_cd-, w the influence, or goes
          by another rule of sub_networks.py
  then    theta_i^b <- sum_j A_ij theta_j^b; theta^s and both optimizers stay

A silo that missed the first steps makes its own first one as t = 0.

The gradients of S silos are taken one silo after another, or in one pass over a stacked network (torch.vmap), which
keeps a GPU busy. Both draw the same batches and chains; dropout masks differ between the two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from fedsuite.averaging.penalties import Penalty
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.batches import stacked_batch
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.data.resident_frames import ResidentFrames, may_reside
from fedsuite.driving.message_keys import TERMS
from fedsuite.driving.model.layers import channels_last
from fedsuite.driving.model.networks import Output
from fedsuite.driving.model.stateless import StatelessNetwork, dropout_seed
from fedsuite.driving.training.contrastive import (
    REGRESSION_LOSSES,
    chain_of,
    contrastive_terms,
    influence,
    loss_of,
    noise_shape,
    total_loss,
)
from fedsuite.driving.training.silo_networks import BACKBONE, SUB, SiloNetworks, Tensors
from fedsuite.randomness import torch_generator_for

Matrix = Callable[[int], np.ndarray]
Call = Callable[[Tensors, Tensor], Output]  # a network's tensors and images -> its output


@dataclass(frozen=True)
class Site:
    """The silos that a client trains. silos: their numbers, which all randomness hangs on; device: where batches go."""

    silos: tuple[int, ...]
    frames: tuple[Frames, ...]
    device: str = "cpu"

    @cached_property
    def _resident(self) -> ResidentFrames | None:
        if may_reside(self.frames, self.device):
            return ResidentFrames(self.frames, self.silos, self.device)
        return None

    def batch(self, number: int, size: int, seed: int, flip: bool) -> tuple[Tensor, Tensor]:
        """Batch `number` of every silo, on the device: images uint8 [S, B, C, H, W], angles float32 [S, B]."""
        if self._resident is not None:
            return self._resident.batch(number, size, seed, flip)
        images, angles = stacked_batch(self.frames, self.silos, number, size, seed, flip)
        return torch.from_numpy(images).to(self.device), torch.from_numpy(angles).to(self.device)


@dataclass(frozen=True)
class _Batch:
    """images float [S, B, C, H, W]; angles [S, B]; noise [S, ...] of the chains; influence w."""

    images: Tensor
    angles: Tensor
    noise: Tensor | None
    influence: float
    number: int


class Learner:
    """Trains the networks of S silos; `network` is a template, `penalty` is added to every silo's loss, `correct`
    called with the stacked backbones when they have a step's gradients."""

    def __init__(
        self,
        config: CDLConfig,
        network: torch.nn.Module,
        networks: SiloNetworks,
        site: Site,
        penalty: Penalty | None = None,
        correct: Callable[[Tensors], object] = lambda backbone: None,
    ) -> None:
        self.config, self.network, self.networks, self.site = config, network, networks, site
        self.chain = chain_of(config.objective, config.data.angle_end)
        self.penalty, self.correct = penalty, correct
        self.start: Tensors = {}
        stacked = config.training.stacked
        self.is_stacked = stacked == "yes" or (stacked == "auto" and networks.device != "cpu")
        self._stateless = StatelessNetwork(network)
        self._rows: dict[tuple[str, int], Tensors] = {}

    def train(self, first: int, count: int, matrix: Matrix) -> dict[str, np.ndarray]:
        """Mixing steps first .. first + count - 1, without the mixing of the last one, which is the caller's.

        matrix(t): A over the silos of this site, float64 [S, S]. Returns means over updates [S] by name.
        """
        self.network.train()
        updates = self.config.training.local_updates
        totals = {name: np.zeros(len(self.site.silos)) for name in TERMS}
        for t in range(first, first + count):
            if self.penalty is not None:
                backbone, names = self.networks.backbone, self.networks.names.parameters
                self.start = {name: backbone[name].detach().clone() for name in names}
            self.networks.begin_mixing_step()
            for j in range(updates):
                for name, values in self._update(t, t * updates + j).items():
                    totals[name] += values
            if not self.networks.copied:
                self.networks.copy_backbone_to_sub()
            if t < first + count - 1:
                self.networks.mix(matrix(t))
        return {k: v / (count * updates) for k, v in totals.items()}

    def _update(self, t: int, number: int) -> dict[str, np.ndarray]:
        """One optimizer step of every silo; values of the loss terms [S]."""
        contrasts = self.config.objective.contrastive and self.networks.copied
        batch = self._batch(t, number, contrasts)
        gradients = self._stacked_gradients if self.is_stacked else self._gradients_one_by_one
        terms = gradients(batch, contrasts)
        self.correct(self.networks.backbone)
        for prefix, optimizer in self.networks.optimizers.items():
            if prefix == BACKBONE or contrasts:
                optimizer.step()
        values = terms.double().cpu().numpy()
        return {k: values[:, i] for i, k in enumerate(TERMS)}

    def _batch(self, t: int, number: int, contrasts: bool) -> _Batch:
        c = self.config
        images, angles = self.site.batch(number, c.training.batch_size, c.seed, c.training.flip)
        noisy = contrasts and loss_of(c.objective).noisy
        return _Batch(
            images.float(),
            angles,
            self._chain_noise(number).to(self.networks.device) if noisy else None,
            influence(c.objective, t, c.num_mixings) if contrasts else 0.0,
            number,
        )

    def _chain_noise(self, number: int) -> Tensor:
        """Noise of the Langevin chains [S, ...], each silo's from its own generator."""
        seed, shape = self.config.seed, self._noise_shape
        streams = [torch_generator_for(seed, "chains", number, silo) for silo in self.site.silos]
        return torch.stack([torch.randn(shape, generator=stream) for stream in streams])

    @cached_property
    def _noise_shape(self) -> tuple[int, ...]:
        """Of one silo's chains; how many features there are only the network can tell."""
        c, side = self.config, self.config.data.image_size
        frame = torch.zeros(2, c.data.channels, side, side, device=self.networks.device)
        with torch.no_grad():
            self.network.eval()
            output: Output = self.network(frame)
            self.network.train()
        size, features = c.training.batch_size, output.features.shape[1]
        return noise_shape(c.objective, self.chain, size, features)

    # --- gradients -------------------------------------------------------------------------------

    def _loss(
        self, call: Call, backbone: Tensors, sub: Tensors, start: Tensors, images: Tensor,
        angles: Tensor, noise: Tensor | None, weight: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """One silo's loss and its terms [4]; `sub` is {} before the sub-network exists."""
        output = call(backbone, images)
        objective = self.config.objective
        regress = REGRESSION_LOSSES[objective.regression]
        regression = regress(output.predictions, angles)
        plus = minus = torch.zeros_like(regression)
        loss = regression
        if sub:
            shared = {k: v for k, v in backbone.items() if k not in sub}
            other = call({**shared, **sub}, images)
            plus, minus = contrastive_terms(objective, self.chain, output, other, noise)
            loss = total_loss(objective, regression, (plus, minus), weight)
            if self.networks.rule.regresses:
                loss = loss + regress(other.predictions, angles)
        if start:
            assert self.penalty is not None
            loss = loss + self.penalty(backbone, start)
        return loss, torch.stack([regression, plus, minus, loss]).detach()

    def _gradients_one_by_one(self, batch: _Batch, contrasts: bool) -> Tensor:
        """Fill .grad of the stacked tensors; terms [S, 4]."""
        stacks = [self.networks.backbone] + ([self.networks.sub] if contrasts else [])
        tensors = [t[n] for t in stacks for n in self.networks.names.parameters if n in t]
        leaves = [t for t in tensors if t.requires_grad]
        for leaf in leaves:
            if leaf.grad is None:  # memory of the step before is written over
                leaf.grad = torch.empty_like(leaf)
        terms = []
        for i, silo in enumerate(self.site.silos):
            backbone = self._silo_rows(BACKBONE, i)
            sub = self._silo_rows(SUB, i) if contrasts else {}
            own = [v for rows in (backbone, sub) for v in rows.values() if v.requires_grad]
            noise = None if batch.noise is None else batch.noise[i]
            start = {k: v[i] for k, v in self.start.items()}
            with dropout_seed(self.config.seed, batch.number, silo, self.networks.device):
                images = channels_last(batch.images[i])
                loss, values = self._loss(
                    self._stateless, backbone, sub, start, images, batch.angles[i], noise, batch.influence
                )  # fmt: skip
                gradients = torch.autograd.grad(loss, own, allow_unused=True)
            for leaf, gradient in zip(leaves, gradients, strict=True):
                if gradient is None or leaf.grad is None:
                    leaf.grad = None  # no part of any silo's loss: the optimizer passes it over
                else:
                    leaf.grad[i] = gradient
            terms.append(values)
        return torch.stack(terms)

    def _silo_rows(self, prefix: str, i: int) -> Tensors:
        """Silo i's slices of a stacked network, parameters first; they share its memory, so they are made once."""
        if (prefix, i) not in self._rows:
            tensors, names = self.networks.stacks[prefix], self.networks.names
            rows = {n: tensors[n].detach()[i] for n in names.parameters if n in tensors}
            for name, row in rows.items():
                row.requires_grad_(tensors[name].requires_grad)
            rows |= {n: tensors[n].detach()[i] for n in names.buffers if n in tensors}
            self._rows[prefix, i] = rows
        return self._rows[prefix, i]

    def _stacked_gradients(self, batch: _Batch, contrasts: bool) -> Tensor:
        """The same in one pass: a silo's loss depends on its own slice only, so the sum's gradient is all of theirs."""
        networks = self.networks
        sub = networks.sub if contrasts else {}
        one = partial(self._loss, partial(torch.func.functional_call, self.network))
        for optimizer in networks.optimizers.values():
            optimizer.zero_grad(set_to_none=True)

        axes = (0, 0, 0, 0, 0, None if batch.noise is None else 0, None)
        over_silos = torch.vmap(one, in_dims=axes, randomness="different")
        with dropout_seed(self.config.seed, batch.number, self.site.silos[0], networks.device):
            losses, terms = over_silos(
                networks.backbone, sub, self.start, batch.images, batch.angles, batch.noise,
                batch.influence,
            )  # fmt: skip
            losses.sum().backward()
        return terms.detach()
