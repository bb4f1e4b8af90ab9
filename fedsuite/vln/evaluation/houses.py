"""How a house scores an agent: greedy walks on all its validation instructions, means per split.

Walks may be left for the R2R leaderboard (Anderson et al. 2018), a JSON list with one entry per instruction:
{"instr_id": "<path_id>_<k>", "trajectory": [[viewpoint id, heading, elevation], ...]}; k counts the instructions of a path
from 0, angles are the camera's in radians. The leaderboard's own split is walked for that alone: its goals are not public.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.randomness import torch_generator_for
from fedsuite.storage.files import make_private, write_atomically
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, Sample, join_houses
from fedsuite.vln.data.graph import HEADINGS, VIEW_STEP_RAD
from fedsuite.vln.environment import World
from fedsuite.vln.evaluation.metrics import (
    episode_metrics,
    goal_progress_m,
    published_trajectory,
)
from fedsuite.vln.message_keys import TEST, VALIDATION
from fedsuite.vln.metrics import metrics_of
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.training.backdoor import Trial, backdoor_of
from fedsuite.vln.training.learner import walk_all

Pose = tuple[str, float, float]  # viewpoint id, heading (rad), elevation (rad)
Walked = tuple[list[list[int]], list[list[int]]]  # rows of the house and views, per sample
Walking = Callable[[Agent, World, Sequence[Sample], FedVLNConfig], Walked]


def score_houses(
    agent: Agent,
    houses: Sequence[House],
    world: World,
    folder: Path,
    config: FedVLNConfig,
    write: bool,
    walk: Walking = walk_all,
) -> tuple[int, dict[str, Any]]:
    """Number of instructions walked, and metrics `<split>.<metric>`; write: leave submissions in `folder`, of the
    leaderboard's split as well. world: of all houses; walk: who walks in place of the agent, as `walk_all` does."""
    metrics: dict[str, Any] = {}
    total = 0
    for split in VALIDATION:
        scores = []
        for house in (h for h in houses if h.samples.get(split)):
            own = world if len(houses) == 1 else join_houses([house], world.device)
            samples = house.samples[split]
            visited, views = walk(agent, own, samples, config)
            if write:
                _leave(folder, split, house, samples, visited, views)
            scores.append(walk_metrics(house, samples, visited, views, config))
        if scores:
            joined = {k: np.concatenate([s[k] for s in scores]) for k in scores[0]}
            metrics |= {f"{split}.{k}": float(v.mean()) for k, v in joined.items()}
            metrics[f"{split}.count"] = len(joined["sr"])
            total += len(joined["sr"])
        if scores and config.sabotage.triggers:
            found = _with_triggers(agent, houses, world, split, config)
            metrics |= {f"{split}.{k}": v for k, v in found.items()}
    for house in houses if write else ():
        if secret := house.samples.get(TEST):
            visited, views = walk(agent, join_houses([house], world.device), secret, config)
            _leave(folder, TEST, house, secret, visited, views)
            total += len(secret)
    return total, metrics


def _with_triggers(
    agent: Agent, houses: Sequence[House], world: World, split: str, config: FedVLNConfig
) -> dict[str, float]:
    """Of walks with triggers: how many decisions had one, the share of them that obeyed it, and who arrived all the same."""
    triggered, obeyed, arrived = 0, 0, list[float]()
    for house in (h for h in houses if h.samples.get(split)):
        own = world if len(houses) == 1 else join_houses([house], world.device)
        purpose = f"triggers of {split} in {house.graph.scan}"
        random = torch_generator_for(config.seed, purpose, device=str(world.device))
        trial = Trial(backdoor_of(config, own, config.sabotage.scored, random))
        visited, views = walk_all(agent, own, house.samples[split], config, trial)
        arrived += walk_metrics(house, house.samples[split], visited, views, config)["sr"].tolist()
        triggered, obeyed = triggered + trial.triggered, obeyed + trial.obeyed
    rate = {"asr": obeyed / triggered} if triggered else {}
    return {"triggered-sr": float(np.mean(arrived)), "triggered": float(triggered), **rate}


def walk_metrics(
    house: House,
    samples: Sequence[Sample],
    visited: Sequence[Sequence[int]],
    views: Sequence[Sequence[int]],
    config: FedVLNConfig,
) -> dict[str, np.ndarray]:
    """Metrics [B] of walks that `walk_all` made, against the samples' own paths, as the run counts them."""
    if config.evaluation.trajectory == "published":
        visited = [published_trajectory(p, v) for p, v in zip(visited, views, strict=True)]
    own, distance_m = metrics_of(config).computed, house.graph.distance_m
    found = episode_metrics(distance_m, visited, [s.path for s in samples], own=own)
    if config.data.dataset == "ndh":
        found |= {"gp": goal_progress_m(distance_m, visited, [s.goals for s in samples])}
    return found


def _leave(
    folder: Path,
    split: str,
    house: House,
    samples: Sequence[Sample],
    visited: Sequence[Sequence[int]],
    views: Sequence[Sequence[int]],
) -> None:
    """One house's walks on its own disk."""
    ids = [[house.graph.viewpoint_ids[p] for p in places] for places in visited]
    walks = zip(samples, ids, views, strict=True)
    file = folder / f"submission_{split}_{house.graph.scan}.json"
    write_submission(file, {s.instr_id: poses_of(p, v) for s, p, v in walks})


def poses_of(viewpoint_ids: Sequence[str], views: Sequence[int]) -> list[Pose]:
    """A walk as the leaderboard wants it: the camera's pose at every viewpoint."""
    return [
        (v, (look % HEADINGS) * VIEW_STEP_RAD, (look // HEADINGS - 1) * VIEW_STEP_RAD)
        for v, look in zip(viewpoint_ids, views, strict=True)
    ]


def write_submission(path: Path, walks: Mapping[str, Sequence[Pose]]) -> None:
    """instr_id -> walk from the start, in one go: an interrupted write leaves an earlier file untouched."""
    rows = [{"instr_id": name, "trajectory": poses} for name, poses in walks.items()]
    make_private(path.parent)
    write_atomically(path, json.dumps(rows).encode(), private=True)
