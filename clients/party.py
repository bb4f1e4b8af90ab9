"""A party of FedRL as a Flower client: unpacks a message, lets the party do its part, packs what may leave it.

What leaves a party is listed in strategies/two_party.py and made in party_parts.py and nowhere else.

Messages of a round are numbered. A party lives in the process that answered its last message; a process that has not seen
that message takes the party from disk, where it is written after every message unless the node says that its process answers
all of them (node-config "resident"). Versions that a resume can ask for are written when a round closes.

A message whose answer was lost comes again and is answered alike: the state before it is kept until the next one comes.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flwr.client import NumPyClient

from clients.numpy_client_app import Config, Fitted, Parameters, named_arrays, named_reply
from clients.party_parts import PartyParts
from fedsuite.arrays import under_prefix, with_prefix
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.own_noise import OwnNoise
from fedsuite.fedrl.learning.party import Party
from fedsuite.fedrl.learning.rewarded_party import RewardedParty
from fedsuite.fedrl.learning.testing import TestPlan, num_envs
from fedsuite.fedrl.protocol import LARGEST_MESSAGE, Protocol, check_turn
from fedsuite.fedrl.worlds import Role, World
from fedsuite.messages.instructions import Instruction, query, refused
from fedsuite.runs.versions import Versions, checkpoint_rounds

TEST, ANSWERED = "test.", "answered"
Place = tuple[int, int]


@dataclass
class PartySite:
    """What one node owns. own_noise: None = noise of the run's seed.

    party, at: the party in memory, and the (round closed last, message) that it waits for.
    """

    partition: int
    role: Role
    config: FedRLConfig
    world: World
    folder: Path
    resident: bool
    device: str
    own_noise: OwnNoise | None = None
    party: Party | None = field(default=None, repr=False)
    at: Place | None = None

    @cached_property
    def protocol(self) -> Protocol:
        """The messages that it answers."""
        return Protocol(self.config, self.world, self.partition)

    @property
    def private(self) -> Versions:
        return Versions(self.folder, self.role)  # by round

    @property
    def working(self) -> Versions:
        return Versions(self.folder / "working", self.role)  # by message of the round in progress


class PartyClient(NumPyClient):
    def __init__(self, site: PartySite) -> None:
        self.site = site

    def instruction(self, kind: str, config: Mapping[str, Any]) -> Instruction:
        """What a message of this kind may say."""
        if kind == "query":
            return query(self.site.config.num_rounds)
        return self.site.protocol.instruction(config)

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        """Who this is, and the facts that all parties must share; with resume-round, later state is dropped."""
        site, world = self.site, self.site.world
        if "resume-round" in config:
            site.private.rollback(int(config["resume-round"]))
            site.working.clear()
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
        received = named_arrays(parameters, config)
        site.protocol.check_arrays(config, received)
        if phase == "rest":
            site.working.clear()
            site.party = site.at = None
            return named_reply({}, site.world.num_episodes("train"), {})
        place = (int(config["after-round"]), int(config["message"]))
        party = self._party_at(place)
        check_turn(party, config, received)
        site.at = None  # until all is done, so that an error leaves nothing half changed behind
        arrays, metrics = PartyParts(party, received, config).answer(phase)
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
        """The party as it waits for this message: from memory, or from disk. A message out of place changes nothing."""
        site = self.site
        if site.party is not None and site.at == place:
            return site.party
        after, message = place
        if not message:
            self._check_beginning(after)
        kept = site.working.load(message + 1) if message else site.private.load(after + 1, after)
        if message and (kept is None or kept[1]["waits-for"] != [after, message]):
            raise ValueError(
                f"{site.role}: message {message} of round {after + 1} came, but the state before it is gone; "
                "resume the run from its last checkpoint"
            )
        kind = RewardedParty if site.partition == 0 else Party
        party = kind(
            site.config, site.world, site.role, site.partition, site.device, site.own_noise
        )
        if kept is not None:
            arrays, scalars = kept
            party.restore(arrays)
            party.answered = arrays.get(ANSWERED)
            if "test" in scalars:
                party.begin_test(TestPlan(**scalars["test"]))
                assert party.test is not None
                party.test.restore(under_prefix(arrays, TEST))
        site.party, site.at = party, place
        return party

    def _check_beginning(self, after: int) -> None:
        """InputError for message 0 of a round that is closed or has got further: only a resume goes back, and says so."""
        site = self.site
        if newer := [r for r in site.private.rounds() if r > after]:
            closed = f"{newer[-1]}, the last round that was closed"
            raise refused(site.role, "after-round", str(after), closed)
        kept = site.working.load(LARGEST_MESSAGE)
        for began, waits in [site.at or (0, 0), kept[1]["waits-for"] if kept else (0, 0)]:
            if began == after and waits > 1:
                raise refused(site.role, "message", "0", str(waits))

    def _keep(self, party: Party, place: Place) -> None:
        if self.site.resident:
            return
        after, message = place[0], place[1] + 1
        if message == 1:
            self.site.working.clear()
        arrays = party.state()
        if party.answered is not None:
            arrays[ANSWERED] = party.answered
        scalars: dict[str, Any] = {"waits-for": [after, message]}
        if party.test is not None:
            arrays |= with_prefix(party.test.state(), TEST)
            scalars |= {"test": dataclasses.asdict(party.test.plan)}
        self.site.working.save(message, arrays, scalars)
        self.site.working.prune([message - 1])
