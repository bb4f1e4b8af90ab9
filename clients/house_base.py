"""What every house of a FedVLN federation is and keeps, whatever its stage trains.

  <private>/round-NNNNNN.safetensors   what clients/local_client.py lists
  <private>/speaker/                   the speaker that the server handed out before round 1
  <private>/model.safetensors          the house's own model, exported when a run ends in which it has one

Nothing of this is ever sent; which visits count stands in clients/keeping.py. A centralised run uses the same clients,
holding all houses at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.local_client import LocalClient
from clients.numpy_client_app import Config
from fedsuite.arrays import Arrays, under_prefix
from fedsuite.messages.instructions import YES_NO, Fields, Instruction, Whole, query, task
from fedsuite.runs.array_files import write_arrays
from fedsuite.runs.versions import ANEW, Versions
from fedsuite.storage.files import make_private
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, Sample
from fedsuite.vln.data.sampled_paths import SampledPaths
from fedsuite.vln.environment import World
from fedsuite.vln.message_keys import SPEAKER, TEST, VALIDATION
from fedsuite.vln.stages import exchange_of, learns_from_paths, visit_steps
from fedsuite.vln.start import MODEL, checked_arrays, house_model


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


class HouseClientBase(LocalClient):
    """Who the house is, and its disk."""

    rate = "objective.learning-rate"

    def __init__(self, site: HouseSite, config: FedVLNConfig) -> None:
        moments: Any = config.federation.client_optimizer
        super().__init__(site.name, site.private, config, exchange_of(config), moments)
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
        own: Fields = dict.fromkeys(("keep", "write", "score"), YES_NO)
        own = {**own, "export-round": Whole(0, most)}
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
        if learns_from_paths(self.config, self.site.unseen):
            return [len(paths) for paths in self.site.sampled if len(paths)]
        return [len(h.samples["train"]) for h in self.site.houses if h.samples.get("train")]

    def local_steps(self) -> int:
        """Optimizer steps of a visit."""
        return sum(visit_steps(self.config, n) for n in self.sample_counts())

    def count(self) -> int:
        """Training samples of all own houses."""
        return sum(self.sample_counts())

    def scored(self, received: Arrays, config: Config) -> Arrays:
        """The model that the house is scored with; with export-round that of this round is exported."""
        model = super().scored(received, config)
        if "export-round" in config:
            make_private(self.site.folder)
            write_arrays(self.site.folder / MODEL, model)
        return model

    def keep_received(self, received: Arrays) -> None:
        """The speaker, and what stays here of the model to start from: as sent, or the own one of an earlier run."""
        if speaker := under_prefix(received, SPEAKER):
            self.received_once.save(0, speaker, {})
        sent = {k: v for k, v in received.items() if not k.startswith(SPEAKER)}
        own = house_model(self.config, self.site.name) if self.exchange.personal else None
        if own:
            shapes = {k: tuple(v.shape) for k, v in self.module.state_dict().items()}
            sent = checked_arrays(own, "start-from", shapes)
        self.keep_start(sent)
