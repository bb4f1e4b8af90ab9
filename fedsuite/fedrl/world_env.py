"""What the environments of Gymnasium have in common that play one party's side of a FedRL world (Zhuo et al. 2019).

config  keys of a FedRL run, dotted or nested ({"world.grid-size": 16}), or a FedRLConfig; what is not there is generated
split   whose episodes: "train", "valid" or "test"
role    whose view is observed
Start   a random episode of the split, or options={"row": its row}. info["row"] tells which.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, get_args

import gymnasium
import numpy as np
from gymnasium import spaces

from fedsuite.errors import one_of
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.open_world import open_world, prepare_world
from fedsuite.fedrl.worlds import Role, Split, World
from fedsuite.settings.config import flatten, read_config
from fedsuite.storage.progress import silent

Observation = np.ndarray | dict[str, np.ndarray]
Config = FedRLConfig | Mapping[str, object] | None
Opened = TypeVar("Opened", bound=World)


def opened(config: Config, cls: type[Opened], kind: str, split: str) -> Opened:
    """The prepared world; InputError for unknown keys, values and splits, and for settings of another world."""
    if not isinstance(config, FedRLConfig):
        config = read_config(
            FedRLConfig, {"world.kind": kind, **flatten(config or {}, "config")}, "config"
        )
    one_of("split", split, get_args(Split))
    one_of("config: world.kind", config.world.kind, (kind,))
    prepare_world(config, silent)
    world = open_world(config)
    assert isinstance(world, cls)
    return world


class WorldEnv(gymnasium.Env[Observation, np.int64], Generic[Opened]):
    """One episode at a time; `_observe` and `_terminated` are the world's own."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, world: Opened, space: spaces.Space[Any], split: Split, role: Role) -> None:
        self.world, self.split, self.role = world, split, role
        self.observation_space = space
        self.action_space = spaces.Discrete(world.num_actions)
        self._view = world.view(role, split, 1)
        self._reward_function = world.reward_function(split, 1)

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
        ended, terminated = bool(step.ended[0]), self._terminated(step.ended)
        return self._observe(), float(step.rewards[0]), terminated, ended and not terminated, {}

    def _observe(self) -> Observation:
        raise NotImplementedError

    def _terminated(self, ended: np.ndarray) -> bool:
        """Whether the episode has come to an end of its own, and not out of time; ended: bool [1]."""
        raise NotImplementedError
