"""Grid-World for Gymnasium: one joint agent, alone or in thousands of envs (Zhuo et al. 2019).

Observation  role "alpha" or "beta": Box(0, 1, (H, w, w), float32): the agent's last H windows of w x w cells, 1 = free,
             newest last, zeros before the start. "full": Dict of both, under "alpha" and "beta". "gamma":
             Box(0, 1, (2 (2 N - 1),), float32): row and column difference of the agents, one-hot.
Action       Discrete(16): alpha's move is action // 4, beta's action % 4; moves as (row, col): 0 (0,-1),
             1 (0,+1), 2 (-1,0), 3 (+1,0). A blocked agent stays.
Reward       r_alpha + r_beta + N / (d + 1) + meeting-reward if d <= 1; r = step-reward, or obstacle-reward where blocked.
Start        a random episode of the split, or options={"row": its row}. info["row"] tells which.
End          terminated: the agents met (d <= 1). truncated: T_m steps without meeting.
Ranges       N, H, rewards, windows and distance are those of the configuration.

Maps must have been prepared: fedsuite.fedrl.gridworld.world.prepare(config).
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.world import GridWorld, open_gridworld
from fedsuite.fedrl.worlds import IDLE, Role, Split

Observation = np.ndarray | dict[str, np.ndarray]
AGENTS = ("alpha", "beta")


def observation_space(world: GridWorld, role: Role) -> spaces.Space[Any]:
    if role == "gamma":
        return spaces.Box(0.0, 1.0, (2 * (2 * world.maps.size - 1),), np.float32)
    windows: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(0.0, 1.0, (world.config.world.history, side, side), np.float32)
        for name, side in zip(AGENTS, world.rules.window_sides, strict=True)
    }
    return spaces.Dict(windows) if role == "full" else windows[role]


def _observation(arrays: Sequence[np.ndarray], role: Role) -> Observation:
    return dict(zip(AGENTS, arrays, strict=True)) if role == "full" else arrays[0]


class GridWorldVectorEnv(VectorEnv[Observation, np.ndarray, np.ndarray]):
    """`num_envs` envs in one pass of NumPy.

    Autoreset NEXT_STEP: after an episode has ended, the next `step` ignores the env's action, gives reward 0, and
    returns the first observation of a new random episode.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self, config: FedRLConfig, num_envs: int, split: Split = "train", role: Role = "full"
    ) -> None:
        self.world, self.split, self.role = open_gridworld(config), split, role
        self.num_envs = num_envs
        self.single_observation_space = observation_space(self.world, role)
        self.single_action_space = spaces.Discrete(self.world.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._view = self.world.view(role, split, num_envs)
        self._reward_function = self.world.reward_function(split, num_envs)
        self._rows = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """New episodes in all envs; options={"row": [num_envs]} chooses them."""
        super().reset(seed=seed)
        self._begin(np.arange(self.num_envs), (options or {}).get("row"))
        return self._observe(), {"row": self._rows.copy()}

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Observations, rewards float64 [E], terminated [E], truncated [E], infos."""
        taken = np.where(self._over, IDLE, actions)
        self._view.move(taken)
        step = self._reward_function.step(taken)
        terminated = step.ended & self._reward_function.met
        (again,) = np.nonzero(self._over)
        self._begin(again, None)
        self._over = step.ended
        infos = {"row": self._rows.copy()}
        rewards = step.rewards.astype(np.float64)
        return self._observe(), rewards, terminated, step.ended & ~terminated, infos

    def _begin(self, envs: np.ndarray, rows: Any) -> None:
        count = self.world.num_episodes(self.split)
        if rows is None:
            rows = self.np_random.integers(count, size=len(envs))
        rows = np.asarray(rows)
        if rows.shape != envs.shape or (rows.size and not 0 <= rows.min() <= rows.max() < count):
            raise ValueError(f"row: expected {len(envs)} numbers from 0 to {count - 1}, got {rows}")
        self._rows[envs] = rows
        self._view.begin(envs, rows)
        self._reward_function.begin(envs, rows)
        self._over[envs] = False

    def _observe(self) -> Observation:
        inputs = self._view.inputs(self._view.records())
        return _observation([part.numpy() for part in inputs], self.role)


class GridWorldEnv(gymnasium.Env[Observation, np.int64]):
    """One env; see the top of this file."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, config: FedRLConfig, split: Split = "train", role: Role = "full") -> None:
        self.world, self.split, self.role = open_gridworld(config), split, role
        self.observation_space = observation_space(self.world, role)
        self.action_space = spaces.Discrete(self.world.num_actions)
        self._view = self.world.view(role, split, 1)
        self._reward_function = self.world.reward_function(split, 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new episode; options={"row": k} chooses it."""
        super().reset(seed=seed)
        count, row = self.world.num_episodes(self.split), (options or {}).get("row")
        row = int(self.np_random.integers(count) if row is None else row)
        if not 0 <= row < count:
            raise ValueError(f"row: expected a number from 0 to {count - 1}, got {row}")
        for part in (self._view, self._reward_function):
            part.begin(np.zeros(1, np.int64), np.array([row]))
        return self._observe(), {"row": row}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated, info."""
        taken = np.array([action])
        self._view.move(taken)
        step = self._reward_function.step(taken)
        ended, met = bool(step.ended[0]), bool(self._reward_function.met[0])
        return self._observe(), float(step.rewards[0]), met, ended and not met, {}

    def _observe(self) -> Observation:
        inputs = self._view.inputs(self._view.records())
        return _observation([part[0].numpy() for part in inputs], self.role)
