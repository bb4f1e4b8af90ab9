"""Texts as plain arrays, and what one party sees of them while they are read word by word.

Text2Action (Zhuo et al. 2019, section 5.2; the task is EASDRL's, Feng et al. 2018): at every word the joint action is 0
(neglect) or 1 (select). The state is the text's rows, each with a tag: 0 not yet decided, 1 neglected, 2 selected;
the first tag 0 is the only sign of where the reader stands. Both parties see the tags. alpha knows the words' parts of
speech, beta their word vectors (and, for arguments, how far each word is from the action), full knows all.

Letters: S samples, L words of the longest sample that is read, N_w rows of the network's input, E envs,
B records, V word types, D components of a word vector, R whole numbers of a record.

A record is [sample row, words decided, bits of the selected words]: 2 + ceil(L / 32) int32, bit i of the
little-endian bit string being word i.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedsuite.fedrl import actions
from fedsuite.fedrl.worlds import IDLE, Remembering, Role

NEGLECT, SELECT = 0, 1
NUM_ACTIONS = actions.NUM_ACTIONS["text2action"]
HEADER = 2  # sample row, words decided


@dataclass(frozen=True)
class TextTable:
    """All samples as arrays. Words beyond a sample's length are 0 everywhere.

    pos_ids: int64 [S, L], 0 = PAD; word_ids: int64 [S, L], rows of `word_vectors`, 0 = padding or unknown; lengths:
    int64 [S] words read; action_index: int64 [S], the action's word (arguments only; it may lie beyond what is
    read); max_words: N_w; word_vectors: float32 [V, D], row 0 zeros; num_tags: parts of speech, PAD included.
    """

    pos_ids: np.ndarray
    word_ids: np.ndarray
    lengths: np.ndarray
    action_index: np.ndarray | None
    max_words: int
    word_vectors: np.ndarray
    num_tags: int

    @property
    def longest(self) -> int:
        """L."""
        return int(self.word_ids.shape[1])

    @property
    def record_size(self) -> int:
        """R."""
        return HEADER + -(-self.longest // 32)


def selected_bits(records: np.ndarray) -> np.ndarray:
    """The bytes [n, 4 (R - 2)] of records [n, R] that hold the selected words; a view, not a copy."""
    return records.view(np.uint8)[:, 4 * HEADER :]


def records_at(
    table: TextTable, rows: np.ndarray, positions: np.ndarray, selected: np.ndarray
) -> np.ndarray:
    """Records [n, R] of samples `rows` [n] with `positions` [n] words decided, of which `selected` [n, L] bool.

    What `selected` says of words that are not decided yet is left out.
    """
    if np.any(positions < 0) or np.any(positions > table.lengths[rows]):
        raise ValueError("expected positions between 0 and the sample's length")
    decided = np.arange(table.longest) < positions[:, None]
    records = np.zeros((len(rows), table.record_size), np.int32)
    records[:, 0], records[:, 1] = rows, positions
    packed = np.packbits(selected.astype(bool) & decided, axis=1, bitorder="little")
    selected_bits(records)[:, : packed.shape[1]] = packed
    return records


class TextView(Remembering):
    """One party's side of E texts that are read in parallel; implements fedsuite.fedrl.worlds.View.

    All parties hold the same records: the inputs differ only in what the network's tables say of a word.
    `samples` [n] are the rows of the table that make up the split, in the order of its episodes.
    """

    remembered = ("records",)

    def __init__(self, table: TextTable, role: Role, samples: np.ndarray, envs: int) -> None:
        """Envs start on the split's first text until `begin` says otherwise."""
        self.table = table
        self.role = role
        self._samples = np.asarray(samples, np.int64)
        self._envs = np.arange(envs)
        self._records = np.zeros((envs, table.record_size), np.int32)
        self.begin(self._envs, np.zeros(envs, np.int64))

    def begin(self, envs: np.ndarray, episodes: np.ndarray) -> None:
        """Put the texts of episodes [n] into envs [n], nothing decided."""
        self._records[envs] = 0
        self._records[envs, 0] = self._samples[episodes]

    def records(self) -> np.ndarray:
        return self._records.copy()

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Neglect (0) or select (1) the current words, actions [E]; records of before and after.

        A env past its last word stays as it is.
        """
        if not np.isin(actions, (IDLE, NEGLECT, SELECT)).all():
            raise ValueError(f"expected actions 0, 1 or {IDLE} (idle), got {np.unique(actions)}")
        before = self._records.copy()
        position = before[:, 1]
        reading = (actions != IDLE) & (position < self.table.lengths[before[:, 0]])
        chosen = np.flatnonzero(reading & (actions == SELECT))
        bits = selected_bits(self._records)
        bits[chosen, position[chosen] // 8] |= np.left_shift(1, position[chosen] % 8).astype(
            np.uint8
        )
        self._records[reading, 1] += 1
        return before, self._records.copy()

    def inputs(self, records: np.ndarray) -> tuple[torch.Tensor, ...]:
        """Sample rows int64 [B] and tags uint8 [B, L] of records [B, R]."""
        records = np.ascontiguousarray(records, np.int32)
        longest = self.table.longest
        bits = np.unpackbits(selected_bits(records), axis=1, count=longest, bitorder="little")
        tags = (bits + np.uint8(1)) * (np.arange(longest, dtype=np.int32) < records[:, 1:2])
        return torch.from_numpy(records[:, 0].astype(np.int64)), torch.from_numpy(tags)
