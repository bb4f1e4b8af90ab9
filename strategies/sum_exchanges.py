"""The four exchanges of a secure sum (fedsuite/privacy/secure_sum.py): keys, shares, training with masks, unmasking.

Who is lost at the first two takes no part; masks of who is lost at the third come off by shares of its key; at the fourth
`secure-sum-threshold` is enough. A sum with noise is in the run's ledger before its members are asked to open it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsuite.arrays import Arrays, Form
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.merging import relative_weights
from fedsuite.errors import RunFailed
from fedsuite.federation import (
    Asking,
    Clients,
    Reply,
    Task,
)  # fmt: skip
from fedsuite.privacy.client_level import record_sum
from fedsuite.privacy.identity import ANNOUNCED, read_announced
from fedsuite.privacy.masked_vectors import WORD
from fedsuite.privacy.secure_sum import SEALED_BYTES, Listed, PublicKeys, unmasked
from fedsuite.privacy.shamir import SHARE_BYTES
from fedsuite.privacy.sum_terms import (
    CLIP,
    KEYS,
    MASKED,
    SHARES,
    STAGE,
    UNMASK,
    SumTerms,
    numbers_text,
)  # fmt: skip

NOT_CLIPPED = "merge.not-clipped"  # b of client_level.py, which C goes by
Bytes = Mapping[int, Mapping[int, bytes]]  # by sender, by whom they are for or of


@dataclass(frozen=True)
class OneSum:
    """The sum of one batch of training tasks. folder: the run's, for its ledger; clip: C, None where nobody clips."""

    number: int
    terms: SumTerms
    tasks: Sequence[Task]
    clients: Clients
    folder: Path
    clip: float | None

    def run(self, told: dict[str, float]) -> Asking[list[Reply]]:
        """What the strategy is sent; metrics of the sum go into `told`."""
        chosen = [task.partition for task in self.tasks]
        replies = yield [self._aside(p, KEYS, {"keys": (ANNOUNCED,)}) for p in chosen]
        announced = {r.partition: r.arrays["keys"].tobytes() for r in replies}
        listed = self._listed(announced)
        asked = sorted(listed.keys)
        self._enough(KEYS, chosen, asked, self.terms.fewest(len(chosen)))
        arrays = {
            "members": np.array(asked),
            "counts": np.array([listed.counts[p] for p in asked]),
            "keys": np.stack([np.frombuffer(announced[p], np.uint8) for p in asked]),
        }
        boxes = {"shares": (len(asked), SEALED_BYTES)}
        threshold = {"threshold": listed.threshold}
        replies = yield [self._aside(p, SHARES, boxes, arrays, threshold) for p in asked]
        sealed = {r.partition: _rows(r.arrays["shares"], asked) for r in replies}
        least = self.terms.fewest(len(asked))
        members = self._enough(SHARES, asked, sealed, least)
        forms = self.tasks[0].expected
        answered = yield [self._masked(t, members) for t in self.tasks if t.partition in members]
        alive = self._enough(MASKED, members, [r.partition for r in answered], least)
        total = np.zeros(_length(forms) + 1, WORD)
        for reply in answered:
            total += reply.arrays["masked"]
        if self.terms.private:
            fewest = self.terms.opened_for(len(asked))
            record_sum(self.terms.private, self.folder, self.number, len(alive), fewest)
        shares = yield from self._unmasking(members, alive, sealed)
        self._enough(UNMASK, alive, shares, listed.threshold)
        model, counted = self._model(listed, members, alive, total, shares)
        told["secure-sum.members"] = float(len(alive))
        told["secure-sum.lost"] = float(len(chosen) - len(alive))
        if not self.terms.private:
            told["secure-sum.cut"] = counted / (_length(forms) * len(alive))
        elif self.terms.adapts:
            told[NOT_CLIPPED] = counted / len(chosen) + 0.5
        return [replace(reply, arrays=model) for reply in answered]

    # --- the stages -------------------------------------------------------------------------------

    def _aside(
        self,
        partition: int,
        stage: str,
        returns: Mapping[str, tuple[int, ...]],
        arrays: Arrays | None = None,
        asked: Mapping[str, str | int] | None = None,
    ) -> Task:
        types, told = dict.fromkeys(returns, "uint8"), {STAGE: stage, **(asked or {})}
        small = Task(partition, "train", arrays or {}, told, returns, True, types)
        return replace(small, aside="secure-sum")

    def _listed(self, announced: Mapping[int, bytes]) -> Listed:
        """Those whose keys are signed as they say."""
        keys: dict[int, PublicKeys] = {}
        for partition, data in announced.items():
            try:
                keys[partition] = read_announced(data, self.number, partition)[1]
            except ValueError:
                continue  # its peers would not take them either
        sizes = {c.partition: c.num_examples if self.terms.counted else 1 for c in self.clients}
        counts = {p: sizes[p] for p in keys}
        return Listed(self.number, self.terms.needed(len(keys)), keys, counts)

    def _masked(self, task: Task, members: Sequence[int]) -> Task:
        """Training whose change comes back masked; min-reply-fraction is of all who were to take part."""
        config = {**task.config, STAGE: MASKED, "members": numbers_text([*members])}
        if self.terms.adapts and self.clip:
            config[CLIP] = self.clip
        return replace(
            task,
            config=config,
            returns={"masked": (_length(task.expected) + 1,)},
            types={"masked": "uint32"},
            in_turn=len(self.tasks),
        )

    def _unmasking(
        self, members: Sequence[int], alive: Sequence[int], sealed: Bytes
    ) -> Asking[Bytes]:
        """Shares by who gave them, by whom they are of."""
        dead = [p for p in members if p not in alive]
        asked = {"alive": numbers_text([*alive]), "dead": numbers_text(dead)}
        returns = {"shares": (len(members), SHARE_BYTES)}
        tasks = []
        for own in alive:
            boxes = [np.frombuffer(sealed[p][own], np.uint8) for p in members]
            tasks.append(self._aside(own, UNMASK, returns, {"shares": np.stack(boxes)}, asked))
        replies = yield tasks
        return {r.partition: _rows(r.arrays["shares"], members) for r in replies}

    def _model(
        self,
        listed: Listed,
        members: Sequence[int],
        alive: Sequence[int],
        total: np.ndarray,
        shares: Bytes,
    ) -> tuple[Arrays, float]:
        """The mean model of those alive, and what they have counted."""
        relative = relative_weights([listed.counts[p] for p in members], self.terms.most)
        weights = np.array([relative[members.index(p)] for p in alive])
        try:
            summed = unmasked(listed, members, total, alive, shares)
            levels = self.terms.levels(len(listed.keys), len(members), self.clip)
            change, counted = levels.mean(summed, weights)
        except ValueError as error:
            raise RunFailed(
                f"round {self.number}: secure sum, {UNMASK}: {error}; a member has sent what is none of its shares or no "
                "masked change; resume, or start again without it"
            ) from None
        starts = {t.partition: t.arrays for t in self.tasks}
        model, at = {}, 0
        for name, (shape, _) in sorted(self.tasks[0].expected.items()):
            own = change[at : at + math.prod(shape)].reshape(shape)
            at += own.size
            if name.startswith(CONTROL):  # changes in themselves, of members that count alike
                mean = own * (weights.sum() / len(alive))
            else:
                share = weights / weights.sum()
                mean = mean_start([starts[p][name] for p in alive], share) + own
            model[name] = mean.astype(np.float32)
        return {name: model[name] for name in self.tasks[0].expected}, counted

    def _enough(
        self, stage: str, asked: Sequence[int], here: Sequence[int] | Bytes, needed: int
    ) -> list[int]:
        """Who is here, ascending; RunFailed where these are too few."""
        if len(here) >= needed:
            return sorted(here)
        names = {c.partition: c.name for c in self.clients}
        missing = ", ".join(names[p] for p in asked if p not in here) or "nobody"
        raise RunFailed(
            f"round {self.number}: secure sum, {stage}: {len(here)} of {len(asked)} members answered, expected at least "
            f"{needed}; missing: {missing}; why stands in errors.log; resume when they are back"
        )


def _rows(table: np.ndarray, members: Sequence[int]) -> dict[int, bytes]:
    return {p: row.tobytes() for p, row in zip(members, table, strict=True)}


def _length(forms: Mapping[str, Form]) -> int:
    return sum(math.prod(shape) for shape, _ in forms.values())


def mean_start(starts: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """What the weighted changes are put on: where clients start from one model, that one."""
    first = starts[0].astype(np.float64)
    if all(np.array_equal(starts[0], other) for other in starts[1:]):
        return first
    return np.asarray(sum(w * s.astype(np.float64) for w, s in zip(weights, starts, strict=True)))
