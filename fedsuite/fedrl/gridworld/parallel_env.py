"""Grid-World for PettingZoo: alpha and beta as two agents that move at once (Zhuo et al. 2019).

Observation  Box(0, 1, (H, w, w), float32) each: the agent's own last H windows, as in fedsuite.fedrl.gridworld.env.
Action       Discrete(4) each; moves as (row, col): 0 (0,-1), 1 (0,+1), 2 (-1,0), 3 (+1,0).
Reward       alpha gets the whole reward of the step. Beta gets 0.0 always: in the paper beta never sees rewards.
End          terminated for both when they met, truncated for both after T_m steps.

Needs the optional package pettingzoo.
"""

from typing import Any

import numpy as np
from gymnasium import spaces

from fedsuite.fedrl.gridworld.env import AGENTS, GridWorldEnv, observation_space
from fedsuite.fedrl.gridworld.walkers import NUM_MOVES
from fedsuite.fedrl.world_env import Config, Observation
from fedsuite.fedrl.worlds import Split

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError(
        "fedsuite.fedrl.gridworld.parallel_env needs pettingzoo; install it: pip install pettingzoo"
    ) from error


class GridWorldParallelEnv(ParallelEnv):  # type: ignore[misc]
    """One episode at a time; see the top of this file."""

    metadata = {"name": "fedsuite_gridworld_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self, config: Config = None, split: Split = "train") -> None:
        self._env = GridWorldEnv(config, split, "full")
        self.world = self._env.world
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.observation_spaces = {
            "alpha": observation_space(self.world, "alpha"),
            "beta": observation_space(self.world, "beta"),
        }
        self.action_spaces = {agent: spaces.Discrete(NUM_MOVES) for agent in AGENTS}
        self.render_mode = None

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, dict[str, Any]]]:
        """A new random episode; options={"row": k} chooses it."""
        seen, info = self._env.reset(seed=seed, options=options)
        self.agents = list(AGENTS)
        return seen, {agent: dict(info) for agent in AGENTS}

    def step(
        self, actions: dict[str, np.int64]
    ) -> tuple[
        Observation, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        if not self.agents:
            raise ValueError("the episode is over; call reset")
        joint = NUM_MOVES * int(actions["alpha"]) + int(actions["beta"])
        seen, reward, met, late, _ = self._env.step(np.int64(joint))
        if met or late:
            self.agents = []
        return (
            seen,
            {"alpha": reward, "beta": 0.0},
            dict.fromkeys(AGENTS, met),
            dict.fromkeys(AGENTS, late),
            {agent: {} for agent in AGENTS},
        )
