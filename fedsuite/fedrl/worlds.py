"""What a party asks of a world: its own view, and, for the party that has rewards, a reward function.

A world runs E envs, that is E parallel episodes. Views and reward function of one world are stepped with the same
joint actions and stay in step without speaking to each other: a view knows what its party
can see and nothing of rewards, the reward function knows rewards and when an episode ends.

Letters: E envs, B records in a minibatch, R numbers in a record, A joint actions. A *record* is what a
party keeps of one observation, as few whole numbers as can bring the observation back; the network's
inputs are made of records. An *episode* is named by its row in a split ("train", "valid", "test").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch

from fedsuite.arrays import Arrays
from fedsuite.errors import InputError

Role = Literal["alpha", "beta", "gamma", "full"]
Split = Literal["train", "valid", "test"]
IDLE = -1  # the action of an env that takes no part


def check_party(own: str, role: str, source: str) -> None:
    """InputError where data of one party alone are asked for what another one has; own: whose they are, "" = everybody's."""
    if own and own != role:
        raise InputError(
            f"{source}: holds what {own} alone may have, asked for is what {role} has; name {role}'s own data, or the whole "
            "file they were split from, in data.dir"
        )


@dataclass(frozen=True)
class Step:
    """What the reward function says of one step, each [E]: reward float32 (0 in idle envs); ended: the episode is over;
    terminal: the target of this transition is the reward alone (ended, but for time-outs if they are bootstrapped)."""

    rewards: np.ndarray
    ended: np.ndarray
    terminal: np.ndarray


class Remembering:
    """Keeps arrays by name, those of `remembered`, each as an attribute with an underscore in front."""

    remembered: tuple[str, ...]

    def state(self) -> Arrays:
        """Copies of all that `restore` needs to go on in the middle of episodes."""
        return {name: getattr(self, f"_{name}").copy() for name in self.remembered}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state`; ValueError if it is of another shape."""
        for name in self.remembered:
            own = getattr(self, f"_{name}")
            if state[name].shape != own.shape:
                raise ValueError(f"{name}: expected shape {own.shape}, got {state[name].shape}")
            setattr(self, f"_{name}", state[name].astype(own.dtype))


class Side(Protocol):
    """One party's side of E envs."""

    def begin(self, envs: np.ndarray, episodes: np.ndarray) -> None:
        """Start episodes [n] in envs [n]."""

    def state(self) -> Arrays:
        """All that `restore` needs to go on in the middle of episodes."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state`."""


class View(Side, Protocol):
    """What a party sees."""

    def records(self) -> np.ndarray:
        """What is observed now in every env [E, R]; the dtype is the view's own."""

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Carry out joint actions [E] (IDLE: none). Records to be stored, of before and after: [E, R] each.

        What is stored may differ from `records()` where the published code stores something else.
        """

    def inputs(self, records: np.ndarray) -> tuple[torch.Tensor, ...]:
        """The network's inputs of records [B, R]; first axis B. Touches no state."""


class RewardFunction(Side, Protocol):
    """What the rewarded party knows; keeps the tally of each env's episode, which `begin` starts anew."""

    def step(self, actions: np.ndarray) -> Step:
        """Carry out joint actions [E] (IDLE: nothing happens in that env)."""

    def scores(self) -> dict[str, float]:
        """Metrics over the envs' latest episodes, all of which have ended."""


class World(Protocol):
    """A world opened on one node.

    num_actions: A; longest: most steps of any episode; score: name of the metric that chooses the best
    round. `facts`: numbers and texts in which all parties must agree before they train together.
    """

    num_actions: int
    longest: int
    score: str

    @property
    def facts(self) -> Mapping[str, int | float | str]:
        """What every party's world must have in common (sizes, history, numbers of episodes, a digest of what all see)."""

    def num_episodes(self, split: Split) -> int:
        """Episodes in a split."""

    def view(self, role: Role, split: Split, envs: int) -> View:
        """A party's view of `envs` parallel episodes."""

    def reward_function(self, split: Split, envs: int) -> RewardFunction:
        """The reward function of `envs` parallel episodes."""

    def network(self, role: Role, generator: torch.Generator) -> torch.nn.Module:
        """A Q-network [B, ...] -> [B, A] for the inputs of this role's view, initialised from `generator` alone."""

    def demonstrations(self, role: Role) -> tuple[np.ndarray, np.ndarray]:
        """Records [n, R] and joint actions [n] of an expert on the training split, in a fixed order."""

    def expert(self, split: Split, episodes: np.ndarray, tick: int) -> np.ndarray:
        """The expert's joint actions [n] in step `tick` (from 0) of episodes [n]: rows of the split, each on its course."""
