"""A party of FedRL as a Flower client: unpacks a message, lets the party do its part, packs what may leave it.

What leaves a party is listed in strategies/two_party.py and made in party_parts.py and nowhere else.

Messages of a round are numbered. A party lives in the process that answered its last message; a process that has not seen
that message takes the party from disk, where it is written after every message unless the node says that its process answers
all of them (node-config "resident"). Versions that a resume can ask for are written when a round closes.

A message whose answer was lost comes again and is answered alike: the state before it is kept until the next one comes.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.client import NumPyClient

from clients.numpy_client_app import Config, Fitted, Parameters, named_arrays, named_reply
from clients.party_parts import PartyParts
from fedsuite.arrays import under_prefix, with_prefix
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.party import Party
from fedsuite.fedrl.learning.rewarded_party import RewardedParty
from fedsuite.fedrl.learning.testing import TestPlan, num_envs
from fedsuite.fedrl.worlds import Role, World
from fedsuite.versions import Versions, checkpoint_rounds

TEST = "test."
Place = tuple[int, int]


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
    def private(self) -> Versions:
        return Versions(self.folder, self.role)  # by round

    @property
    def working(self) -> Versions:
        return Versions(self.folder / "working", self.role)  # by message of the round in progress


class PartyClient(NumPyClient):
    def __init__(self, site: PartySite) -> None:
        self.site = site

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        """Who this is, and the facts that all parties must share; with resume-round, later state is dropped."""
        site, world = self.site, self.site.world
        if "resume-round" in config:
            site.private.rollback(int(config["resume-round"]))
            site.working.rollback(0)
            site.party = site.at = None
        envs = {f"envs.{s}": num_envs(site.config, world, s) for s in ("valid", "test")}
        return {
            "partition": site.partition,
            "name": site.role,
            "num-examples": world.num_episodes("train"),
            "actions": world.num_actions,
            "longest": world.longest,
            "score": world.score,
            **envs,
            **world.facts,
        }

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """The part called `phase`."""
        site, phase = self.site, str(config["phase"])
        if phase == "rest":
            site.working.rollback(0)
            site.party = site.at = None
            return named_reply({}, site.world.num_episodes("train"), {})
        place = (int(config["after-round"]), int(config["message"]))
        party = self._party_at(place)
        site.at = None  # until all is done, so that an error leaves nothing half changed behind
        arrays, metrics = PartyParts(party, named_arrays(parameters, config), config).answer(phase)
        if phase == "close":
            number = int(config["round"])
            site.private.save(number, party.state(), {})
            site.private.prune(checkpoint_rounds(config))
            site.at = (number, 0)
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
        kept = site.working.load(message + 1) if message else site.private.load(after + 1, after)
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
        if message == 1:
            self.site.working.rollback(0)
        arrays = party.state()
        scalars: dict[str, Any] = {"waits-for": [after, message]}
        if party.test is not None:
            arrays |= with_prefix(party.test.state(), TEST)
            scalars |= {"test": dataclasses.asdict(party.test.plan)}
        self.site.working.save(message, arrays, scalars)
        self.site.working.prune([message - 1])
