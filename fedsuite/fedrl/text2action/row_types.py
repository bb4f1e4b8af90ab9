"""The distinct rows of a table of texts: what a network of one role sees of a word, tags aside.

A row is a word vector, a distance to the action, a part of speech, or several of these, by role. Equal rows
are one *type*; type 0 is the padded row, which only the trainable embedding of PAD keeps from being zero.
"""

from dataclasses import dataclass

import numpy as np

from fedsuite.fedrl.text2action.views import TextTable
from fedsuite.fedrl.worlds import Role


@dataclass(frozen=True)
class RowTypes:
    """types: int32 [S, L + margin], the type of each row; of each type, int64 [N]: word id, part of speech, distance."""

    types: np.ndarray
    words: np.ndarray
    tags: np.ndarray
    distances: np.ndarray


def row_types(table: TextTable, role: Role, margin: int) -> RowTypes:
    """Types of all rows of `table`, with `margin` padded rows after the longest sample."""
    nothing = np.zeros_like(table.word_ids)
    words = table.word_ids if role != "alpha" else nothing
    tags = table.pos_ids if role != "beta" else nothing
    distances = nothing
    if role != "alpha" and table.action_index is not None:
        column = np.arange(table.longest)
        distances = np.abs(column - table.action_index[:, None])
        distances = np.where(column < table.lengths[:, None], distances, 0)
    sizes = (len(table.word_vectors), table.num_tags, int(distances.max()) + 1)
    keys = np.ravel_multi_index((words, tags, distances), sizes)
    padded = np.pad(keys, ((0, 0), (0, margin)))
    distinct, types = np.unique(padded, return_inverse=True)
    types = types.reshape(padded.shape).astype(np.int32)
    return RowTypes(types, *np.unravel_index(distinct, sizes))
