"""Replay: what a party keeps of every step; only the rewarded party's has rewards, and chooses minibatches.

A record's *id* is its running number since the start, so all parties that store the same steps give them the same
ids (the index j of Zhuo et al. 2019, Algorithms 1 and 2); a memory of C records keeps the latest C ids.

Letters: C capacity, E records stored at once, R numbers in a record, K minibatches of B records.

The published code keeps single frames and therefore never draws the oldest ones (Grid-World) nor those after a
terminal one (Text2Action). Here a record is complete, before and after, and all records held may be drawn.
"""

from collections.abc import Mapping

import numpy as np

from fedsuite.arrays import Arrays

MOST_REJECTED = 1000  # draws of one minibatch, before its quota is dropped


class Memory:
    """The latest C records in named columns; `id` i lies in slot i mod C.

    row: what one record holds, by column: an array of its shape and dtype. Values of other shapes, or of dtypes
    that do not fit, are refused with ValueError.
    """

    def __init__(self, capacity: int, row: Mapping[str, np.ndarray]) -> None:
        self.capacity, self.count = capacity, 0
        self._columns = {k: np.zeros((capacity, *v.shape), v.dtype) for k, v in row.items()}

    def __len__(self) -> int:
        return min(self.count, self.capacity)

    @property
    def oldest(self) -> int:
        """Smallest id held."""
        return self.count - len(self)

    def store(self, **values: np.ndarray) -> np.ndarray:
        """Keep E records, a column each [E, ...]; their ids [E] int64."""
        number = len(next(iter(values.values())))
        self._check(values, number)
        ids = np.arange(self.count, self.count + number, dtype=np.int64)
        self.count += number
        for name, column in self._columns.items():
            column[ids % self.capacity] = values[name]
        return ids

    def _check(self, values: Mapping[str, np.ndarray], number: int) -> None:
        for name, column in self._columns.items():
            given, shape = values[name], (number, *column.shape[1:])
            if given.shape != shape or not np.can_cast(given.dtype, column.dtype, "safe"):
                raise ValueError(
                    f"{name}: expected {column.dtype} {shape}, got {given.dtype} {given.shape}"
                )

    def gather(self, ids: np.ndarray, *names: str) -> list[np.ndarray]:
        """These columns of the records with ids [...]: [..., *shape of a row] each."""
        wrong = (ids < self.oldest) | (ids >= self.count)
        if wrong.any():
            held = f"ids {self.oldest} to {self.count - 1}" if self.count else "no records yet"
            raise ValueError(
                f"record {ids[wrong].flat[0]} is not held: this memory holds {held}; "
                "do all parties store the same steps in memories of the same capacity?"
            )
        return [self._columns[name][ids % self.capacity] for name in names]

    def largest(self, name: str) -> float:
        """The largest number of a column by its size, of the records held; 0 if there are none."""
        return float(np.abs(self._columns[name][: len(self)]).max(initial=0))

    def state(self) -> Arrays:
        """What is held, and how many records there have been."""
        filled = {name: column[: len(self)].copy() for name, column in self._columns.items()}
        return {**filled, "count": np.array(self.count, np.int64)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state`, which comes from a memory of the same capacity and columns."""
        count = int(state["count"])
        filled = min(count, self.capacity)
        self._check(state, filled)
        self.count = count
        for name, column in self._columns.items():
            column[:filled] = state[name]

    def sample(
        self,
        rng: np.random.Generator,
        minibatches: int,
        batch: int,
        quota: float = 0.9,
        strict: bool = False,
    ) -> np.ndarray:
        """Ids [K, B] of minibatches, drawn by the column "rewards" with replacement; quota 0: uniformly.

        Otherwise as the published code draws: one record after another, uniformly; at most floor(quota * B) (28
        of 32) with reward >= 0 are let in and at most the remaining places (4) with reward < 0, the others are rejected;
        once 1,000 have been rejected, a minibatch is filled up with whatever comes. With `strict` (Text2Action) "high"
        means reward > 0, and rewards of 0 are never rejected though they use up the places of the low ones.
        """
        held = len(self)
        if held == 0:
            raise ValueError("no minibatch can be drawn from a memory that holds no records yet")
        if quota == 0:
            return self.oldest + rng.integers(held, size=(minibatches, batch))
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
                return self.oldest + (chosen - self.oldest) % self.capacity
            width = min(2 * width, batch + MOST_REJECTED)  # so many are always enough


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
