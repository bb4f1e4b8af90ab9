"""A driving silo that shows its backbone to its neighbours alone: it seals it for them, and mixes what they seal for it.

What leaves it: a box of its trained backbone for each neighbour (fedsuite/privacy/sealing.py), and in the clear the number
of its frames, losses and errors, and how many neighbours' models it has clipped. Its backbones are on its own disk: in
<private>/sealed-trained/ the one that it has trained last, in <private>/sealed-mixed/ those after mixing, by round.

Nobody but the receiver can look at a neighbour's numbers, so the receiver does: it refuses what it cannot open, and NaN,
infinity and numbers above 1e6, with the sender's number.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.client import NumPyClient

from clients.numpy_client_app import (
    NAMES,
    Config,
    Fitted,
    Parameters,
    Scored,
    named_arrays,
    named_reply,
)
from clients.sealed_keys import SealedKeys
from clients.sum_messages import Numbers
from clients.vehicle import VehicleClient
from fedsuite.arrays import Arrays, Form, forms_of, range_complaint, with_prefix
from fedsuite.driving.message_keys import BOXES, CLIPPED, MIX, OWN, PRESENT, SEALED_MIXED
from fedsuite.driving.topology.mixing_matrix import MixingSchedule
from fedsuite.driving.topology.own_mixing import mixed_here, others
from fedsuite.driving.topology.robust_mixing import MIXING_RULES, MixingLimits
from fedsuite.messages.instructions import Instruction, OneOf, task
from fedsuite.privacy.sealing import KEYS, PEERS, STAGE, packed, sealed_bytes, unpacked
from fedsuite.privacy.sum_terms import numbers_in
from fedsuite.runs.versions import Versions, checkpoint_rounds

TRAINED = "sealed-trained"


class SealedVehicle(NumPyClient):
    """inner: the silo itself, one of them; schedule: who mixes with whom, which it knows without the server."""

    def __init__(
        self, inner: VehicleClient, keys: SealedKeys, schedule: Callable[[], MixingSchedule]
    ) -> None:
        self.inner, self.keys, self.schedule = inner, keys, schedule
        site = inner.site
        (self.silo,) = site.numbers
        self.mixed = Versions(site.private.folder / SEALED_MIXED, site.name)
        self.trained = Versions(site.private.folder / TRAINED, site.name)
        self.initial = {k: v[None] for k, v in site.initial.items() if k in site.names.mixed}
        self.forms: dict[str, Form] = forms_of(self.initial)

    def instruction(self, kind: str, config: Mapping[str, Any]) -> Instruction:
        """What a message of this kind may say."""
        rounds = self.inner.config.num_rounds
        if kind == "train" and (own := self.keys.instruction(config, rounds)):
            return own
        if kind == "train" and STAGE in config:
            present = Numbers(self.schedule().num_silos)
            return task(rounds, {STAGE: OneOf((MIX,)), PRESENT: present})
        return self.inner.instruction(kind, config)

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        """Who this is; with resume-round, backbones of later rounds have not been."""
        if "resume-round" in config:
            for kept in (self.mixed, self.trained):
                kept.rollback(int(config["resume-round"]))
        return self.inner.get_properties(config)

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """Keys, local updates, or mixing."""
        stage = config.get(STAGE)
        if stage in (KEYS, PEERS):
            reply = self.keys.fit(parameters, config)
            if stage == PEERS:
                self.mixed.save(0, self.initial, {})
            return reply
        if stage == MIX:
            return self._mix(named_arrays(parameters, config), config)
        number, mixing = int(config["round"]), int(config["first-mixing"])
        start = self._backbone(number)
        asked = {**config, NAMES: "\n".join(start)}
        sent, examples, metrics = self.inner.fit([*start.values()], asked)
        model = named_arrays(sent, {NAMES: metrics.pop(NAMES)})
        self.trained.save(number, model, {})
        self.trained.prune([])
        sealer, message = self.keys.sealer, packed(model)
        boxes = [
            np.frombuffer(sealer.seal(to, number, _place(mixing), message), np.uint8)
            for to in others(self.schedule().matrix(mixing)[:, self.silo], self.silo)
        ]
        return named_reply({BOXES: self._table(boxes)}, examples, metrics)

    def evaluate(self, parameters: Parameters, config: Config) -> Scored:
        """Its own backbone on its own test frames; no average model exists."""
        own = with_prefix(self._backbone(int(config["round"]) + 1), OWN)
        return self.inner.evaluate([*own.values()], {**config, NAMES: "\n".join(own)})

    def _mix(self, arrays: Arrays, config: Config) -> Fitted:
        """The step of this round, among those who have answered."""
        number, present = int(config["round"]), numbers_in(config[PRESENT])
        schedule, mixing = self.schedule(), number - 1
        if self.silo not in present:
            self.keys.refuse(PRESENT, config[PRESENT], f"{self.silo} among them, which is asked")
        if self.trained.newest(number + 1) != number:
            self.keys.refuse("round", number, "one in which this silo has trained")
        here = np.isin(np.arange(schedule.num_silos), present)
        a = schedule.matrix_among(mixing, here)
        neighbours, boxes = others(a[self.silo], self.silo), arrays.get(BOXES, np.zeros(0))
        if boxes.shape != (expected := (len(neighbours), self._size)):
            self.keys.refuse(BOXES, boxes.shape, expected)
        stored = self.trained.load(number + 1)
        assert stored is not None
        models = {j: self._opened(j, number, b) for j, b in zip(neighbours, boxes, strict=True)}
        models[self.silo] = stored[0]
        own = self.inner.config.federation
        limits = MixingLimits(own.clip_ratio, own.tolerated)
        before, rule = self._backbone(number), MIXING_RULES[own.merge]
        mixed, cut = mixed_here(self.silo, before, models, a, rule, limits)
        self.mixed.save(number, mixed, {})
        self.mixed.prune(checkpoint_rounds(config))
        return named_reply({}, 0, {CLIPPED: cut})

    def _opened(self, sender: int, number: int, box: np.ndarray) -> Arrays:
        """A neighbour's trained backbone."""
        place = _place(number - 1)
        model = unpacked(self.keys.opened(sender, number, place, box), self.forms)
        if complaint := range_complaint(model):
            self.keys.refuse(f"{place} of member {sender}", complaint, "finite numbers up to 1e6")
        return model

    def _backbone(self, before_round: int) -> Arrays:
        """As it was after the last mixing before this round."""
        kept = self.mixed.load(before_round)
        if kept is None:
            raise self.mixed.missing(0)
        return kept[0]

    @property
    def _size(self) -> int:
        return sealed_bytes(self.forms)

    def _table(self, boxes: list[np.ndarray]) -> np.ndarray:
        return np.stack(boxes) if boxes else np.zeros((0, self._size), np.uint8)


def _place(mixing: int) -> str:
    return f"backbone of mixing {mixing}"
