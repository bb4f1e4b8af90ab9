"""A house as a Flower client that trains an agent on its own data and scores an agent on its validation instructions.

What leaves a house: what its exchange shares (fedsuite.vln.stages.exchange_of), with a shared optimizer its state, with
SCAFFOLD how much its control variates changed; the number of its samples, losses and scores; under privacy of single
instructions the epsilon that it has spent in place of losses. Views, graph, instructions, sampled paths and what the speaker
says about them, trajectories and its own optimizer's state stay; so does what the share does not cover, in pre-exploration
(Zhou & Wang 2022, Algorithm 2) the house's own agent.
"""

from typing import Any

from torch.optim import Optimizer
from torch.utils.data import ConcatDataset

from clients.house_base import HouseClientBase, HouseSite
from clients.numpy_client_app import Config, Parameters, Scored, named_arrays
from clients.side_by_side import aside
from fedsuite.arrays import load_arrays, load_arrays_once
from fedsuite.averaging.gradients import Gradients
from fedsuite.averaging.privacy_settings import EPSILON, EXAMPLE
from fedsuite.privacy.example_level import begin_visit
from fedsuite.randomness import rng_for, torch_generator_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.evaluation.houses import score_houses
from fedsuite.vln.evaluation.joint_walks import Walks
from fedsuite.vln.metrics import as_metrics
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.speaker import Speaker
from fedsuite.vln.stages import learns_from_paths, samples_paths
from fedsuite.vln.training.backdoor import backdoor_of
from fedsuite.vln.training.learner import (
    AgentLessons,
    Training,
    TrainingData,
    train_locally,
    walk_all,
)
from fedsuite.vln.training.private_learner import PrivateLearner
from fedsuite.vln.training.rmsprop import RMSprop
from fedsuite.vln.training.rollout import Tamper


class HouseClient(HouseClientBase):
    """`agent` and `speaker` are shells of the right sizes; their weights are overwritten before every use."""

    def __init__(
        self, site: HouseSite, config: FedVLNConfig, agent: Agent, speaker: Speaker | None = None
    ) -> None:
        super().__init__(site, config)
        self.module = self.agent = agent
        self.speaker = speaker

    def optimizer(self) -> RMSprop:
        """RMSprop of the agent."""
        own = self.config.objective
        return RMSprop(self.agent.parameters(), own.learning_rate, own.bias_correction)

    def train(
        self, optimizer: Optimizer, steps: int, number: int, gradients: Gradients, stream: str
    ) -> dict[str, float]:
        """Steps of the agent on the own data."""
        if self.config.privacy.unit == EXAMPLE:
            return self._train_privately(optimizer, steps, number, gradients, stream)
        tamper = self._tamper(number, stream)
        if self.ask is not None and tamper is None:
            lessons = self.lessons(number, stream)
            return as_metrics(self.ask(Training(lessons, optimizer, steps, gradients)))
        return as_metrics(
            train_locally(
                self.agent,
                optimizer,
                self.site.world,
                self._training_data(),
                self.config,
                steps=steps,
                round=number,
                partition=self.site.partition,
                gradients=gradients,
                stream=stream,
                tamper=tamper,
            )
        )

    def _train_privately(
        self, optimizer: Optimizer, steps: int, number: int, gradients: Gradients, stream: str
    ) -> dict[str, float]:
        """Steps of DP-SGD, which the house's ledger has before the first; nothing else is told of them."""
        own, site, samples = self.config, self.site, self.site.samples("train")
        visit = begin_visit(
            own.privacy, self.private.folder, number, steps, own.objective.batch_size, len(samples),
            lambda: rng_for(own.seed, "private steps" + stream, number, site.partition),
        )  # fmt: skip
        PrivateLearner(self.agent, site.world, samples, own, visit).train(
            optimizer, steps, gradients
        )
        return {"steps": steps, EPSILON: visit.epsilon}

    def lessons(self, number: int, stream: str) -> AgentLessons:
        """Its mini-batches, one by one."""
        visit, parts = (number, self.site.partition), self._training_data()
        tamper = self._tamper(number, stream)
        return AgentLessons(self.agent, self.site.world, parts, self.config, visit, stream, tamper)

    def evaluate(self, parameters: Parameters, config: Config) -> Scored:
        """Greedy walks on all own validation instructions; means per split and the number of instructions.

        keep: nothing is scored, what came is kept; export-round: the own agent of that round is exported, and scored
        unless `score` is false.
        """
        received = named_arrays(parameters, config)
        if config.get("keep"):
            self.keep_received(received)
            return 0.0, 0, {}
        load_arrays_once(self.agent, aside(self.ask, lambda: self.scored(received, config)))
        if not config.get("score", True):
            return 0.0, 0, {}
        site, write = self.site, bool(config.get("write"))
        ask = self.ask
        walk = walk_all if ask is None else lambda *asked: ask(Walks(*asked))
        count, metrics = score_houses(
            self.agent.eval(), site.houses, site.world, site.folder, self.config, write, walk
        )
        return 0.0, count, metrics

    def _tamper(self, number: int, stream: str) -> Tamper | None:
        """What a hostile house does to its own training in a round, None in an honest one."""
        site, c = self.site, self.config
        if not c.sabotage.poisons(site.partition, number):
            return None
        device = str(site.world.device)
        visit = c.seed, f"poisoned decisions{stream}", number, site.partition
        return backdoor_of(c, site.world, c.sabotage.poisoned, torch_generator_for(*visit, device))

    def _training_data(self) -> list[TrainingData]:
        c = self.config
        annotated = TrainingData(self.site.samples("train"), c.objective.teacher_weight)
        if not samples_paths(c, self.site.unseen):
            return [annotated]
        paths: Any = ConcatDataset(list[Any](self.site.sampled))  # made when asked for, not here
        if not paths:
            # A house without such paths reads its instructions twice, as in the official release.
            return [annotated, annotated]
        described = TrainingData(paths, c.objective.generated_weight, self._loaded_speaker())
        return [described] if learns_from_paths(c, self.site.unseen) else [annotated, described]

    def _loaded_speaker(self) -> Speaker:
        stored = self.received_once.load(1)
        if self.speaker is None or stored is None:
            raise self.received_once.missing(0)
        load_arrays(self.speaker, stored[0])
        return self.speaker.eval()
