"""Text2Action for Gymnasium: a text is read word by word, and each word is selected or not (Zhuo et al. 2019).

Observation  Dict. "tags", Box(0, 2, (L,), uint8): 0 not decided yet, 1 neglected, 2 selected; the first 0 is the word in
             question. role "alpha" also sees "parts-of-speech", Box(int64, (L,)), 0 behind the text; "beta" sees
             "words", Box(float32, (L, D)), word vectors, zeros behind the text and for unknown words, and, where
             arguments are asked for, "distances", Box(int64, (L,)): words between each word and the action;
             "full" sees all. L: words of the longest text.
Action       Discrete(2): 0 neglects the word, 1 selects it.
Reward       that of fedsuite.fedrl.text2action.reward.
End          terminated: the last word is decided. Nothing is truncated.

`config`, `split` and `role` are those of fedsuite.fedrl.world_env.
"""

from typing import Any

import numpy as np
from gymnasium import spaces

from fedsuite.errors import one_of
from fedsuite.fedrl.text2action.views import TextTable
from fedsuite.fedrl.text2action.world import TextWorld
from fedsuite.fedrl.world_env import Config, Observation, WorldEnv, opened
from fedsuite.fedrl.worlds import Role, Split

ROLES = ("alpha", "beta", "full")


def observation_space(table: TextTable, role: Role) -> spaces.Dict:
    """What the party sees."""
    length, size = table.longest, table.word_vectors.shape[1]
    largest = float(np.abs(table.word_vectors).max())
    found: dict[str, spaces.Space[Any]] = {"tags": spaces.Box(0, 2, (length,), np.uint8)}
    if role != "beta":
        found["parts-of-speech"] = spaces.Box(0, table.num_tags - 1, (length,), np.int64)
    if role != "alpha":
        found["words"] = spaces.Box(-largest, largest, (length, size), np.float32)
        if table.action_index is not None:
            furthest = max(length, int(table.action_index.max()))
            found["distances"] = spaces.Box(0, furthest, (length,), np.int64)
    return spaces.Dict(found)


class Text2ActionEnv(WorldEnv[TextWorld]):
    """One env; see the top of this file."""

    def __init__(self, config: Config = None, split: Split = "train", role: Role = "full") -> None:
        one_of("role", role, ROLES)
        world = opened(config, TextWorld, "text2action", split)
        super().__init__(world, observation_space(world.table, role), split, role)

    def _observe(self) -> Observation:
        rows, tags = self._view.inputs(self._view.records())
        table, row = self.world.table, int(rows[0])
        seen = {"tags": tags[0].numpy(), "parts-of-speech": table.pos_ids[row].copy()}
        seen["words"] = table.word_vectors[table.word_ids[row]]
        if table.action_index is not None:
            place = np.arange(table.longest)
            apart = np.abs(place - table.action_index[row])
            seen["distances"] = np.where(place < table.lengths[row], apart, 0)
        assert isinstance(self.observation_space, spaces.Dict)
        return {name: seen[name] for name in self.observation_space}

    def _terminated(self, ended: np.ndarray) -> bool:
        return bool(ended[0])
