"""Driving silos as a Flower client: trains their backbones on their own frames, scores backbones on held-out ones.

What leaves a silo: its backbone (weights and BatchNorm buffers), with a codec its change coded; with gradient tracking its
tracker, with SCAFFOLD how much its control variates changed; the number of its frames, losses and errors. Frames, angles,
the sub-network, control variates, a codec's residual and the rest of both optimizers' state stay, these last four on the
silo's own disk. A client holds one silo, or several in a
simulation, stacked along the first axis of every array; a pooled run uses the same client with all data as one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from flwr.client import NumPyClient

from clients.numpy_client_app import Config, Fitted, Parameters, Scored, named_arrays, named_reply
from fedsuite.arrays import Arrays, non_finite, under_prefix, with_prefix
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.correction import Correction
from fedsuite.averaging.exchange import exchange_of_rows
from fedsuite.averaging.privacy_settings import EXAMPLE
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import Silo
from fedsuite.driving.evaluation.metrics import errors_of
from fedsuite.driving.evaluation.predict import predict
from fedsuite.driving.message_keys import AVERAGE, OWN, silo_metric
from fedsuite.driving.metrics import metrics_of
from fedsuite.driving.model.tensor_names import TensorNames
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.training.contrastive import penalty_of
from fedsuite.driving.training.learner import Learner, Matrix, Site
from fedsuite.driving.training.private_learner import PrivateLearner
from fedsuite.driving.training.silo_networks import SiloNetworks
from fedsuite.messages.instructions import Instruction, Whole, query, task
from fedsuite.privacy.example_level import NoisedSteps, begin_visit
from fedsuite.randomness import rng_for
from fedsuite.runs.versions import Versions, checkpoint_rounds


@dataclass
class VehicleSite:
    """What one client owns. networks, networks_round: its state in memory, as of that round's version on disk."""

    partition: int
    name: str
    numbers: tuple[int, ...]
    silos: tuple[Silo, ...]
    private: Versions
    network: torch.nn.Module
    names: TensorNames
    initial: Arrays
    device: str
    networks: SiloNetworks | None = field(default=None, repr=False)
    networks_round: int | None = None

    @cached_property
    def training(self) -> Site:
        """What it learns from, opened once."""
        return Site(self.numbers, tuple(s.train for s in self.silos), self.device)


class VehicleClient(NumPyClient):
    """`matrix(t)`: the mixing matrix over this client's own silos, [S, S], for mixings inside one message."""

    def __init__(self, site: VehicleSite, config: CDLConfig, matrix: Matrix) -> None:
        self.site, self.config, self.matrix = site, config, matrix
        self.exchange = exchange_of_rows(config.federation)

    def instruction(self, kind: str, config: Mapping[str, Any]) -> Instruction:
        """What a message of this kind may say; a round's mixing steps follow those of the round before."""
        most, per_round = self.config.num_rounds, self.config.federation.mixings_per_round
        if kind == "query":
            return query(most)
        if kind != "train":
            return task(most)
        number = config.get("round")
        first = (number - 1) * per_round if type(number) is int else 0
        return task(
            most, {"first-mixing": Whole(first, first), "mixings": Whole(per_round, per_round)}
        )

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        """Who this is; with resume-round, private state newer than that round is dropped."""
        if "resume-round" in config:
            self.site.private.rollback(int(config["resume-round"]))
            self.site.networks = None
        numbered = list(zip(self.site.numbers, self.site.silos, strict=True))
        return {
            "partition": self.site.partition,
            "name": self.site.name,
            "num-examples": sum(len(s.train) for s in self.site.silos),
            **{silo_metric(i, "num-examples"): len(s.train) for i, s in numbered},
        }

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """Mixing steps `first-mixing` .. `first-mixing` + `mixings` - 1, the last one's mixing left to the server."""
        number = int(config["round"])
        needed = checkpoint_rounds(config)
        if self._forgets and "last-trained" in config:
            self.site.private.rollback(int(config["last-trained"]))
            needed.append(int(config["last-trained"]))  # in case this round's answer is lost
        networks = self._networks(number, config.get("last-trained", 0))
        # Until it is saved, so that an error here leaves nothing half trained behind.
        self.site.networks = None
        received = named_arrays(parameters, config)
        start = {k: v for k, v in received.items() if not k.startswith(CONTROL)}
        networks.load_backbone(start)
        penalty = penalty_of(self.config.federation)
        correction = Correction(under_prefix(received, CONTROL), networks.control)
        make: Callable[..., Learner] = Learner
        if self.config.privacy.unit == EXAMPLE:
            make = partial(PrivateLearner, partial(self._begin_private, number))
        learner = make(
            self.config,
            self.site.network,
            networks,
            self.site.training,
            penalty,
            correction.correct,
        )
        terms = learner.train(int(config["first-mixing"]), int(config["mixings"]), self.matrix)
        trained = networks.backbone_arrays()
        sent, networks.residual = self.exchange.encode(start, trained, networks.residual)
        sent = sent | with_prefix(correction.change(), CONTROL)
        networks.control = correction.updated()
        self._save(networks, trained | sent, number, needed)
        terms["sub-network-distance"] = networks.distance()
        metrics: dict[str, Any] = {
            silo_metric(silo, name): float(values[i])
            for name, values in terms.items()
            for i, silo in enumerate(self.site.numbers)
        }
        return named_reply(sent, sum(len(f) for f in self.site.training.frames), metrics)

    def evaluate(self, parameters: Parameters, config: Config) -> Scored:
        """Sums of errors on the silos' test frames: of each silo's own backbone and of the average model."""
        arrays = named_arrays(parameters, config)
        own, average = under_prefix(arrays, OWN), under_prefix(arrays, AVERAGE)
        metrics, rows = dict[str, Any](), metrics_of(self.config).computed
        for i, (silo, held) in enumerate(zip(self.site.numbers, self.site.silos, strict=True)):
            local = self._local_tensors(config, i)
            models = {"own": {k: v[i] for k, v in own.items()}, "average": average}
            for label, model in models.items():
                if not model:
                    continue
                tensors = {k: torch.tensor(v, device=self.site.device) for k, v in model.items()}
                angles = predict(
                    self.site.network, {**local, **tensors}, held.test,
                    self.config.evaluation.batch_size, self.site.device,
                )  # fmt: skip
                sums = errors_of(angles, held.test.angles, rows).sums
                metrics |= {silo_metric(silo, f"{label}.{k}"): float(v) for k, v in sums.items()}
        return 0.0, sum(len(s.test) for s in self.site.silos), metrics

    def _begin_private(self, number: int, i: int, updates: int) -> NoisedSteps:
        """The visit of silo i of this client in round `number`, with a ledger of its own."""
        silo, folder = self.site.numbers[i], self.site.private.folder
        return begin_visit(
            self.config.privacy,
            folder if len(self.site.silos) == 1 else folder / f"silo-{silo}",
            number,
            updates,
            self.config.training.batch_size,
            len(self.site.training.frames[i]),
            lambda: rng_for(self.config.seed, "private steps", number, silo),
        )

    @property
    def _forgets(self) -> bool:
        """Whether a step whose answer was lost must leave no trace: what it mixed beside its model was never mixed, what its
        control variates changed never came to those of the server, nor did what is no longer in a codec's residual."""
        across = LOCAL_OPTIMIZERS[self.config.training.optimizer].rule is not None
        codec = self.exchange.codec
        left_out = codec is not None and codec.residual
        return across or left_out or self.config.federation.control_variates

    def _local_tensors(self, config: Config, i: int) -> dict[str, torch.Tensor]:
        """What silo i of this client keeps of its backbone, as of the message's round."""
        if not self.site.names.local:
            return {}
        backbone = self._networks(int(config["round"]) + 1, config.get("last-trained", 0)).backbone
        return {k: backbone[k].detach()[i] for k in self.site.names.local}

    def _networks(self, number: int, least: int) -> SiloNetworks:
        """The silos as they were after the last round before `number`, from memory if that is what it holds."""
        site = self.site
        latest = site.private.newest(number, least)
        if site.networks is None or site.networks_round != latest:
            site.networks = SiloNetworks(
                self.config, site.names, site.initial, len(site.silos), site.device
            )
            kept = site.private.load(number)
            if kept is not None:
                site.networks.load_private_arrays(kept[0])
            site.networks_round = latest
        return site.networks

    def _save(self, networks: SiloNetworks, arrays: Arrays, number: int, needed: list[int]) -> None:
        """Keep what stays here; a diverged silo keeps what it had before, so that it can join again."""
        private = networks.private_arrays()
        bad = non_finite(arrays) + non_finite(private)
        if bad:
            raise ValueError(
                f"{self.site.name}: training diverged, {bad[0]} holds NaN or infinity; lower training.learning-rate"
            )
        self.site.private.save(number, private, {})
        self.site.private.prune(needed)
        self.site.networks, self.site.networks_round = networks, number
