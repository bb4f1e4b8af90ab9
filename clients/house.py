"""A house as a Flower client that trains an agent on its own data and scores an agent on its validation instructions.

What leaves a house: the arrays that its stage and method share (fedsuite.vln.stages.share_of), the number of its
samples, losses and scores. Views, graph, instructions, sampled paths and what the speaker says about them,
trajectories and the optimizer's state stay; so does the house's own agent in pre-exploration (Zhou & Wang 2022,
Algorithm 2).
"""

from typing import Any

from torch.utils.data import ConcatDataset

from clients.house_base import AGENT, HouseClientBase, HouseSite, optimizer_state
from clients.numpy_client_app import Config, Fitted, Parameters, Scored, named_arrays
from fedsuite.arrays import (
    Arrays,
    arrays_to_bytes,
    load_arrays,
    module_arrays,
    non_finite,
    under_prefix,
    with_prefix,
)
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.storage.files import write_atomically
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.evaluation.houses import score_houses
from fedsuite.vln.message_keys import OPTIMIZER, SPEAKER
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.speaker import Speaker
from fedsuite.vln.stages import describes_paths, is_personal, share_of
from fedsuite.vln.start import MODEL, checked_arrays, house_model
from fedsuite.vln.training.learner import TrainingData, train_locally
from fedsuite.vln.training.rmsprop import RMSprop


class HouseClient(HouseClientBase):
    """`agent` and `speaker` are shells of the right sizes; their weights are overwritten before every use."""

    def __init__(
        self, site: HouseSite, config: FedVLNConfig, agent: Agent, speaker: Speaker | None = None
    ) -> None:
        super().__init__(site, config)
        self.agent, self.speaker = agent, speaker

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """`steps` optimizer steps from the server's agent, or from the own one with what the server merges put in."""
        received, number = named_arrays(parameters, config), int(config["round"])
        kept = self.kept_to_train(number, config)
        sent = {k: v for k, v in received.items() if not k.startswith((OPTIMIZER, CONTROL))}
        load_arrays(self.agent, {**under_prefix(kept, AGENT), **sent})
        self.agent.train()
        c = self.config
        optimizer = RMSprop(
            self.agent.parameters(), c.objective.learning_rate, c.objective.bias_correction
        )
        self.restore(self.agent, optimizer, kept, received)
        correction = self.correction(received, kept)
        report = train_locally(
            self.agent,
            optimizer,
            self.site.world,
            self._training_data(),
            c,
            steps=int(config["steps"]),
            round=number,
            partition=self.site.partition,
            correction=correction,
        )
        arrays = share_of(c).select(module_arrays(self.agent))
        if c.federation.client_optimizer == "shared":
            arrays |= optimizer_state(self.agent, optimizer)
        return self.answer(number, config, self.agent, optimizer, arrays, report, correction)

    def evaluate(self, parameters: Parameters, config: Config) -> Scored:
        """Greedy walks on all own validation instructions; means per split and the number of instructions.

        keep: nothing is scored, what came is kept; export-round: the own agent of that round is exported and scored.
        """
        received, number = named_arrays(parameters, config), int(config["round"])
        if config.get("keep"):
            self._keep_received_once(received)
            return 0.0, 0, {}
        own: Arrays = {}
        wanted = int(config.get("export-round", number))
        if is_personal(self.config):
            kept = self.kept_after(wanted, number, int(config.get("last-trained", 0)))
            own = under_prefix(kept, AGENT)
        if bad := non_finite(own):
            raise ValueError(
                f"{self.site.name}: its own agent of round {wanted} holds NaN or infinity in {bad[0]}; start the run "
                "again under another name, with a lower objective.learning-rate"
            )
        load_arrays(self.agent, {**own, **received})
        if "export-round" in config:
            write_atomically(self.site.folder / MODEL, arrays_to_bytes(own), private=True)
            if not self.site.unseen:
                return 0.0, 0, {}
        site, write = self.site, bool(config.get("write"))
        count, metrics = score_houses(
            self.agent.eval(), site.houses, site.world, site.folder, self.config, write
        )
        return 0.0, count, metrics

    def _training_data(self) -> list[TrainingData]:
        c = self.config
        annotated = TrainingData(self.site.samples("train"), c.objective.teacher_weight)
        if not describes_paths(c) or (c.stage == "pre-explore" and not self.site.unseen):
            return [annotated]
        paths: Any = ConcatDataset(list[Any](self.site.sampled))  # made when asked for, not here
        if not paths:
            # A house without such paths reads its instructions twice, as in the official release.
            return [annotated, annotated]
        described = TrainingData(paths, c.objective.generated_weight, self._loaded_speaker())
        return [annotated, described] if c.stage == "augment" else [described]

    def _loaded_speaker(self) -> Speaker:
        stored = self.received_once.load(1)
        if self.speaker is None or stored is None:
            raise self.received_once.missing(0)
        load_arrays(self.speaker, stored[0])
        return self.speaker.eval()

    def _keep_received_once(self, received: Arrays) -> None:
        """The speaker, and in pre-exploration the agent to start from: sent, or the own one of an earlier run."""
        if speaker := under_prefix(received, SPEAKER):
            self.received_once.save(0, speaker, {})
        if is_personal(self.config):
            own = house_model(self.config, self.site.name)
            sent = {k: v for k, v in received.items() if not k.startswith(SPEAKER)}
            shapes = {k: tuple(v.shape) for k, v in self.agent.state_dict().items()}
            arrays = checked_arrays(own, "start-from", shapes) if own else sent
            self.site.private.save(0, with_prefix(arrays, AGENT), {})
