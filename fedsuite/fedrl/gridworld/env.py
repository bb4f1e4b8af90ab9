"""Grid-World for Gymnasium: one joint agent, alone or in thousands of envs (Zhuo et al. 2019).

Observation  role "alpha" or "beta": Box(0, 1, (H, w, w), float32): the agent's last H windows of w x w cells, 1 = free,
             newest last, zeros before the start. "full": Dict of both, under "alpha" and "beta". "gamma":
             Box(0, 1, (2 (2 N - 1),), float32): row and column difference of the agents, one-hot.
Action       Discrete(16): alpha's move is action // 4, beta's action % 4; moves as (row, col): 0 (0,-1),
             1 (0,+1), 2 (-1,0), 3 (+1,0). A blocked agent stays.
Reward       r_alpha + r_beta + N / (d + 1) + meeting-reward if d <= 1; r = step-reward, or obstacle-reward where blocked.
End          terminated: the agents met (d <= 1). truncated: T_m steps without meeting.
Ranges       N, H, rewards, windows and distance are those of the configuration.

`config`, `split` and `role` are those of fedsuite.fedrl.world_env.
"""

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from fedsuite.errors import one_of
from fedsuite.fedrl.gridworld.reward import MeetingReward
from fedsuite.fedrl.gridworld.world import GridWorld
from fedsuite.fedrl.world_env import Config, Observation, WorldEnv, opened
from fedsuite.fedrl.worlds import IDLE, Role, Split

AGENTS = ("alpha", "beta")


def observation_space(world: GridWorld, role: Role) -> spaces.Space[Any]:
    if role == "gamma":
        return spaces.Box(0.0, 1.0, (2 * (2 * world.maps.size - 1),), np.float32)
    windows: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(0.0, 1.0, (world.config.world.history, side, side), np.float32)
        for name, side in zip(AGENTS, world.rules.window_sides, strict=True)
    }
    return spaces.Dict(windows) if role == "full" else windows[role]


def _opened(config: Config, split: str, role: str) -> GridWorld:
    one_of("role", role, get_args(Role))
    return opened(config, GridWorld, "gridworld", split)


def _observation(arrays: Sequence[np.ndarray], role: Role) -> Observation:
    return dict(zip(AGENTS, arrays, strict=True)) if role == "full" else arrays[0]


class GridWorldVectorEnv(VectorEnv[Observation, np.ndarray, np.ndarray]):
    """`num_envs` envs in one pass of NumPy.

    Autoreset NEXT_STEP: after an episode has ended, the next `step` ignores the env's action, gives reward 0, and
    returns the first observation of a new random episode.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        config: Config = None,
        num_envs: int = 1,
        split: Split = "train",
        role: Role = "full",
    ) -> None:
        self.world, self.split, self.role = _opened(config, split, role), split, role
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


class GridWorldEnv(WorldEnv[GridWorld]):
    """One env; see the top of this file."""

    def __init__(self, config: Config = None, split: Split = "train", role: Role = "full") -> None:
        world = _opened(config, split, role)
        super().__init__(world, observation_space(world, role), split, role)

    def _observe(self) -> Observation:
        inputs = self._view.inputs(self._view.records())
        return _observation([part[0].numpy() for part in inputs], self.role)

    def _terminated(self, ended: np.ndarray) -> bool:
        reward_function = self._reward_function
        assert isinstance(reward_function, MeetingReward)
        return bool((ended & reward_function.met)[0])
