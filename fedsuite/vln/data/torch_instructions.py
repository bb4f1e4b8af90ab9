"""Walking instructions and the ways that they describe for PyTorch: of generated houses, or of Room-to-Room's files.

from fedsuite import Instructions

walks = Instructions()                      # {"data.dir": "R2R", "data.features": "FILE"}: recorded houses
walk = walks[0]                             # tensors, and texts; a DataLoader makes batches of it
views = walks.houses[walk["house"]].views   # [P, 36, F] float32 of the house's panoramas
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from fedsuite.errors import one_of
from fedsuite.settings.config import read_config
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, load_vocabulary
from fedsuite.vln.data.roster import open_house
from fedsuite.vln.data.sources import prepare_sources

NOWHERE = -1


class Instructions(Dataset[dict[str, Tensor | str]]):
    """One instruction each, house after house, every text as often as there are annotators of its path.

    tokens int64 [L], 0 behind the last word; length int64 []: words of it; path int64 [M]: rows of panoramas, from start to
    goal, -1 behind the goal; start-view int64 []: where the camera looks first, of 36; house, text, instruction-id: texts.
    L: data.max-instruction-length; M: panoramas of the longest path.

    houses: opened houses by scan; vocabulary: the words that tokens count; config: the settings as read.
    """

    def __init__(
        self, config: Mapping[str, object] | None = None, split: str = "train", house: str = ""
    ) -> None:
        """config: keys of a FedVLN run, dotted or nested; split: "train", "val_seen" or "val_unseen"; house: one scan of the
        split, all where it is empty.

        InputError for unknown keys, values and houses, and for files that cannot be read.
        """
        self.config = read_config(FedVLNConfig, config or {}, "config")
        sources = prepare_sources(self.config)
        splits, counts = sources.manifest["splits"], sources.manifest["samples"]
        one_of("split", split, [name for name, scans in splits.items() if scans])
        names = [*sources.training_scans, *sources.unseen_scans]
        numbers = {scan: n for n, scan in enumerate(names)}
        scans = [scan for scan in splits[split] if counts[scan][split]]
        if house:
            one_of("house", house, scans)
        self.vocabulary = load_vocabulary(sources.houses_dir)
        self.houses: dict[str, House] = {
            scan: open_house(self.config, sources, scan, numbers.get(scan, 0))
            for scan in ([house] if house else scans)
        }
        self.samples = [s for own in self.houses.values() for s in own.samples[split]]
        self._most = max(len(s.path) for s in self.samples)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Tensor | str]:
        sample = self.samples[index]
        tokens = np.zeros(self.config.data.max_instruction_length, np.int64)
        tokens[: len(sample.tokens)] = sample.tokens
        path = np.full(self._most, NOWHERE, np.int64)
        path[: len(sample.path)] = sample.path
        return {
            "tokens": torch.from_numpy(tokens),
            "length": torch.tensor(len(sample.tokens)),
            "path": torch.from_numpy(path),
            "start-view": torch.tensor(sample.start_view),
            "house": sample.scan,
            "text": sample.text,
            "instruction-id": sample.instr_id,
        }
