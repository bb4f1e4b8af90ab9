"""A house as a Flower client that trains the speaker on its own instructions, and scores a speaker on its validation paths.

What leaves a house: the speaker's arrays, the number of its samples, losses, and the counts that corpus BLEU is made
of. What the speaker says about the house's paths stays on its disk.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from clients.house_base import HouseClientBase, HouseSite
from clients.numpy_client_app import Config, Parameters, Scored, named_arrays
from fedsuite.arrays import load_arrays
from fedsuite.averaging.gradients import Gradients
from fedsuite.storage.files import make_private, write_json
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import Sample
from fedsuite.vln.data.instructions import Vocabulary
from fedsuite.vln.message_keys import VALIDATION
from fedsuite.vln.metrics import as_metrics
from fedsuite.vln.model.speaker import Speaker
from fedsuite.vln.training.speaker_learner import Spoken, score_speaker, speak_all, train_speaker


class SpeakerClient(HouseClientBase):
    """`speaker` is a shell of the right sizes; its weights are overwritten by what the server sends."""

    def __init__(
        self, site: HouseSite, config: FedVLNConfig, speaker: Speaker, vocabulary: Vocabulary
    ) -> None:
        super().__init__(site, config)
        self.module = self.speaker = speaker
        self.vocabulary = vocabulary

    def optimizer(self) -> Optimizer:
        """Adam of the speaker."""
        rate = self.config.objective.learning_rate
        return torch.optim.Adam(self.speaker.parameters(), rate, foreach=True)

    def train(
        self, optimizer: Optimizer, steps: int, number: int, gradients: Gradients, stream: str
    ) -> dict[str, float]:
        """Steps of the speaker on the own instructions."""
        return as_metrics(
            train_speaker(
                self.speaker,
                optimizer,
                self.site.world,
                self.site.samples("train"),
                self.config,
                steps=steps,
                round=number,
                partition=self.site.partition,
                gradients=gradients,
                stream=stream,
            )
        )

    def evaluate(self, parameters: Parameters, config: Config) -> Scored:
        """Sums over all own validation paths, by split; with `write` the generated texts are left on the own disk."""
        received = named_arrays(parameters, config)
        if config.get("keep"):
            self.keep_received(received)
            return 0.0, 0, {}
        load_arrays(self.speaker, self.scored(received, config))
        self.speaker.eval()
        metrics: dict[str, Any] = {}
        total = 0
        for split in VALIDATION:
            if not (samples := self.site.samples(split)):
                continue
            spoken = speak_all(self.speaker, self.site.world, samples, self.vocabulary, self.config)
            sums = score_speaker(
                self.speaker, self.site.world, samples, self.vocabulary, self.config, spoken
            )
            metrics |= {f"{split}.{k}": v for k, v in sums.items()}
            total += int(sums["count"])
            if config.get("write"):
                self._write(split, samples, spoken)
        return 0.0, total, metrics

    def _write(self, split: str, samples: Sequence[Sample], spoken: Sequence[Spoken]) -> None:
        texts: dict[tuple[str, int | str], list[str]] = {}
        for s in samples:
            texts.setdefault((s.scan, s.path_id), []).append(s.text)
        rows = [
            {
                "path_id": s.path_id,
                "instruction": " ".join(s.written),
                "references": texts[s.scan, s.path_id],
            }
            for s in spoken
        ]
        make_private(self.site.folder)
        write_json(self.site.folder / f"spoken_{split}.json", rows, private=True)
