"""A silo of a finished CDL run, and what it sends when it makes one more mixing step.

A step is played in memory by the silo's own learner, from the backbone as last mixed and from what the silo has kept: its
sub-network and, with the run's own optimizer, moments. Whoever relays backbones knows the mixed one (`before`), gets the
trained one (`after`), and has followed the silo from its first step; a server of control variates adds up how much they have
changed, which is the mean gradient of the step (`told`). A silo that noises its steps does so here, too, and its ledger gets
no line: nothing leaves the audit.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedsuite.arrays import Arrays, under_prefix
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.correction import Correction
from fedsuite.averaging.exchange import exchange_of_rows
from fedsuite.averaging.privacy_settings import EXAMPLE
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import Frames, Silo
from fedsuite.driving.data.sources import open_own, roster_folder, with_limit
from fedsuite.driving.exposure.followed import Follower, follower_of
from fedsuite.driving.model.networks import Output
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.driving.training.contrastive import penalty_of
from fedsuite.driving.training.learner import Learner, Site
from fedsuite.driving.training.private_learner import PrivateLearner
from fedsuite.driving.training.silo_networks import BACKBONE, SUB, SiloNetworks
from fedsuite.errors import InputError
from fedsuite.privacy.example_level import NoisedSteps
from fedsuite.randomness import rng_for
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Checkpoints, Versions
from fedsuite.settings.config import with_keys
from fedsuite.settings.values import Value

# What makes a step's update a gradient: one frame, one plain step.
ONE_FRAME: Mapping[str, Value] = {"training.batch-size": 1, "training.local-updates": 1}
PLAIN: Mapping[str, Value] = {
    **ONE_FRAME,
    "training.optimizer": "sgd",
    "training.weight-decay": 0.0,
}
OPEN: Mapping[str, Value] = {"privacy.unit": "none"}  # without noise in the silo's own steps
BARE: Mapping[str, Value] = {**PLAIN, "network.dropout": 0.0, "objective.loss": "none"}


@dataclass(frozen=True)
class Visit:
    """before, after: a backbone's arrays, and those that it sends; images uint8 [n, C, H, W] and angles [n] that it learnt
    from, in order; rate, how many updates were made, and of how many frames each; follower: of all messages up to here."""

    before: Arrays
    after: Arrays
    frames: Frames
    rate: float
    updates: int
    batch: int
    follower: Follower

    def gradient(self, name: str) -> np.ndarray:
        """What a follower solves for: the gradient where one step was made, but with Adam, whose steps hide its size."""
        return self.follower.gradient(name, self._direction(name))

    def signs(self, name: str) -> np.ndarray:
        """Of that gradient, with Adam too."""
        return self.follower.signs(name, self._direction(name))

    def _direction(self, name: str) -> np.ndarray:
        change = self.after[name].astype(np.float64) - self.before[name]
        return np.asarray(-change / self.rate)


class _AttackedSteps(NoisedSteps):
    """Noised steps with a frame at least, as there is nothing to find in one without; with exactly one, where it is one on
    average."""

    def rows(self) -> np.ndarray:
        if self.batch == 1:
            return self.rng.integers(self.examples, size=1)
        while not len(rows := super().rows()):
            pass
        return rows


class _WatchedLearner(PrivateLearner):
    """seen: the frames of its steps, which nobody could draw again."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen = list[tuple[Tensor, Tensor]]()

    def _frames(self, i: int) -> tuple[Tensor, Tensor]:
        self.seen.append(frames := super()._frames(i))
        return frames


@dataclass(frozen=True, eq=False)
class ExposedSilo:
    """One silo: its frames, its backbone as last mixed, what was mixed beside that, what it has kept; control: the server's
    control variates."""

    config: CDLConfig
    number: int
    silo: Silo
    backbone: Arrays
    beside: Arrays = field(repr=False)
    control: Arrays = field(repr=False)
    private: Arrays = field(repr=False)

    def visit(self, changes: Mapping[str, Value], turn: int, start: Arrays | None = None) -> Visit:
        """Mixing step `turn` after the run's last, settings changed; start: another backbone, without what was kept."""
        config = with_keys(self.config, dict(changes))
        network = initial_network(config)
        names = names_of(network, config)
        own = self.backbone if start is None else start
        networks = SiloNetworks(config, names, own, 1, "cpu")
        if start is None:
            networks.load_private_arrays(self._kept(config))
            networks.load_backbone({k: self.beside[k][None] for k in networks.sent})
        site = Site((self.number,), (self.silo.train,))
        make: Callable[..., Learner] = Learner
        if config.privacy.unit == EXAMPLE:
            make = partial(_WatchedLearner, self._noised_steps(config, turn))
        correction = Correction(self.control if start is None else {}, networks.control)
        penalty = penalty_of(config.federation)
        learner = make(config, network, networks, site, penalty, correction.correct)
        before, state = _arrays(networks.backbone), networks.optimizers[BACKBONE].state
        follower = follower_of(config.training, networks.backbone, state)
        t, u = config.num_mixings + turn, config.training.local_updates
        learner.train(t, 1, lambda _: np.eye(1))
        after = _sent(networks, before)
        size, flip = config.training.batch_size, config.training.flip
        if isinstance(learner, _WatchedLearner):
            parts = learner.seen
        else:
            batches = [site.batch(t * u + j, size, config.seed, flip) for j in range(u)]
            parts = [(images[0], angles[0]) for images, angles in batches]
        images, angles = (np.concatenate([p[i].numpy() for p in parts]) for i in (0, 1))
        told = {k: u * v[0].astype(np.float64) for k, v in correction.updated().items()}
        rate, frames = config.training.learning_rate, Frames(images, angles)
        return Visit(before, after, frames, rate, u, size, replace(follower, told=told))

    def _noised_steps(self, config: CDLConfig, turn: int) -> Callable[[int, int], NoisedSteps]:
        size, examples = config.training.batch_size, len(self.silo.train)
        rng = rng_for(config.seed, "audited private steps", turn, self.number)
        return lambda i, updates: _AttackedSteps(config.privacy, size, examples, rng)

    def _kept(self, config: CDLConfig) -> Arrays:
        """Without moments where the optimizer is another, without a sub-network where the loss has none."""
        same = config.training.optimizer == self.config.training.optimizer
        dropped = () if same else ("moments.",)
        if not config.objective.contrastive:
            dropped = (*dropped, SUB, f"moments.{SUB}")
        return {k: v for k, v in self.private.items() if not k.startswith(dropped or ("-",))}

    def predictions(self, backbone: Arrays, frames: Frames) -> np.ndarray:
        """Of frames [n], without dropout."""
        network = initial_network(self.config).eval()
        return self._output(network, backbone, frames).predictions.numpy()

    def features(self, backbone: Arrays, frames: Frames, together: int) -> np.ndarray:
        """Of n > 0 frames [n, D], as in training but for dropout: BatchNorm takes statistics over so many together."""
        network = initial_network(with_keys(self.config, {"network.dropout": 0.0})).train()
        each = together if self.config.network.batch_norm != "group" else max(1, len(frames))
        parts = [
            Frames(frames.images[i : i + each], frames.angles[i : i + each])
            for i in range(0, len(frames), each)
        ]
        return np.concatenate([self._output(network, backbone, p).features.numpy() for p in parts])

    def _output(self, network: nn.Module, backbone: Arrays, frames: Frames) -> Output:
        # Copies, for BatchNorm writes into its statistics.
        tensors = {k: torch.tensor(v) for k, v in backbone.items()}
        images = torch.from_numpy(np.array(frames.images)).float()
        with torch.no_grad():
            found: Output = torch.func.functional_call(network, tensors, (images,))
        return found


def silos_of(config: CDLConfig, folder: Path) -> list[ExposedSilo]:
    """All silos of the run in `folder`; InputError where their states are not here, as of a run on real nodes."""
    run = RunFolder(folder)
    roster, last = read_roster(run.path / ROSTER), Checkpoints(run.checkpoints).latest()
    if last is None:
        raise InputError(f"{run.checkpoints}: has no checkpoint; give a run with its checkpoints/")
    config, mixed = with_limit(config, roster), last.state.arrays
    control = {k: c[None] for k, c in under_prefix(last.state.optimizer, CONTROL).items()}
    data, silos = roster_folder(config.drawn_data, roster), list[ExposedSilo]()
    names = names_of(initial_network(config), config)
    for member in roster.members:
        kept = Versions(run.client(member.name), member.name).load(sys.maxsize)
        if kept is None:
            raise InputError(
                f"{run.client(member.name)}: no state of {member.name} lies here, as silos on real nodes keep theirs to "
                "themselves; audit a run made in simulation"
            )
        for row, name in enumerate(member.names("names")):
            number, own = member.listed("silos", int)[row], open_own(data, name)
            private = _row(kept[0], row)
            beside = {k: _of_one(v, len(silos)) for k, v in mixed.items()}
            backbone = {k: beside.pop(k) for k in sorted(names.mixed)}
            at_home = under_prefix(private, BACKBONE)
            backbone |= {k: _of_one(at_home[k], 0) for k in sorted(names.local)}
            silos.append(ExposedSilo(config, number, own, backbone, beside, control, private))
    return silos


def head_of(network: nn.Module) -> str:
    """Name of the linear layer that makes angles of features; "" where there is none."""
    named = [
        n for n, m in network.named_modules() if isinstance(m, nn.Linear) and m.out_features == 1
    ]
    return next((n for n in named if n.split(".")[-1] == "head"), "")


def _arrays(backbone: Mapping[str, Tensor]) -> Arrays:
    """Of the one silo that it holds."""
    return {k: _of_one(v.detach().numpy(), 0).copy() for k, v in backbone.items()}


def _sent(networks: SiloNetworks, before: Arrays) -> Arrays:
    """What arrives of a trained backbone, after the run's codec."""
    exchange, rows = exchange_of_rows(networks.config.federation), networks.backbone_arrays()
    start = {k: before[k][None] for k in sorted(networks.names.mixed)}
    sent, _ = exchange.encode(start, {k: rows[k] for k in start}, networks.residual)
    return {k: _of_one(v, 0).copy() for k, v in exchange.decode(start, sent).items()}


def _of_one(stacked: np.ndarray, row: int) -> np.ndarray:
    """One silo's array, also where that is a single number, such as how many batches BatchNorm has seen."""
    return np.asarray(stacked[row])


def _row(arrays: Mapping[str, np.ndarray], row: int) -> Arrays:
    """One silo's part of what several have kept; counts of steps are everybody's."""
    return {k: v[row : row + 1] if v.ndim else v for k, v in arrays.items()}
