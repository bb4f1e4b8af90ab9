"""Replay: what every party keeps of its observations, and what only the rewarded party keeps beside.

A record's *id* is its running number since the start, so all parties that store the same steps give them the same
ids (the index j of Zhuo et al. 2019, Algorithms 1 and 2); a memory of C records keeps the latest C ids.

Letters: C capacity, E records stored at once, R numbers in a record, K minibatches of B records.

The published code keeps single frames and therefore never draws the oldest ones (Grid-World) nor those after a
terminal one (Text2Action). Here a record is complete, before and after, and all records held may be drawn.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from fedsuite.arrays import Arrays

MOST_REJECTED = 1000  # draws of one minibatch, before its quota is dropped


class _Ring:
    """Which ids are held, and where: id i lies in slot i mod C."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a memory must hold at least 1 record, got a capacity of {capacity}")
        self.capacity, self.count = capacity, 0

    @property
    def held(self) -> int:
        """Number of records held."""
        return min(self.count, self.capacity)

    @property
    def oldest(self) -> int:
        """Smallest id held."""
        return self.count - self.held

    def next_ids(self, number: int) -> np.ndarray:
        if number > self.capacity:
            raise ValueError(
                f"{number} records stored at once do not fit into a memory of {self.capacity}"
            )
        ids = np.arange(self.count, self.count + number, dtype=np.int64)
        self.count += number
        return ids

    def slots(self, ids: np.ndarray) -> np.ndarray:
        wrong = (ids < self.oldest) | (ids >= self.count)
        if wrong.any():
            held = f"ids {self.oldest} to {self.count - 1}" if self.count else "no records yet"
            raise ValueError(
                f"record {ids[wrong].flat[0]} is not held: this memory holds {held}; "
                "do all parties store the same steps in memories of the same capacity?"
            )
        return ids % self.capacity

    def restore(self, state: Mapping[str, np.ndarray], filled: int) -> None:
        count = int(state["count"])
        if filled != min(count, self.capacity):
            raise ValueError(
                f"a memory of {self.capacity} records that has seen {count} "
                f"holds {min(count, self.capacity)}, the stored state has {filled}"
            )
        self.count = count


class Memory:
    """One party's observations before and after each step."""

    def __init__(self, capacity: int, record_width: int, dtype: DTypeLike) -> None:
        self._ring = _Ring(capacity)
        self._records = np.zeros((capacity, 2, record_width), dtype)

    def __len__(self) -> int:
        return self._ring.held

    def store(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Keep records [E, R] of before and after a step; their ids [E] int64."""
        for records in (before, after):
            if not np.can_cast(records.dtype, self._records.dtype, "safe"):
                raise ValueError(
                    f"records of {records.dtype} do not fit into a memory of {self._records.dtype}"
                )
            if records.shape != (len(before), self._records.shape[2]):
                raise ValueError(
                    f"expected records [{len(before)}, {self._records.shape[2]}], got {records.shape}"
                )
        ids = self._ring.next_ids(len(before))
        slots = self._ring.slots(ids)
        self._records[slots, 0] = before
        self._records[slots, 1] = after
        return ids

    def gather(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Records [n, R] before and after the steps with these ids [n]."""
        found = self._records[self._ring.slots(ids)]
        return found[:, 0], found[:, 1]

    def state(self) -> Arrays:
        """What is held, and how many records there have been."""
        filled = self._records[: self._ring.held].copy()
        return {"records": filled, "count": np.array(self._ring.count, np.int64)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state`, which comes from a memory of the same capacity and kind of records."""
        records = state["records"]
        expected = (self._records.shape[1:], self._records.dtype)
        if (records.shape[1:], records.dtype) != expected:
            raise ValueError(
                f"records: expected {expected[0]} of {expected[1]}, got {records.shape[1:]} of {records.dtype}"
            )
        self._ring.restore(state, len(records))
        self._records[: len(records)] = records


class RewardMemory:
    """Actions, rewards and ends of steps, which only the rewarded party holds; it chooses the minibatches."""

    def __init__(self, capacity: int) -> None:
        self._ring = _Ring(capacity)
        self._columns: Arrays = {
            "actions": np.zeros(capacity, np.int64),
            "rewards": np.zeros(capacity, np.float32),
            "terminals": np.zeros(capacity, np.bool_),
        }

    def __len__(self) -> int:
        return self._ring.held

    def store(self, actions: np.ndarray, rewards: np.ndarray, terminals: np.ndarray) -> np.ndarray:
        """Keep what a step brought, each [E]; the ids [E] int64."""
        given = dict(zip(self._columns, (actions, rewards, terminals), strict=True))
        for name, values in given.items():
            if values.shape != (len(actions),):
                raise ValueError(f"{name}: expected shape ({len(actions)},), got {values.shape}")
        ids = self._ring.next_ids(len(actions))
        slots = self._ring.slots(ids)
        for name, values in given.items():
            self._columns[name][slots] = values
        return ids

    def gather(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Actions, rewards and terminals of the steps with these ids, shaped like `ids`."""
        slots = self._ring.slots(ids)
        actions, rewards, terminals = (column[slots] for column in self._columns.values())
        return actions, rewards, terminals

    def sample(
        self,
        rng: np.random.Generator,
        minibatches: int,
        batch: int,
        quota: float = 0.9,
        strict: bool = False,
    ) -> np.ndarray:
        """Ids [K, B] of minibatches, drawn with replacement; quota 0: uniformly.

        Otherwise as the published code draws: one record after another, uniformly; at most floor(quota * B) (28
        of 32) with reward >= 0 are let in and at most the remaining places (4) with reward < 0, the others are rejected;
        once 1,000 have been rejected, a minibatch is filled up with whatever comes. With `strict` (Text2Action) "high"
        means reward > 0, and rewards of 0 are never rejected though they use up the places of the low ones.
        """
        held = self._ring.held
        if held == 0:
            raise ValueError("no minibatch can be drawn from a memory that holds no records yet")
        if quota == 0:
            return self._ring.oldest + rng.integers(held, size=(minibatches, batch))
        most_high = int(quota * batch)
        drawn = np.empty((minibatches, 0), np.int64)
        width = 4 * batch
        while True:
            more = rng.integers(held, size=(minibatches, width - drawn.shape[1]))
            drawn = np.concatenate([drawn, more], axis=1)
            # Slots may be taken for ids here: which record is which does not matter for a uniform draw.
            rewards = self._columns["rewards"][drawn]
            let_in = _let_in(rewards, most_high, batch - most_high, strict)
            rank = np.cumsum(let_in, axis=1, dtype=np.int32)
            if (rank[:, -1] >= batch).all():
                chosen = drawn[let_in & (rank <= batch)].reshape(minibatches, batch)
                return self._id_in_slot(chosen)
            width = min(2 * width, batch + MOST_REJECTED)  # so many are always enough

    def _id_in_slot(self, slots: np.ndarray) -> np.ndarray:
        """The one id held that lies in each slot."""
        oldest = self._ring.oldest
        return oldest + (slots - oldest) % self._ring.capacity

    def state(self) -> Arrays:
        """What is held, and how many records there have been."""
        filled = {name: column[: len(self)].copy() for name, column in self._columns.items()}
        return {**filled, "count": np.array(self._ring.count, np.int64)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state`, which comes from a memory of the same capacity."""
        filled = {len(state[name]) for name in self._columns}
        if len(filled) != 1:
            raise ValueError(f"columns of one memory differ in length: {sorted(filled)}")
        self._ring.restore(state, filled.pop())
        for name, column in self._columns.items():
            column[: len(self)] = state[name]


def _let_in(rewards: np.ndarray, most_high: int, most_low: int, strict: bool) -> np.ndarray:
    """Which of the records drawn one after another [K, n] the quota lets into their minibatch [K, n].

    All that came before an over-full class were let in, so a class's running number tells whether there is room.
    """
    high = rewards > 0 if strict else rewards >= 0
    low = rewards < 0
    high_so_far = np.cumsum(high, axis=1, dtype=np.int32)
    others_so_far = np.arange(1, rewards.shape[1] + 1, dtype=np.int32) - high_so_far
    rejected = (high & (high_so_far > most_high)) | (low & (others_so_far > most_low))
    dropped = np.cumsum(rejected, axis=1, dtype=np.int32) > MOST_REJECTED
    return ~rejected | dropped
