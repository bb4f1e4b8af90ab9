"""Greedy episodes side by side, without learning: a party looks, the rewarded one chooses, all follow.

Every lane plays one episode of a split; a lane whose episode is over gets the action IDLE. Noise at test is the
paper's FedRL-2, none is FedRL-1; a party on its own can be tested with the same noise, which tells what noise
alone does to a greedy policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.worlds import IDLE, Judge, Role, Split, World

VIEW, JUDGE = "view.", "judge."


@dataclass(frozen=True)
class TestPlan:
    """Which test: the split, with noise or without, with the best round's weights or the present ones, and a
    number that no other test of this run has."""

    split: Split
    noisy: bool
    best: bool
    number: int


def num_lanes(config: FedRLConfig, world: World, split: Split) -> int:
    """Episodes of a test: maps go round again up to evaluation-episodes, texts are read once each."""
    gridworld = config.world.kind == "gridworld"
    return config.evaluation.episodes if gridworld else world.num_episodes(split)


class PartyTest:
    """One party's side of a test; `judged`: this is the rewarded party."""

    def __init__(
        self, plan: TestPlan, config: FedRLConfig, world: World, role: Role, judged: bool
    ) -> None:
        self.plan, self.tick = plan, 0
        lanes = num_lanes(config, world, plan.split)
        self.episodes = np.arange(lanes) % world.num_episodes(plan.split)
        self.active = np.ones(lanes, bool)
        self.view = world.view(role, plan.split, lanes)
        self.view.begin(np.arange(lanes), self.episodes)
        self.judge: Judge | None = None
        if judged:
            self.judge = world.judge(plan.split, lanes)
            self.judge.begin(np.arange(lanes), self.episodes)

    def advance(self, actions: np.ndarray) -> None:
        """Carry out joint actions [lanes]; IDLE ends a lane for good."""
        self.view.move(actions)
        self.active &= actions != IDLE
        if self.judge is not None:
            self.active &= ~self.judge.step(actions).ended
        self.tick += 1

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of the active lanes [n, ...] at their places among all lanes, zero elsewhere."""
        whole = np.zeros((len(self.active), *values.shape[1:]), values.dtype)
        whole[self.active] = values
        return whole

    def state(self) -> Arrays:
        """All that `restore` needs."""
        judge = with_prefix(self.judge.state(), JUDGE) if self.judge is not None else {}
        own = {"active": self.active, "tick": np.array(self.tick)}
        return own | with_prefix(self.view.state(), VIEW) | judge

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state`."""
        self.active, self.tick = state["active"].copy(), int(state["tick"])
        self.view.restore(under_prefix(state, VIEW))
        if self.judge is not None:
            self.judge.restore(under_prefix(state, JUDGE))


def greedy(q: np.ndarray) -> np.ndarray:
    """Index of the largest value of each row [n, A]; the first of equals."""
    return q.argmax(axis=1)
