"""What every house of a FedVLN federation is and keeps, whatever its stage trains.

  <private>/round-NNNNNN.safetensors   own agent (pre-exploration), optimizer and control variates, under `agent.`,
                                       `optimizer.` and `control.`
  <private>/speaker/                   the speaker that the server handed out before round 1
  <private>/model.safetensors          the house's own agent, exported when a pre-exploration ends

Nothing of this is ever sent. A visit that diverged leaves no trace: nothing of it is saved, the house goes on from what it
had. If only its answer is lost, agent and optimizer keep what they have learnt. With control variates nothing of such a
visit counts: what it changed never came to c, the mean of all c_k. A centralised run uses the same clients, holding all
houses at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.client import NumPyClient
from torch.nn import Module
from torch.optim import Optimizer

from clients.numpy_client_app import Config, Fitted, named_reply
from fedsuite.arrays import (
    LARGEST_COUNT,
    Arrays,
    module_arrays,
    non_finite,
    range_complaint,
    under_prefix,
    with_prefix,
)
from fedsuite.control_variates import CONTROL, Correction
from fedsuite.instructions import YES_NO, Fields, Instruction, Whole, query, task
from fedsuite.optimizer_state import load_optimizer_arrays, optimizer_arrays
from fedsuite.versions import ANEW, Versions, checkpoint_rounds
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


class HouseClientBase(NumPyClient):
    """Who the house is, and its disk."""

    def __init__(self, site: HouseSite, config: FedVLNConfig) -> None:
        self.site, self.config = site, config
        cure = f"put it back from a copy; without one, {ANEW}"
        self.received_once = Versions(site.folder / SPEAKER.rstrip("."), site.name, cure)
        # The rounds of this house's training, where a best round is asked for.
        self._trained: list[int] = []

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
        if "resume-round" in config:
            self.site.private.rollback(int(config["resume-round"]))
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
        own = self.config.federation
        keeps = is_personal(self.config) or own.client_optimizer == "kept" or own.control_variates
        stored = self.site.private.load(before_round, least if keeps else 0)
        if stored is None and is_personal(self.config):
            raise self.site.private.missing(0)
        self._trained = list(stored[1].get("trained", [])) if stored else []
        return stored[0] if stored else {}

    def kept_to_train(self, number: int, config: Config) -> Arrays:
        """What round `number` goes on from. With control variates later versions than the last that counts are dropped."""
        if self.config.federation.control_variates and "last-trained" in config:
            self.site.private.rollback(int(config["last-trained"]))
        return self.kept(number, int(config.get("last-trained", 0)))

    def kept_after(self, wanted: int, number: int, last_trained: int) -> Arrays:
        """The private version after round `wanted`, of those until round `number`; InputError if it is not there."""
        newest = last_trained if self.config.federation.control_variates else number
        arrays = self.kept(newest + 1, last_trained)
        if wanted >= newest:
            return arrays
        return self.kept(wanted + 1, max((r for r in self._trained if r <= wanted), default=0))

    def correction(self, received: Arrays, kept: Arrays) -> Correction | None:
        """SCAFFOLD's, from the server's control variates and the own ones; None without."""
        server = under_prefix(received, CONTROL)
        return Correction(server, under_prefix(kept, CONTROL)) if server else None

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
        """What `fit` returns after training in round `number`, once what stays here is saved.

        sent: of the model, and of its optimizer where that is handed on. ValueError, and nothing is saved, if the
        server could not use the answer, or the house what it would keep.
        """
        metrics, private = as_metrics(report), self._private(model, optimizer, correction)
        if correction is not None:
            sent = sent | with_prefix(correction.change(), CONTROL)
        bad = [f"{k} is {v:g}" for k, v in metrics.items() if not abs(v) <= LARGEST_COUNT]
        bad += [f"{k} holds NaN or infinity" for k in non_finite(private)]
        if complaint := range_complaint(sent) or next(iter(bad), ""):
            raise ValueError(
                f"{self.site.name}: training diverged, {complaint}; lower objective.learning-rate"
            )
        self.keep(number, config, private)
        return named_reply(sent, sum(self.sample_counts()), metrics)

    def _private(
        self, model: Module, optimizer: Optimizer, correction: Correction | None
    ) -> Arrays:
        """What stays here after training, as it is stored."""
        arrays = {} if correction is None else with_prefix(correction.updated(), CONTROL)
        if is_personal(self.config):
            arrays |= with_prefix(module_arrays(model), AGENT)
        if self.config.federation.client_optimizer == "kept":
            arrays |= optimizer_state(model, optimizer)
        return arrays

    def keep(self, number: int, config: Config, arrays: Arrays) -> None:
        """Save what stays here after training in round `number`, and drop versions that nobody can ask for."""
        if arrays:
            about: dict[str, Any] = {}
            if "best-round" in config:
                about |= {"best-round": int(config["best-round"])}
                about |= {"trained": [*self._trained, number]}
            self.site.private.save(number, arrays, about)
            self.site.private.prune(self._needed(config))

    def _needed(self, config: Config) -> list[int]:
        """Rounds whose version may be asked for: checkpoints, the best round, and the one that was best at a checkpoint.

        A resume may choose otherwise than the first time, where a GPU does not repeat itself. With control variates also
        the one that counts if this round's answer is lost.
        """
        checkpoints = checkpoint_rounds(config)
        if self.config.federation.control_variates:
            checkpoints.append(int(config.get("last-trained", 0)))
        if "best-round" not in config:
            return checkpoints
        stored = (self.site.private.load(number + 1) for number in checkpoints)
        then = [int(s[1]["best-round"]) for s in stored if s and "best-round" in s[1]]
        return [*checkpoints, *then, int(config["best-round"])]

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
