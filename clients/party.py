"""A party of FedRL as a Flower client: unpacks a message, lets the party do its part, packs what may leave it.

What leaves a party is listed in strategies/two_party.py and made here and nowhere else: noised Q-values, ids, targets,
joint actions, the shared MLP, and, from the rewarded party to the run's history, means of rewards and scores.

Messages of a round are numbered. A party lives in the process that answered its last message; a process
that has not seen that message takes the party from disk, where it is written after every message unless the
node says that its process answers all of them (node-config "resident"). Versions that a resume can ask for
are written when a round closes.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient

from clients.numpy_client_app import named_arrays, named_reply
from clients.private_state import PrivateState, checkpoint_rounds
from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.fedrl import alone
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.party import Party
from fedsuite.fedrl.rewarded_party import RewardedParty
from fedsuite.fedrl.testing import TestPlan, num_lanes
from fedsuite.fedrl.worlds import Role, World

TEST, MLP = "test.", "mlp."
Place = tuple[int, int]
Answer = tuple[Arrays, dict[str, float]]


@dataclass
class PartySite:
    """What one node owns. noise_seed: of its own noise, the run's if None.

    party, at: the party in memory, and the (round closed last, message) that it waits for.
    """

    partition: int
    role: Role
    config: FedRLConfig
    world: World
    folder: Path
    resident: bool
    device: str
    noise_seed: int | None = None
    party: Party | None = field(default=None, repr=False)
    at: Place | None = None

    @property
    def private(self) -> PrivateState:
        """Versions by round."""
        return PrivateState(self.folder)

    @property
    def working(self) -> PrivateState:
        """Versions by message of the round in progress."""
        return PrivateState(self.folder / "working")


class PartyClient(NumPyClient):
    """One message at a time."""

    def __init__(self, site: PartySite) -> None:
        self.site = site

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        """Who this is, and the facts that all parties must share; with resume-round, later state is dropped."""
        site, world = self.site, self.site.world
        if "resume-round" in config:
            site.private.rollback(int(config["resume-round"]))
            site.working.rollback(0)
            site.party = site.at = None
        lanes = {f"lanes.{s}": num_lanes(site.config, world, s) for s in ("valid", "test")}
        return {
            "partition": site.partition,
            "name": site.role,
            "num-examples": world.num_episodes("train"),
            "actions": world.num_actions,
            "longest": world.longest,
            "score": world.score,
            **lanes,
            **world.facts,
        }

    def fit(
        self, parameters: list[np.ndarray], config: dict[str, Any]
    ) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        """The part called `phase`."""
        site, phase = self.site, str(config["phase"])
        place = (int(config["after-round"]), int(config["message"]))
        party = self._party_at(place)
        site.at = None  # until all is done, so that an error leaves nothing half changed behind
        arrays, metrics = _Parts(party, named_arrays(parameters, config), config).answer(phase)
        if phase == "close":
            number = int(config["round"])
            site.private.save(number, party.state(), {})
            site.private.prune(checkpoint_rounds(config))
            site.working.rollback(0)
            site.at = (number, 0)
        elif phase == "rest":
            site.working.rollback(0)
            site.party = None
        else:
            self._keep(party, place)
            site.at = (place[0], place[1] + 1)
        return named_reply(arrays, site.world.num_episodes("train"), metrics)

    def _party_at(self, place: Place) -> Party:
        """The party as it waits for this message: from memory, or from disk."""
        site = self.site
        if site.party is not None and site.at == place:
            return site.party
        kind = RewardedParty if site.partition == 0 else Party
        site.party = kind(
            site.config, site.world, site.role, site.partition, site.device, site.noise_seed
        )
        after, message = place
        kept = site.working.load(message + 1) if message else site.private.load(after + 1)
        if message and (kept is None or kept[1]["waits-for"] != [after, message]):
            raise ValueError(
                f"{site.role}: message {message} of round {after + 1} came, but the state before it is gone; "
                "resume the run from its last checkpoint"
            )
        if kept is not None:
            arrays, scalars = kept
            site.party.restore(arrays)
            if "test" in scalars:
                site.party.begin_test(TestPlan(**scalars["test"]))
                assert site.party.test is not None
                site.party.test.restore(under_prefix(arrays, TEST))
        return site.party

    def _keep(self, party: Party, place: Place) -> None:
        if self.site.resident:
            return
        after, message = place[0], place[1] + 1
        arrays = party.state()
        scalars: dict[str, Any] = {"waits-for": [after, message]}
        if party.test is not None:
            arrays |= with_prefix(party.test.state(), TEST)
            scalars |= {"test": dataclasses.asdict(party.test.plan)}
        self.site.working.save(message, arrays, scalars)
        self.site.working.prune([])


class _Parts:
    """The parts of the protocol: message content in, message content out."""

    def __init__(self, party: Party, arrays: Arrays, config: dict[str, Any]) -> None:
        self.party, self.arrays, self.config = party, arrays, config

    def answer(self, phase: str) -> Answer:
        """Carry out a part by its name."""
        parts = {
            "propose": self.propose, "act": self.act, "answer": self.reply,
            "learn-first": self.learn_first, "learn": self.learn, "train-alone": self.train_alone,
            "imitate": self.imitate, "look": self.look, "choose": self.choose,
            "scores": self.scores, "close": self.close, "rest": self.rest,
        }  # fmt: skip
        return parts[phase]()

    # --- training --------------------------------------------------------------------------------

    def propose(self) -> Answer:
        return {"proposal": self.party.propose(self.exchange)}, {}

    def act(self) -> Answer:
        actions, episodes, ids = self.alpha.act(self.exchange, self._blocks("q."), self._mlp())
        ended = {"ended": float((episodes >= 0).sum())}
        return {"actions": actions, "episodes": episodes, "ids": ids}, ended

    def reply(self) -> Answer:
        a = self.arrays
        q, q_next = self.party.answer(self.exchange, a["actions"], a["episodes"], a["ids"])
        return {"q": q, "q-next": q_next}, {}

    def learn_first(self) -> Answer:
        targets, q = self.alpha.learn_first(
            self.exchange, self.arrays["ids"], self._blocks("q."), self._blocks("q-next.")
        )
        return {"targets": targets, "q": q} | with_prefix(self.alpha.shared_mlp(), MLP), {}

    def learn(self) -> Answer:
        a, party = self.arrays, self.party
        mlp = party.learn(self.exchange, a["ids"], a["targets"], self._blocks("q."), self._mlp())
        proposal = {"proposal": party.propose(self.exchange + 1)}
        alternating = party.rules.mlp_updates == "alternating"
        return proposal | (with_prefix(mlp, MLP) if alternating else {}), {}

    def train_alone(self) -> Answer:
        first, count = int(self.config["first"]), int(self.config["count"])
        done = alone.train_alone(self.alpha, first, count, int(self.config["most-episodes"]))
        return {}, {"exchanges": float(done)}

    def imitate(self) -> Answer:
        alone.imitate(self.alpha, int(self.config["round"]), int(self.config["count"]))
        return {}, {}

    def close(self) -> Answer:
        if self.config["best"]:
            self.party.keep_as_best()
        return {}, self.party.report() if isinstance(self.party, RewardedParty) else {}

    def rest(self) -> Answer:
        return {}, {}

    # --- tests -----------------------------------------------------------------------------------

    def look(self) -> Answer:
        if int(self.config["tick"]) == 0:
            self.party.begin_test(self._plan())
        else:
            assert self.party.test is not None
            self.party.test.advance(self.arrays["actions"])
        return {"q": self.party.look()}, {}

    def choose(self) -> Answer:
        if int(self.config["tick"]) == 0:
            self.party.begin_test(self._plan())
        actions = self.alpha.choose(self._blocks("q."), self._mlp())
        assert self.party.test is not None
        return {"actions": actions}, {"active": float(self.party.test.active.sum())}

    def scores(self) -> Answer:
        if self.party.num_parties == 1:
            alone.play_alone(self.alpha, self._plan())
        return {}, self.alpha.scores()

    # --- pieces ----------------------------------------------------------------------------------

    @property
    def exchange(self) -> int:
        return int(self.config["exchange"])

    @property
    def alpha(self) -> RewardedParty:
        if not isinstance(self.party, RewardedParty):
            raise ValueError(f"{self.party.role}: has no rewards, but got a message for alpha")
        return self.party

    def _blocks(self, prefix: str) -> list[np.ndarray]:
        """Arrays called `prefix` + party number, in party order."""
        found = under_prefix(self.arrays, prefix)
        return [found[p] for p in sorted(found, key=int)]

    def _mlp(self) -> Arrays:
        return under_prefix(self.arrays, MLP)

    def _plan(self) -> TestPlan:
        c = self.config
        return TestPlan(c["split"], bool(c["noisy"]), bool(c["best"]), int(c["number"]))
