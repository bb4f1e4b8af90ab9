"""Texts with labelled actions for PyTorch, one label a word: generated, or those of Text2Action's files (Feng et al. 2018).

from fedsuite import LabelledTexts

texts = LabelledTexts(config={"world.task": "names"})
text = texts[0]                             # tensors; a DataLoader makes batches of it
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from fedsuite.fedrl.text2action.world import TextWorld
from fedsuite.fedrl.world_env import opened
from fedsuite.fedrl.worlds import Split

IGNORED = -100  # what torch's losses leave out


class LabelledTexts(Dataset[dict[str, Tensor]]):
    """One text, or one action of a sentence where arguments are asked for, each. L: words of the longest.

    words int64 [L]: rows of `word_vectors`, 0 = unknown or behind the text; parts-of-speech int64 [L]: places in
    `tag_names`; labels int64 [L]: 0 none, 1 to be selected, 2 may be selected, 3 to be selected unless a rival is, -100
    behind the text; length int64 []; action int64 []: the word whose arguments are asked for, -1 for names.

    word_vectors float32 [V, D]; tag_names: parts of speech.
    """

    def __init__(self, config: Mapping[str, object] | None = None, split: Split = "train") -> None:
        """config: keys of a FedRL run, dotted or nested; split: "train", "valid" or "test".

        InputError for unknown keys and values, and for files that cannot be read.
        """
        world = opened(config, TextWorld, "text2action", split)
        self._table, self._samples, self._rows = world.table, world.samples, world.splits[split]
        self.word_vectors = torch.from_numpy(world.table.word_vectors.copy())
        self.tag_names = world.tag_names

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        row, table = int(self._rows[index]), self._table
        labels = np.full(table.longest, IGNORED, np.int64)
        kinds = self._samples[row].kinds
        labels[: len(kinds)] = kinds
        return {
            "words": torch.from_numpy(table.word_ids[row].copy()),
            "parts-of-speech": torch.from_numpy(table.pos_ids[row].copy()),
            "labels": torch.from_numpy(labels),
            "length": torch.tensor(int(table.lengths[row])),
            "action": torch.tensor(self._samples[row].action),
        }
