"""Greedy episodes side by side, without learning: a party looks, the rewarded one chooses, all follow.

Every env plays one episode of a split; an env whose episode is over gets the action IDLE. Noise at test is the
paper's FedRL-2, none is FedRL-1; a party on its own can be tested with the same noise, which tells what noise
alone does to a greedy policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.worlds import IDLE, RewardFunction, Role, Side, Split, World

VIEW, REWARD = "view.", "reward."


@dataclass(frozen=True)
class TestPlan:
    """Which test: the split, with noise or without, with the best round's weights or the present ones, and a
    number that no other test of this run has."""

    split: Split
    noisy: bool
    best: bool
    number: int


def plan_of(message: Mapping[str, Any]) -> TestPlan:
    """The test that a message of the protocol is about."""
    split, number = message["split"], int(message["number"])
    return TestPlan(split, bool(message["noisy"]), bool(message["best"]), number)


def num_envs(config: FedRLConfig, world: World, split: Split) -> int:
    """Episodes of a test: maps go round again up to evaluation-episodes, texts are read once each."""
    gridworld = config.world.kind == "gridworld"
    return config.evaluation.episodes if gridworld else world.num_episodes(split)


class PartyTest:
    """One party's side of a test; `rewarded`: this is the rewarded party."""

    def __init__(
        self, plan: TestPlan, config: FedRLConfig, world: World, role: Role, rewarded: bool
    ) -> None:
        self.plan, self.tick = plan, 0
        envs = num_envs(config, world, plan.split)
        self.episodes = np.arange(envs) % world.num_episodes(plan.split)
        self.active = np.ones(envs, bool)
        self.view = world.view(role, plan.split, envs)
        self.reward_function: RewardFunction | None = None
        self._sides: dict[str, Side] = {VIEW: self.view}
        if rewarded:
            self.reward_function = world.reward_function(plan.split, envs)
            self._sides[REWARD] = self.reward_function
        for side in self._sides.values():
            side.begin(np.arange(envs), self.episodes)

    def advance(self, actions: np.ndarray) -> None:
        """Carry out joint actions [envs]; IDLE ends an env for good."""
        self.view.move(actions)
        self.active &= actions != IDLE
        if self.reward_function is not None:
            self.active &= ~self.reward_function.step(actions).ended
        self.tick += 1

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of the active envs [n, ...] at their places among all envs, zero elsewhere."""
        whole = np.zeros((len(self.active), *values.shape[1:]), values.dtype)
        whole[self.active] = values
        return whole

    def state(self) -> Arrays:
        state = {"active": self.active, "tick": np.array(self.tick)}
        for prefix, side in self._sides.items():
            state |= with_prefix(side.state(), prefix)
        return state

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.active, self.tick = state["active"].copy(), int(state["tick"])
        for prefix, side in self._sides.items():
            side.restore(under_prefix(state, prefix))
