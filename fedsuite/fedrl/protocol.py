"""What a party answers in a run: the phases of its method, and of each what the message may say.

strategies/two_party.py is the server's side and says what the phases are for. A phase that a method does not have, a field
with another value, arrays of other names, types or shapes: all are refused before anything is computed. What depends on how
far a party has come (which exchange is next, which records it has answered) is in `check_turn`.

Letters as in fedsuite/fedrl/learning/party.py: K envs, U minibatches, B records, A joint actions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedsuite.arrays import LARGEST_COUNT, Arrays, Form, forms_of, range_complaint
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.networks import new_mlp
from fedsuite.fedrl.learning.party import Party
from fedsuite.fedrl.learning.schedule import Schedule
from fedsuite.fedrl.learning.testing import num_envs, plan_of
from fedsuite.fedrl.worlds import IDLE, World
from fedsuite.messages.instructions import (
    YES_NO,
    Allowed,
    Instruction,
    OneOf,
    Rounds,
    Whole,
    refused,
)
from fedsuite.messages.packing import forms_complaint

ALONE = ("train-alone", "imitate", "scores", "close", "rest")
PARTNER = ("propose", "answer", "learn", "look", "close", "rest")
REWARDED = ("act", "learn-first", "choose", "scores", "close", "rest")
LARGEST_MESSAGE = 10**9  # number of a message within its round


def phases_of(config: FedRLConfig, partition: int) -> tuple[str, ...]:
    """The phases that a party of this run has."""
    own = config.federation
    if len(own.roles) == 1:
        learns = {"train-alone": own.explores, "imitate": own.trains and not own.explores}
        return tuple(p for p in ALONE if learns.get(p, True))
    return REWARDED if partition == 0 else PARTNER


@dataclass(frozen=True)
class Protocol:
    """The messages that party `partition` of a run answers."""

    config: FedRLConfig
    world: World
    partition: int

    @property
    def parties(self) -> int:
        return len(self.config.federation.roles)

    def instruction(self, message: Mapping[str, Any]) -> Instruction:
        """The fields that this message may have, by its phase and the round that it is of."""
        most, phases = self.config.num_rounds, phases_of(self.config, self.partition)
        needed: dict[str, Allowed] = {
            "phase": OneOf(phases), "round": Whole(0, most), "checkpoint-rounds": Rounds(most),
            "after-round": Whole(0, most), "message": Whole(0, LARGEST_MESSAGE),
        }  # fmt: skip
        number, phase = message.get("round"), message.get("phase")
        if type(number) is not int or phase not in phases:
            return Instruction(needed)
        # The final tests, and the end, come after the last round.
        first = number if phase == "rest" else max(0, number - 1)
        last = number if phase in ("look", "choose", "scores", "rest") else number - 1
        needed["after-round"] = Whole(first, last)
        return Instruction(needed | self._own_fields(str(phase), number, message))

    def _own_fields(
        self, phase: str, number: int, message: Mapping[str, Any]
    ) -> dict[str, Allowed]:
        """What the phase has beside the round and the message's place in it."""
        learning, envs = self.config.learning, Schedule(self.config).envs
        if phase == "close":
            return {"best": YES_NO}
        if phase == "rest":
            return {}
        if phase == "imitate":
            return {"count": Whole(learning.round_length, learning.round_length)}
        if phase == "train-alone":
            return self._alone(envs)
        if phase in ("look", "choose", "scores"):
            return self._test(number, message, ticks=phase != "scores")
        return {"exchange": Whole(0, int(LARGEST_COUNT) // envs)}

    def _alone(self, envs: int) -> dict[str, Allowed]:
        """A round of a party without partners: as many exchanges as fill it, or until so many episodes have ended."""
        length, first = self.config.learning.round_length, Whole(0, int(LARGEST_COUNT) // envs)
        if self.config.learning.round_unit == "episodes":
            count, episodes = length * self.world.longest, length
        else:
            count, episodes = -(-length // envs), 0
        return {
            "first": first,
            "count": Whole(count, count),
            "most-episodes": Whole(episodes, episodes),
        }

    def _test(self, number: int, message: Mapping[str, Any], ticks: bool) -> dict[str, Allowed]:
        """A validation has the number of its round and no noise unless all tests have; the final tests come after them."""
        kinds = {"none": (False,), "noisy": (True,), "both": (False, True)}
        noise = self.config.privacy.test_noise
        if message.get("split") == "valid":
            noisy: tuple[bool, ...] = (noise == "noisy",)
            draw, best = 4 * number, OneOf((False,))
        else:
            noisy, best = kinds[noise], YES_NO
            draw = 4 * self.config.num_rounds + 1 + (message.get("noisy") is True)
        fields: dict[str, Allowed] = {
            "split": OneOf(("valid", "test")), "noisy": OneOf(noisy), "best": best, "number": Whole(draw, draw)
        }  # fmt: skip
        return fields | ({"tick": Whole(0, self.world.longest - 1)} if ticks else {})

    # --- arrays ----------------------------------------------------------------------------------

    def check_arrays(self, message: Mapping[str, Any], arrays: Arrays) -> None:
        """InputError for other names, types or shapes than the phase has, and for NaN and infinities."""
        complaint = forms_complaint(forms_of(arrays), self.forms(message))
        if complaint := complaint or range_complaint(arrays):
            raise refused(f"{message['phase']} message", "arrays", complaint, "those of its phase")

    def forms(self, message: Mapping[str, Any]) -> dict[str, Form]:
        """Names, types and shapes of what comes with a message."""
        phase, actions = message["phase"], self.world.num_actions
        envs, partners = Schedule(self.config).envs, range(1, self.parties)
        if phase in ("look", "choose"):
            tested = num_envs(self.config, self.world, message["split"])
            if phase == "look":
                return {"actions": ((tested,), "int64")} if message["tick"] else {}
            return {f"q.{p}": ((tested, actions), "float32") for p in partners} | self._mlp
        if phase == "act":
            return {f"q.{p}": ((envs, actions), "float32") for p in partners} | self._mlp
        if phase not in ("answer", "learn-first", "learn"):
            return {}
        rows = (Schedule(self.config).updates(message["exchange"]), self.config.learning.batch_size)
        ids: dict[str, Form] = {"ids": (rows, "int64")}
        block: Form = ((*rows, actions), "float32")
        if phase == "answer":
            return ids | {"actions": ((envs,), "int64"), "episodes": ((envs,), "int64")}
        if phase == "learn-first":
            return ids | {f"{q}.{p}": block for q in ("q", "q-next") for p in partners}
        others = {f"q.{p}": block for p in range(self.parties) if p != self.partition}
        return ids | {"targets": (rows, "float32")} | others | self._mlp

    @cached_property
    def _mlp(self) -> dict[str, Form]:
        state = new_mlp(self.config, self.world.num_actions, "mlp").state_dict()
        return {f"mlp.{k}": (tuple(v.shape), str(v.numpy().dtype)) for k, v in state.items()}


def check_turn(party: Party, message: Mapping[str, Any], arrays: Arrays) -> None:
    """InputError where the party is not where the message takes it to be.

    An exchange is answered once and in its order, gradient steps are on the records that were answered, and a test's ticks
    follow one another: the same noise never goes on two different things.
    """
    phase, done = message["phase"], party.memory.count // party.schedule.envs
    whose = f"{phase} message"
    if phase in ("propose", "act", "answer"):
        _same(whose, "exchange", message["exchange"], done)
        if party.answered is not None:
            raise refused(
                whose, "phase", repr(phase), "the gradient steps on what was answered last"
            )
    elif phase == "train-alone":
        _same(whose, "first", message["first"], done)
    elif phase in ("learn", "learn-first"):
        _same(whose, "exchange", message["exchange"], done - 1)
        if party.answered is None or not np.array_equal(party.answered, arrays["ids"]):
            raise refused(
                whose, "ids", "other records", "those that were answered in this exchange"
            )
    elif phase in ("look", "choose"):
        _check_tick(whose, party, message)
    if phase in ("answer", "look"):
        _check_actions(whose, party, arrays)


def _check_tick(whose: str, party: Party, message: Mapping[str, Any]) -> None:
    """A test's ticks follow one another, from 0; none is played twice."""
    test, plan = party.test, plan_of(message)
    begun = test is not None and test.plan.number == plan.number
    if message["tick"] == 0 and not begun:
        return
    if test is None or test.plan != plan:
        raise refused(whose, "tick", str(message["tick"]), "0, where a test begins")
    _same(whose, "tick", message["tick"], test.tick + (message["phase"] == "look"))


def _check_actions(whose: str, party: Party, arrays: Arrays) -> None:
    """Joint actions are numbers of the world's, or IDLE."""
    actions = arrays.get("actions", np.zeros(0, np.int64))
    if actions.size and not IDLE <= actions.min() <= actions.max() < party.world.num_actions:
        found = f"{actions.min()} to {actions.max()}"
        raise refused(whose, "actions", found, f"{IDLE} to {party.world.num_actions - 1}")


def _same(whose: str, name: str, found: int, expected: int) -> None:
    if found != expected:
        raise refused(whose, name, str(found), str(expected))
