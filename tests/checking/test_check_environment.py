"""check_environment accepts our worlds and environments, and names what is wrong with others."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from fedsuite.checking import ContractError, check_environment
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.env import GridWorldEnv
from fedsuite.fedrl.gridworld.parallel_env import GridWorldParallelEnv
from fedsuite.fedrl.open_world import open_world, prepare_world
from fedsuite.fedrl.worlds import IDLE, Step
from fedsuite.settings.config import read_config
from fedsuite.storage.progress import silent
from tests.golden.runs import RUNS
from tests.harness import full_keys


@pytest.fixture(scope="module")
def config_of(cache: Path) -> Callable[..., FedRLConfig]:
    def make(name: str, **changes: Any) -> FedRLConfig:
        values = {**RUNS[name], **changes, "cache-dir": str(cache)}
        config = read_config(FedRLConfig, full_keys(FedRLConfig, values))
        prepare_world(config, silent)
        return config

    return make


@pytest.mark.slow
@pytest.mark.parametrize("frame", ["stored", "missing"])
def test_gridworld(config_of: Callable[..., FedRLConfig], frame: str) -> None:
    world = open_world(config_of("rl-joint", **{"first-frame": frame}))
    check_environment(world, roles=("alpha", "beta", "gamma", "full"))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["names", "arguments"])
def test_text2action(config_of: Callable[..., FedRLConfig], task: str) -> None:
    world = open_world(config_of("rl-text", task=task))
    check_environment(world, roles=("alpha", "beta", "full"))


@pytest.mark.filterwarnings("ignore")
def test_environments(config_of: Callable[..., FedRLConfig]) -> None:
    config = config_of("rl-joint")
    for role in ("alpha", "beta", "gamma", "full"):
        check_environment(GridWorldEnv(config, "valid", role))
    check_environment(GridWorldParallelEnv(config, "valid"))


# --- wrong ones: a counter that has to be brought to 0 ------------------------------------------


class View:
    """The counter, from the episode's number + 2; action 1 brings it down."""

    def __init__(self, envs: int) -> None:
        self.at = np.zeros((envs, 1), np.int32)

    def begin(self, envs, episodes):
        self.at[envs, 0] = episodes + 2

    def records(self):
        return self.at.copy()

    def move(self, actions):
        before = self.at.copy()
        self.at[:, 0] -= actions == 1
        return before, self.at.copy()

    def inputs(self, records):
        return (torch.tensor(records, dtype=torch.float32),)

    def state(self):
        return {"at": self.at.copy()}

    def restore(self, state):
        self.at = state["at"].copy()


class RewardFunction:
    """One for every action 1; an episode ends at 0, or after 9 steps."""

    def __init__(self, envs: int) -> None:
        self.left, self.steps = np.zeros(envs, int), np.zeros(envs, int)

    def begin(self, envs, episodes):
        self.left[envs], self.steps[envs] = episodes + 2, 0

    def step(self, actions):
        acts = actions != IDLE
        self.left -= actions == 1
        self.steps += acts
        ended = acts & ((self.left == 0) | (self.steps >= 9))
        return Step((actions == 1).astype(np.float32), ended, ended & (self.left == 0))

    def scores(self):
        return {"done": float((self.left == 0).mean())}

    def state(self):
        return {"left": self.left.copy(), "steps": self.steps.copy()}

    def restore(self, state):
        self.left, self.steps = state["left"].copy(), state["steps"].copy()


class World:
    num_actions, longest, score, facts = 2, 9, "done", types.MappingProxyType({"episodes": 4})
    view_class, reward_class = View, RewardFunction

    def num_episodes(self, split):
        return 4

    def view(self, role, split, envs):
        return self.view_class(envs)

    def reward_function(self, split, envs):
        return self.reward_class(envs)

    def network(self, role, generator):
        layer = torch.nn.Linear(1, 2)
        torch.nn.init.normal_(layer.weight, generator=generator)
        torch.nn.init.zeros_(layer.bias)
        return layer


def world(**changes: Any) -> World:
    return type("Wrong", (World,), changes)()


def view(**methods: Any) -> World:
    return world(view_class=type("WrongView", (View,), methods))


def reward_function(**methods: Any) -> World:
    return world(reward_class=type("WrongReward", (RewardFunction,), methods))


def stepping(change: Callable[[RewardFunction, Step], Step]) -> World:
    return reward_function(
        step=lambda self, actions: change(self, RewardFunction.step(self, actions))
    )


def idle_moves(self, actions):
    before = self.at.copy()
    self.at[:, 0] -= actions != 0
    return before, self.at.copy()


def mixed_up(self, actions):
    before, _ = View.move(self, actions)
    self.at[:, 0] = np.maximum(self.at[:, 0], self.at.min())
    self.at[-1] = self.at[0]
    return before, self.at.copy()


def drawing(self, actions):
    before, after = View.move(self, actions)
    return before, after + np.random.default_rng().integers(9, size=after.shape, dtype=np.int32)


def counting(self, actions):
    """Ticks, which state() does not have: what an action does hangs on them."""
    self.ticks = getattr(self, "ticks", 0) + 1
    before = self.at.copy()
    self.at[:, 0] -= (actions == 1) * self.ticks
    return before, self.at.copy()


def given_away(self, actions):
    before = self.at.copy()
    self.at[:, 0] -= actions == 1
    return before, self.at


def moving_inputs(self, records):
    self.at += 1
    return View.inputs(self, records)


CORPUS: dict[str, tuple[Any, str]] = {
    "actions": (world(num_actions=np.int64(2)), "world.num_actions: expected a whole number > 0"),
    "facts": (world(facts={"sizes": [1]}), "world.facts, sizes: expected an int, float, str or bool"),
    "score": (world(score="f1"), "a metric 'f1', got ['done']"),
    "longest": (world(longest=3), "ends within longest = 3 steps"),
    "rewards": (stepping(lambda j, s: Step(s.rewards.astype(float), s.ended, s.terminal)), "rewards float32 [3]"),
    "idle reward": (stepping(lambda j, s: Step(s.rewards + np.float32(1), s.ended, s.terminal)), "no reward"),
    "idle end": (stepping(lambda j, s: Step(s.rewards, s.ended | (j.left == 0), s.terminal)), "no reward and no end"),
    "terminal": (stepping(lambda j, s: Step(s.rewards, s.ended, ~s.ended)), "terminal only where ended"),
    "scores": (reward_function(scores=lambda self: {"done": np.nan}), "metric done: expected a finite number"),
    "records": (view(records=lambda self: self.at.astype(float)), "records of whole numbers [3, R]"),
    "records' type": (view(records=lambda self: self.at.astype(np.int64)), "records (dtype('int64')"),
    "given away": (view(move=given_away), "records given away as they were"),
    "ticks": (view(move=counting), "the same after a tick of IDLE"),
    "inputs": (view(inputs=lambda self, r: View.inputs(self, r)[0]), "a tuple of tensors of inputs()"),
    "rows": (view(inputs=lambda self, r: (torch.ones(1, 1),)), "3 rows of inputs, got [1]"),
    "moving": (view(inputs=moving_inputs), "inputs() that changes nothing"),
    "inputs that draw": (view(inputs=lambda self, r: (torch.rand(len(r), 1),)), "inputs() that changes nothing"),
    "network": (world(network=lambda self, r, g: torch.nn.Linear(1, 2)), "drawn from its generator alone"),
    "q": (world(network=lambda self, r, g: torch.nn.Identity()), "finite Q (3, 2), got (3, 1)"),
    "draws": (view(move=drawing), "the same outcome twice"),
    "envs": (view(move=mixed_up), "as if it were alone"),
    "idle": (view(move=idle_moves), "IDLE to change nothing"),
    "state": (view(state=lambda self: {"at": self.at}), "state() to stay as it was"),
    "a list as state": (view(state=lambda self: {"at": self.at.tolist()}), "array at: expected a plain numpy array"),
    "restore": (view(restore=lambda self, state: None), "the same after restore(state())"),
}  # fmt: skip


@pytest.mark.parametrize("name", CORPUS)
def test_wrong_worlds_are_told_what_is_wrong(name: str) -> None:
    wrong, complaint = CORPUS[name]
    with pytest.raises(ContractError) as caught:
        check_environment(wrong)
    assert complaint in str(caught.value) and "likely cause: " in str(caught.value)


class Late(RewardFunction):
    """Nobody comes to the end before the last step that there can be."""

    def step(self, actions):
        acts = actions != IDLE
        self.steps += acts
        ended = acts & (self.steps == 5)
        return Step(acts.astype(np.float32), ended, np.zeros_like(ended))


class Broken(gymnasium.Env):
    """Observes outside of its space."""

    observation_space, action_space = spaces.Box(0, 1, (2,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full(2, 5, np.float32), {}


@pytest.mark.filterwarnings("ignore")
def test_a_right_world_is_accepted_and_a_broken_environment_is_not() -> None:
    check_environment(World())
    check_environment(world(reward_class=Late, longest=5))
    with pytest.raises(ContractError, match="Broken: expected no exception, got AssertionError"):
        check_environment(Broken())
