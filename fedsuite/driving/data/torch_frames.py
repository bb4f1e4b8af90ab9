"""Pictures of roads and their steering angles for PyTorch: generated roads, or drives that somebody has recorded.

from torch.utils.data import DataLoader
from fedsuite import SteeringFrames

frames = SteeringFrames({"data.num-silos": 2})          # {"data.dir": "DRIVES"}: recorded ones
for pictures, angles in DataLoader(frames, batch_size=32, shuffle=True): ...
"""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.fleet import read_drives
from fedsuite.driving.data.frames import SPLITS, Frames, open_silo, silo_names
from fedsuite.driving.data.sources import prepare_sources
from fedsuite.driving.plan import make_plan
from fedsuite.errors import one_of
from fedsuite.settings.config import read_config


class SteeringFrames(Dataset[tuple[Tensor, Tensor]]):
    """(picture float32 [C, H, W] in 0..1, angle float32 [], left positive), silo after silo. Pictures stay on disk.

    Angles are radians, but for drives whose files hold fractions of full lock. silos: names, in order.
    """

    def __init__(
        self, config: Mapping[str, object] | None = None, split: str = "train", silo: str = ""
    ) -> None:
        """config: keys of a CDL run, dotted or nested; split: "train" or "test"; silo: one of them, all where it is empty.

        InputError for unknown keys, values and silos, and for drives that cannot be read.
        """
        one_of("split", split, SPLITS)
        read = read_config(CDLConfig, config or {}, "config")
        drives = read_drives(read.drawn_data)
        count = 0 if drives else read.data.num_silos or make_plan(read).num_data_silos
        folder = prepare_sources(read.drawn_data, count, drives)
        names = silo_names(folder)
        if silo:
            one_of("silo", silo, names)
        self.silos: tuple[str, ...] = (silo,) if silo else tuple(names)
        opened = (open_silo(folder, name) for name in self.silos)
        self._parts: list[Frames] = [s.train if split == "train" else s.test for s in opened]
        self._ends = list(accumulate(map(len, self._parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"frame {index} of {len(self)}")
        part = bisect_right(self._ends, row)
        own = self._parts[part]
        row -= self._ends[part] - len(own)
        picture = torch.from_numpy(np.array(own.images[row])).float() / 255
        return picture, torch.tensor(float(own.angles[row]))
