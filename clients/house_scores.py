"""How a house scores an agent: greedy walks on all its validation instructions, means per split."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from clients.house_member import HouseSite
from fedsuite.vln.agent import Agent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.dataset import House, join_houses
from fedsuite.vln.graph import HEADINGS, VIEW_STEP_RAD
from fedsuite.vln.learner import walk_all
from fedsuite.vln.metrics import episode_metrics, published_trajectory
from fedsuite.vln.submission import Entry, write_submission
from fedsuite.vln.wire import VALIDATION


def score_houses(
    agent: Agent, site: HouseSite, config: FedVLNConfig, write: bool
) -> tuple[int, dict[str, Any]]:
    """Number of instructions and metrics `<split>.<metric>`; with `write` the walks are left as submission files."""
    metrics: dict[str, Any] = {}
    total = 0
    for split in VALIDATION:
        scores = [_score(agent, site, h, split, config, write) for h in site.houses]
        scores = [s for s in scores if s]
        if scores:
            joined = {k: np.concatenate([s[k] for s in scores]) for k in scores[0]}
            metrics |= {f"{split}.{k}": float(v.mean()) for k, v in joined.items()}
            metrics[f"{split}.count"] = len(joined["sr"])
            total += len(joined["sr"])
    return total, metrics


def _score(
    agent: Agent, site: HouseSite, house: House, split: str, config: FedVLNConfig, write: bool
) -> dict[str, np.ndarray]:
    """Metrics of one house's samples [B] each; {} if it has none."""
    samples = house.samples.get(split, ())
    if not samples:
        return {}
    single = len(site.houses) == 1
    world = site.world if single else join_houses([house], site.world.device)
    visited, views = walk_all(agent, world, samples, config)
    if write:
        ids = [[house.graph.viewpoint_ids[p] for p in places] for places in visited]
        rows = zip(samples, ids, views, strict=True)
        file = site.folder / f"submission_{split}_{house.graph.scan}.json"
        write_submission(file, [_entry(s.instr_id, p, v) for s, p, v in rows])
    if config.trajectory == "published":
        visited = [published_trajectory(p, v) for p, v in zip(visited, views, strict=True)]
    return episode_metrics(house.graph.distance_m, visited, [s.path for s in samples])


def _entry(instr_id: str, viewpoint_ids: Sequence[str], views: Sequence[int]) -> Entry:
    """A walk as the leaderboard wants it: the camera's pose at every viewpoint."""
    poses = (
        (v, (look % HEADINGS) * VIEW_STEP_RAD, (look // HEADINGS - 1) * VIEW_STEP_RAD)
        for v, look in zip(viewpoint_ids, views, strict=True)
    )
    return Entry(instr_id, tuple(poses))
