"""Rewards and scores of Text2Action: the rewarded party's side (EASDRL, Feng et al. 2018; Zhuo et al. 2019, section 5).

Action 1 selects the env's current word, 0 neglects it; an episode ends on the last word. With u the unit of
reward (`text_reward`, 50), the basic reward of a word is, for selecting / neglecting: none -u / +u; required +2u / -2u;
optional +u / 0; exclusive +3u where right, else -3u. Selecting an exclusive word is right while none of its rivals is
selected; neglecting it is right if a rival is selected or still ahead. In the published code those two positive
cases of neglecting are unreachable for arguments ("selecting-only": neglecting then always costs 3u).

If the basic reward is not 0, 5 rho^2 u is added where rho <= 0.05 and the reward is positive, and subtracted otherwise;
rho = selected words so far, the current one included, over the fixed N_w (not the text's length). The last word adds
`last_word_bonus`. Scores are micro averages: truth counts required words, selected optional ones, and each group of
exclusive words once; right are selected required and optional words, and selected exclusive ones of which no rival is
selected. For arguments the truth holds the alternative that alone was selected (either will do), else the first in the
text, and action names of the sentence count as neglected, whatever was chosen.

Letters: E envs, L longest sample. Envs that are idle or past their last word are left alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.fedrl.metrics import Played
from fedsuite.fedrl.text2action.corpus import EXCLUSIVE, NONE, OPTIONAL, REQUIRED
from fedsuite.fedrl.text2action.labels import LabelTable
from fedsuite.fedrl.worlds import Remembering, Step
from fedsuite.settings.metrics import Metric

SELECT = 1


@dataclass(frozen=True)
class RewardRule:
    """unit: u; bonus: on the last word; max_words: N_w; neglect_may_be_right: for exclusive words."""

    unit: float
    bonus: float
    max_words: int
    neglect_may_be_right: bool


class TextReward(Remembering):
    """Judges E envs; `samples` int64 [n] are the rows of `table` that episodes 0..n-1 of the split read."""

    remembered = ("rows", "places", "selected", "rewards")

    def __init__(
        self, table: LabelTable, samples: np.ndarray, envs: int, rule: RewardRule, own: Sequence[Metric] = (),
    ) -> None:  # fmt: skip
        self._table, self._samples, self._rule, self._own = table, samples, rule, own
        self._rows = np.full(envs, -1, np.int64)  # sample of each env, -1 = none begun yet
        self._places = np.zeros(envs, np.int64)
        self._selected = np.zeros((envs, table.longest), bool)
        self._rewards = np.zeros(envs)

    def begin(self, envs: np.ndarray, episodes: np.ndarray) -> None:
        self._rows[envs] = self._samples[episodes]
        self._places[envs] = 0
        self._selected[envs] = False
        self._rewards[envs] = 0

    def step(self, actions: np.ndarray) -> Step:
        """Carry out actions [E]: 0 neglect, 1 select, IDLE nothing."""
        rewards = np.zeros(len(self._rows), np.float32)
        ended = np.zeros(len(self._rows), bool)
        lengths = np.where(self._rows >= 0, self._table.lengths[self._rows], 0)
        live = np.flatnonzero((np.asarray(actions) >= 0) & (self._places < lengths))
        chosen = np.asarray(actions)[live] == SELECT
        basic = self._basic(live, chosen)
        self._selected[live, self._places[live]] = chosen
        last = self._places[live] == lengths[live] - 1
        total = basic + self._proportion(live, basic) + self._rule.bonus * last
        self._places[live] += 1
        self._rewards[live] += total
        rewards[live], ended[live] = total, last
        return Step(rewards, ended, ended.copy())

    def _basic(self, live: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Basic rewards [n] of choosing `chosen` bool [n] in envs `live`, before the choice is written down."""
        kinds = self._table.kinds[self._rows[live], self._places[live]]
        sign = np.where(chosen, 1.0, -1.0)
        units = np.select(
            [kinds == NONE, kinds == REQUIRED, kinds == OPTIONAL],
            [-sign, 2 * sign, chosen * 1.0],
            3 * sign,
        )
        exclusive = np.flatnonzero(kinds == EXCLUSIVE)
        if len(exclusive):
            right = self._exclusive_right(live[exclusive], chosen[exclusive])
            units[exclusive] = np.where(right, 3.0, -3.0)
        return units * self._rule.unit

    def _exclusive_right(self, live: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Whether the choices [n] of exclusive words are right."""
        places = self._places[live]
        group = self._table.exclusive[self._rows[live], places]
        rival_selected = (self._table.rivals[group] & self._selected[live]).any(1)
        rival_ahead = self._table.last_rival[group] > places
        neglecting = (rival_selected | rival_ahead) & self._rule.neglect_may_be_right
        return np.where(chosen, ~rival_selected, neglecting)

    def _proportion(self, live: np.ndarray, basic: np.ndarray) -> np.ndarray:
        """The term on the share of selected words, [n], after the choices are written down."""
        rho = self._selected[live].sum(1) / self._rule.max_words
        sign = np.where((rho <= 0.05) & (basic > 0), 1.0, -1.0)
        return np.where(basic != 0, sign * 5 * rho**2 * self._rule.unit, 0.0)

    def scores(self) -> dict[str, float]:
        """Precision, recall, F1, average reward per word, and the counts behind them; 0 where there is nothing."""
        begun = np.flatnonzero(self._rows >= 0)
        rows, table = self._rows[begun], self._table
        selected = self._selected[begun] & ~table.neglected[rows]
        tagged, right = int(selected.sum()), self._right(rows, selected)
        total = self._total(rows, selected)
        precision, recall = right / max(tagged, 1), right / max(total, 1)
        f1 = 2 * precision * recall / (precision + recall) if right else 0.0
        words = self._places[begun]
        steps = max(int(words.sum()), 1)
        played = Played(self._rewards[begun], words, np.ones(len(words), bool), words)
        return {
            "precision": precision,
            "recall": recall,
            "f1": f1,
            "average-reward": float(self._rewards[begun].sum()) / steps,
            "tagged": float(tagged),
            "right": float(right),
            "total": float(total),
            **played.means(self._own),
        }

    def _right(self, rows: np.ndarray, selected: np.ndarray) -> int:
        """Selected words that the labels ask for; selected bool [n, L]."""
        kinds = self._table.kinds[rows]
        plain = int((selected & ((kinds == REQUIRED) | (kinds == OPTIONAL))).sum())
        env, word = np.nonzero(selected & (kinds == EXCLUSIVE))
        rivals = self._table.rivals[self._table.exclusive[rows[env], word]]
        return plain + int((~(rivals & selected[env]).any(1)).sum())

    def _total(self, rows: np.ndarray, selected: np.ndarray) -> int:
        """Words that the labels ask for; selected bool [n, L]."""
        kinds, first = self._table.kinds[rows], self._table.counted[rows]
        plain = int((kinds == REQUIRED).sum() + (selected & (kinds == OPTIONAL)).sum())
        if not self._table.alternatives:
            return plain + int(first.sum())
        other = (kinds == EXCLUSIVE) & ~first
        switched = (selected & other).any(1) & ~(selected & first).any(1)
        return plain + int(np.where(switched, other.sum(1), first.sum(1)).sum())
