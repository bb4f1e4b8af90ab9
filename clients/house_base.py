"""What every house of a FedVLN federation is and keeps, whatever its stage trains.

  <private>/round-NNNNNN.safetensors   own agent (pre-exploration), optimizer and control variates, under `agent.`,
                                       `optimizer.` and `control.`
  <private>/speaker/                   the speaker that the server handed out before round 1
  <private>/model.safetensors          the house's own agent, exported when a pre-exploration ends

Nothing of this is ever sent; which visits count stands in clients/keeping.py. A centralised run uses the same clients,
holding all houses at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.nn import Module
from torch.optim import Optimizer

from clients.keeping import KeepingClient
from clients.numpy_client_app import Config, Fitted
from fedsuite.arrays import (
    Arrays,
    module_arrays,
    under_prefix,
    with_prefix,
)
from fedsuite.averaging.control_variates import Correction
from fedsuite.averaging.optimizer_state import load_optimizer_arrays, optimizer_arrays
from fedsuite.messages.instructions import YES_NO, Fields, Instruction, Whole, query, task
from fedsuite.runs.versions import ANEW, Versions
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, Sample
from fedsuite.vln.data.sampled_paths import SampledPaths
from fedsuite.vln.environment import World
from fedsuite.vln.message_keys import OPTIMIZER, SPEAKER, TEST, VALIDATION
from fedsuite.vln.stages import is_personal, visit_steps

AGENT = "agent."


@dataclass(frozen=True)
class HouseSite:
    """All that one client owns: its house or houses with their world, and its private disk.

    unseen: without training instructions; sampled: by house the paths for the speaker to describe, if any.
    """

    partition: int
    name: str
    houses: tuple[House, ...]
    world: World
    private: Versions
    folder: Path
    unseen: bool = False
    sampled: tuple[SampledPaths, ...] = ()

    def samples(self, split: str) -> list[Sample]:
        """All own samples of a split, house by house."""
        return [s for h in self.houses for s in h.samples.get(split, ())]


class HouseClientBase(KeepingClient):
    """Who the house is, and its disk."""

    def __init__(self, site: HouseSite, config: FedVLNConfig) -> None:
        own = config.federation
        keeps = is_personal(config) or own.client_optimizer == "kept" or own.control_variates
        super().__init__(site.name, site.private, keeps, own.control_variates)
        self.site, self.config = site, config
        cure = f"put it back from a copy; without one, {ANEW}"
        self.received_once = Versions(site.folder / SPEAKER.rstrip("."), site.name, cure)

    def instruction(self, kind: str, config: Mapping[str, Any]) -> Instruction:
        """What a message of this kind may say."""
        most = self.config.num_rounds
        if kind == "query":
            return query(most)
        if kind == "train":
            return task(most, {"steps": Whole(0, max(1, self.local_steps()))})
        own: Fields = {"keep": YES_NO, "write": YES_NO, "export-round": Whole(0, most)}
        return task(most, optional=own)

    def get_properties(self, config: Config) -> dict[str, Any]:
        """Who this is; with resume-round, private state newer than that round is dropped."""
        self.roll_back(config)
        counts = {f"{s}.count": len(self.site.samples(s)) for s in (*VALIDATION, TEST)}
        own = self.sample_counts()
        return {
            "partition": self.site.partition,
            "name": self.site.name,
            "num-examples": sum(own),
            "training-houses": len(own),
            "local-steps": self.local_steps(),
            "unseen": int(self.site.unseen),
            **{k: n for k, n in counts.items() if n},
        }

    def sample_counts(self) -> list[int]:
        """Training samples of every own house that has some: n_k. Sampled paths count only where there is nothing else."""
        if self.site.unseen and self.config.stage == "pre-explore":
            return [len(paths) for paths in self.site.sampled if len(paths)]
        return [len(h.samples["train"]) for h in self.site.houses if h.samples.get("train")]

    def local_steps(self) -> int:
        """Optimizer steps of a visit."""
        return sum(visit_steps(self.config, n) for n in self.sample_counts())

    def kept(self, before_round: int, least: int) -> Arrays:
        """The newest private version older than `before_round`, not older than `least`; {} if there is none."""
        kept = super().kept(before_round, least)
        if not kept and is_personal(self.config):
            raise self.private.missing(0)
        return kept

    def answer(
        self,
        number: int,
        config: Config,
        model: Module,
        optimizer: Optimizer,
        sent: Arrays,
        report: Any,
        correction: Correction | None = None,
    ) -> Fitted:
        """What `fit` returns, as `finished` says; sent: of the model, and of its optimizer where that is handed on."""
        private, count = self._private(model, optimizer), sum(self.sample_counts())
        metrics, rate = as_metrics(report), "objective.learning-rate"
        return self.finished(number, config, sent, count, metrics, private, correction, rate)

    def _private(self, model: Module, optimizer: Optimizer) -> Arrays:
        """What stays here after training, as it is stored."""
        arrays: Arrays = {}
        if is_personal(self.config):
            arrays |= with_prefix(module_arrays(model), AGENT)
        if self.config.federation.client_optimizer == "kept":
            arrays |= optimizer_state(model, optimizer)
        return arrays

    def restore(self, model: Module, optimizer: Optimizer, kept: Arrays, received: Arrays) -> None:
        """Optimizer state from the own disk, or as another house left it."""
        source = {"kept": kept, "shared": received}.get(self.config.federation.client_optimizer, {})
        if state := under_prefix(source, OPTIMIZER):
            load_optimizer_arrays(optimizer, dict(model.named_parameters()), state)


def optimizer_state(model: Module, optimizer: Optimizer) -> Arrays:
    """What the optimizer of the model's parameters keeps, as it is stored and sent."""
    return with_prefix(optimizer_arrays(optimizer, dict(model.named_parameters())), OPTIMIZER)


def as_metrics(report: Any) -> dict[str, float]:
    """A training report by the names of its fields, as it is sent."""
    return {key.replace("_", "-"): value for key, value in vars(report).items()}
