"""Real nodes that are lost while the server waits for them, and are sent their task again when they are back.

A node is lost when Flower cannot reach it, when its client process has died, and when it was started anew after it had got
its message. What a client keeps is by round, so that a task that it does twice leaves what doing it once leaves. A member
that stays away longer than `lost-node-patience-s` is given up: its task has failed, and in later exchanges nobody waits for
it until it has answered again.
"""

import time
from collections.abc import Iterable

from flwr.serverapp import Grid

LOOK_EVERY_S = 5.0
MOST_TRIES = 5  # of one task; whatever ends a client process each time is in the task


class Patience:
    """Who is waited for. Members are known by node here; without patience (`patience_s` = 0) nobody is."""

    def __init__(self, grid: Grid, patience_s: float) -> None:
        self.grid, self.patience_s = grid, patience_s
        self._given_up: set[int] = set()
        self._lost: dict[int, float] = {}  # since when
        self._tries: dict[int, int] = {}
        self._looked = 0.0
        self._here: dict[int, str] = {}  # by node that is connected, since when
        self._last: dict[int, str] = {}  # the same of all that ever were

    def begin(self) -> None:
        """Before the messages of an exchange are sent."""
        self._lost, self._tries = {}, {}
        if self.patience_s:
            self._look()

    @property
    def waits(self) -> bool:
        """Whether somebody is missing who may come back."""
        return bool(self._lost)

    def loses(self, node: int) -> bool:
        """A node was found to be lost; whether it is waited for."""
        tries = self._tries[node] = self._tries.get(node, 0) + 1
        if not self.patience_s or node in self._given_up or tries > MOST_TRIES:
            return False
        self._lost.setdefault(node, time.monotonic())
        return True

    def answered(self, node: int) -> None:
        """Whoever answers is there."""
        self._lost.pop(node, None)
        self._given_up.discard(node)

    def back(self, awaited: Iterable[int]) -> list[int]:
        """Nodes whose task is to be sent again now; awaited: those that have one and have not answered."""
        if not self.patience_s or time.monotonic() - self._looked < LOOK_EVERY_S:
            return []
        before = self._last
        self._look()
        # Of these the SuperLink says nothing: they were away only between two looks.
        anew = [n for n in awaited if n in self._here and before.get(n) != self._here[n]]
        back = [n for n in self._lost if n in self._here]
        late = [n for n, t in self._lost.items() if time.monotonic() - t >= self.patience_s]
        self._given_up |= set(late) - set(back)
        for node in {*back, *late}:
            del self._lost[node]
        return [*anew, *back]

    def _look(self) -> None:
        self._looked = time.monotonic()
        self._here = {n.node_id: str(n.last_activated_at) for n in self.grid.get_nodes()}
        self._last = self._last | self._here
