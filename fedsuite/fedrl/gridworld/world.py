"""Grid-World as a world: maps from files or generated, views, reward function, networks, the expert (Zhuo et al. 2019).

The expert walks the stored shortest path from both ends, alpha forward and beta backward; it labels the
demonstrations of the supervised baselines.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.generator import GENERATOR_VERSION, write_generated
from fedsuite.fedrl.gridworld.maps import SPLITS, MapSet, digest, episodes, shared_digest
from fedsuite.fedrl.gridworld.reader import file_of, load_maps, read_maps
from fedsuite.fedrl.gridworld.reward import MeetingReward
from fedsuite.fedrl.gridworld.views import (
    ALPHA,
    BETA,
    FullView,
    PositionView,
    WindowLookup,
    WindowView,
)
from fedsuite.fedrl.gridworld.walkers import MOVES, NUM_ACTIONS, NUM_MOVES, make_ground
from fedsuite.fedrl.learning.networks import POSITION_HIDDEN, TwoLayers, WindowNetwork
from fedsuite.fedrl.worlds import IDLE, Role, Split, check_party
from fedsuite.storage.progress import Progress, silent
from fedsuite.storage.read_once import read_once

AGENTS = {"alpha": ALPHA, "beta": BETA}


class GridWorld:
    """A set of maps with the rules of a run; `maps` must have the size that `config` names."""

    num_actions = NUM_ACTIONS
    score = "success-rate"

    def __init__(self, config: FedRLConfig, maps: MapSet) -> None:
        self.config, self.rules, self.maps = config, config.published.rules, maps
        self.episodes = {split: episodes(maps, split, self.rules.starts) for split in SPLITS}
        self.longest = config.world.step_limit or 2 * maps.longest
        self.ground = make_ground(maps.maps, max(self.rules.window_sides))
        self._lookups = [WindowLookup(self.ground, side) for side in self.rules.window_sides]
        self._demonstrations: dict[Role, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def facts(self) -> Mapping[str, int | float | str]:
        return {
            "world": "gridworld",
            "grid-size": self.maps.size,
            "history": self.config.world.history,
            "step-limit": self.longest,
            **{f"{split}-episodes": len(self.episodes[split]) for split in SPLITS},
            "distance": self.rules.distance,
            "starts": self.rules.starts,
            "first-frame": self.rules.first_frame,
            "shared-maps": shared_digest(self.maps, self.episodes),
        }

    @property
    def content(self) -> dict[str, str]:
        """Digest of what whole files hold, which a resumed run is held to."""
        return {} if self.maps.own else {"maps": digest(self.maps, self.episodes)}

    def check_party(self, role: str) -> None:
        """InputError if these maps are another party's own."""
        check_party(self.maps.party, role, self.maps.name)

    def num_episodes(self, split: Split) -> int:
        """Maps of a split that have a usable path."""
        return len(self.episodes[split])

    def view(self, role: Role, split: Split, envs: int) -> WindowView | FullView | PositionView:
        self.check_party(role)
        played, missing = self.episodes[split], self.rules.first_frame == "missing"
        if role == "gamma":
            return PositionView(self.ground, played, envs, missing)
        history, lookups = self.config.world.history, self._lookups
        windows = [
            WindowView(self.ground, lookups[agent], played, agent, envs, history, missing)
            for name, agent in AGENTS.items()
            if role in (name, "full")
        ]
        return FullView(*windows) if role == "full" else windows[0]

    def reward_function(self, split: Split, envs: int) -> MeetingReward:
        self.check_party("alpha")
        return MeetingReward(self.ground, self.episodes[split], self.config, envs, self.longest)

    def network(self, role: Role, generator: torch.Generator) -> torch.nn.Module:
        """The role's Q-network: convolutions over windows, or two full layers over positions."""
        if role == "gamma":
            inputs = 2 * (2 * self.maps.size - 1)
            return TwoLayers(inputs, POSITION_HIDDEN, NUM_ACTIONS, generator)
        sides = self.rules.window_sides
        chosen = list(sides) if role == "full" else [sides[AGENTS[role]]]
        history, own = self.config.world.history, self.config.network
        return WindowNetwork(chosen, history, own.filters, own.kernels, NUM_ACTIONS, generator)

    # --- the expert ------------------------------------------------------------------------------

    def expert(self, split: Split, episodes: np.ndarray, tick: int) -> np.ndarray:
        """Joint actions [n] in step `tick` (from 0) along the paths of episodes [n]; 0 once a path is walked.

        Both agents walk the whole path; they meet in the middle of it, on the way.
        """
        self.check_party("alpha")
        played = self.episodes[split]
        length, first = played.path_len[episodes], played.first_cell[episodes]
        walking = tick < length - 1
        at = np.where(walking, tick, 0)
        back = length - 1 - at  # beta comes from the other end
        alpha = self._move(first + at, first + at + 1, walking)
        beta = self._move(first + back, first + back - 1, walking)
        return np.where(walking, NUM_MOVES * alpha + beta, 0)

    def _move(self, here: np.ndarray, there: np.ndarray, walking: np.ndarray) -> np.ndarray:
        """The move between neighbouring cells of paths, given by where they are in MapSet.cells."""
        here, there = (self.maps.cells[np.where(walking, at, 0)] for at in (here, there))
        hops = np.array([row * self.maps.size + col for row, col in MOVES])
        return (hops == (there - here)[:, None]).argmax(axis=1)

    def demonstrations(self, role: Role) -> tuple[np.ndarray, np.ndarray]:
        """Records [n, R] and joint actions [n] of the expert until the agents are neighbours, episode by episode."""
        if role not in self._demonstrations:
            self._demonstrations[role] = self._demonstrate(role)
        return self._demonstrations[role]

    def _demonstrate(self, role: Role) -> tuple[np.ndarray, np.ndarray]:
        everyone = np.arange(self.num_episodes("train"))
        view, ways = (
            self.view(role, "train", len(everyone)),
            self.view("gamma", "train", len(everyone)),
        )
        for part in (view, ways):
            part.begin(everyone, everyone)
        records, actions, owners = [view.records()[:0]], [everyone[:0]], [everyone[:0]]
        for tick in range(self.longest):
            apart = np.abs(ways.records() - (self.maps.size - 1)).sum(axis=1) > 1
            if not apart.any():
                break
            chosen = np.where(apart, self.expert("train", everyone, tick), IDLE)
            records.append(view.records()[apart])
            actions.append(chosen[apart])
            owners.append(everyone[apart])
            view.move(chosen)
            ways.move(chosen)
        order = np.argsort(np.concatenate(owners), kind="stable")
        return np.concatenate(records)[order], np.concatenate(actions)[order]


# --- where maps come from --------------------------------------------------------------------------


def generated_file(config: FedRLConfig) -> Path:
    """The cached file of generated maps, named by all that it depends on."""
    n, count, seed = config.world.grid_size, config.data.maps, config.data_seed
    name = f"grid-{n}x{n}-maps{count}-seed{seed}-v{GENERATOR_VERSION}.npz"
    return Path(config.data.cache_dir) / name


def prepare(config: FedRLConfig, progress: Progress = silent) -> None:
    """Generate maps if they are not there yet, and check all that a run reads."""
    data, file = config.data, generated_file(config)
    if not data.dir and not file.is_file():
        write_generated(file, data.maps, config.world.grid_size, config.data_seed, progress)
    world = open_gridworld(config)
    used = ", ".join(f"{world.num_episodes(split)} {split}" for split in SPLITS)
    progress(f"maps with a usable path: {used} of {len(world.maps.maps)}")


def _maps_file(data_dir: str, generated: Path, size: int) -> list[Path]:
    return [file_of(Path(data_dir), size) if data_dir else generated]


@read_once(_maps_file, kept=2)
def _maps(data_dir: str, generated: Path, size: int) -> MapSet:
    if data_dir:
        return load_maps(Path(data_dir), size)
    if not generated.is_file():
        raise InputError(f"{generated}: no such file; prepare the run, which generates it")
    return read_maps(generated, size, "delete it, and it is generated anew")


def _where(config: FedRLConfig) -> tuple[str, Path, int]:
    return config.data.dir, generated_file(config), config.world.grid_size


@read_once(lambda config: _maps_file(*_where(config)), kept=4)
def open_gridworld(config: FedRLConfig) -> GridWorld:
    """The world of a run; once per process, configuration and file. Generated maps must have been prepared."""
    return GridWorld(config, _maps(*_where(config)))
