"""A house as a Flower client: trains the agent on its own instructions, scores an agent on its validation ones.

What leaves a house: the agent's arrays, the number of its samples, losses and scores. Views, graph, instructions and
trajectories stay; with `client-optimizer = "kept"` so does the optimizer's state, on the house's own disk.
A centralised run uses the same client, holding all training houses at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient

from clients.numpy_client_app import named_arrays, named_reply
from clients.private_state import PrivateState, checkpoint_rounds
from fedsuite.arrays import Arrays, load_arrays, module_arrays, under_prefix, with_prefix
from fedsuite.vln.agent import Agent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.dataset import House, Sample, join_houses
from fedsuite.vln.environment import World
from fedsuite.vln.graph import HEADINGS, VIEW_STEP_RAD
from fedsuite.vln.learner import local_steps, train_locally, walk_all
from fedsuite.vln.metrics import episode_metrics, published_trajectory
from fedsuite.vln.optimizer import RMSprop
from fedsuite.vln.submission import Entry, write_submission
from fedsuite.vln.wire import OPTIMIZER, VALIDATION


@dataclass(frozen=True)
class HouseSite:
    """All that one client owns: its house or houses with their world, and its private disk."""

    partition: int
    name: str
    houses: tuple[House, ...]
    world: World
    private: PrivateState
    folder: Path

    def samples(self, split: str) -> list[Sample]:
        """All own samples of a split, house by house."""
        return [s for h in self.houses for s in h.samples.get(split, ())]


class HouseClient(NumPyClient):
    """`agent` is a shell of the right sizes; its weights are overwritten by what the server sends."""

    def __init__(self, site: HouseSite, config: FedVLNConfig, agent: Agent) -> None:
        self.site, self.config, self.agent = site, config, agent

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        """Who this is; with resume-round, private state newer than that round is dropped."""
        if "resume-round" in config:
            self.site.private.rollback(int(config["resume-round"]))
        counts = {f"{s}.count": len(self.site.samples(s)) for s in VALIDATION}
        own = [len(h.samples["train"]) for h in self.site.houses if h.samples.get("train")]
        steps = (local_steps(n, self.config.local_epochs, self.config.batch_size) for n in own)
        return {
            "partition": self.site.partition,
            "name": self.site.name,
            "num-examples": sum(own),
            "training-houses": len(own),
            "local-steps": sum(steps),
            **{k: n for k, n in counts.items() if n},
        }

    def fit(
        self, parameters: list[np.ndarray], config: dict[str, Any]
    ) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        """`steps` optimizer steps from the server's agent."""
        received = named_arrays(parameters, config)
        load_arrays(self.agent, {k: v for k, v in received.items() if not k.startswith(OPTIMIZER)})
        self.agent.train()
        number = int(config["round"])
        optimizer = self._optimizer(received, number)
        samples = self.site.samples("train")
        report = train_locally(
            self.agent,
            optimizer,
            self.site.world,
            samples,
            self.config,
            steps=int(config["steps"]),
            round=number,
            partition=self.site.partition,
        )
        if self.config.client_optimizer == "kept":
            self.site.private.save(number, optimizer.state_arrays(), {})
            self.site.private.prune(checkpoint_rounds(config))
        arrays = module_arrays(self.agent)
        if self.config.client_optimizer == "shared":
            arrays |= with_prefix(optimizer.state_arrays(), OPTIMIZER)
        metrics: dict[str, Any] = {
            "steps": report.steps,
            "imitation-loss": report.imitation_loss,
            "sampled-loss": report.sampled_loss,
            "gradient-norm": report.gradient_norm,
            "decisions": report.decisions,
        }
        return named_reply(arrays, len(samples), metrics)

    def evaluate(
        self, parameters: list[np.ndarray], config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        """Greedy walks on all own validation instructions; means per split and the number of instructions."""
        load_arrays(self.agent, named_arrays(parameters, config))
        self.agent.eval()
        metrics: dict[str, Any] = {}
        total = 0
        for split in VALIDATION:
            scores = [self._score(h, split, bool(config["submission"])) for h in self.site.houses]
            scores = [s for s in scores if s]
            if scores:
                joined = {k: np.concatenate([s[k] for s in scores]) for k in scores[0]}
                metrics |= {f"{split}.{k}": float(v.mean()) for k, v in joined.items()}
                metrics[f"{split}.count"] = len(joined["sr"])
                total += len(joined["sr"])
        return 0.0, total, metrics

    def _optimizer(self, received: Arrays, number: int) -> RMSprop:
        c = self.config
        optimizer = RMSprop(self.agent, c.learning_rate, bias_correction=c.bias_correction)
        if c.client_optimizer == "kept":
            kept = self.site.private.load(number)
            if kept is not None:
                optimizer.load_state_arrays(kept[0])
        elif shared := under_prefix(received, OPTIMIZER):
            optimizer.load_state_arrays(shared)
        return optimizer

    def _score(self, house: House, split: str, submission: bool) -> dict[str, np.ndarray]:
        """Metrics of one house's samples [B] each; {} if it has none."""
        samples = house.samples.get(split, ())
        if not samples:
            return {}
        single = len(self.site.houses) == 1
        world = self.site.world if single else join_houses([house], self.site.world.device)
        visited, views = walk_all(self.agent, world, samples, self.config)
        if submission:
            ids = [[house.graph.viewpoint_ids[p] for p in places] for places in visited]
            rows = zip(samples, ids, views, strict=True)
            file = self.site.folder / f"submission_{split}_{house.graph.scan}.json"
            write_submission(file, [_entry(s.instr_id, p, v) for s, p, v in rows])
        if self.config.trajectory == "published":
            visited = [published_trajectory(p, v) for p, v in zip(visited, views, strict=True)]
        return episode_metrics(house.graph.distance_m, visited, [s.path for s in samples])


def _entry(instr_id: str, viewpoint_ids: Sequence[str], views: Sequence[int]) -> Entry:
    """A walk as the leaderboard wants it: the camera's pose at every viewpoint."""
    poses = (
        (v, (look % HEADINGS) * VIEW_STEP_RAD, (look // HEADINGS - 1) * VIEW_STEP_RAD)
        for v, look in zip(viewpoint_ids, views, strict=True)
    )
    return Entry(instr_id, tuple(poses))
