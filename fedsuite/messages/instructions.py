"""What a client answers: by kind of message, the fields that its config may have and the values of each.

A server is another party's program and may say anything. A client compares a message with its own table before it computes
or writes anything, and answers what is not in the table with an error that names the field.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from fedsuite.errors import InputError, one_line

MOST_ROUNDS = 64  # that a message may list; a server keeps three checkpoints


class Allowed(Protocol):
    """The values of one field. `str` of it ends the sentence "expected ..."."""

    def holds(self, value: object) -> bool:
        """Whether a client takes this value."""


@dataclass(frozen=True)
class Whole:
    """Whole numbers from `least` to `most`; True and False are none."""

    least: int
    most: int

    def holds(self, value: object) -> bool:
        return type(value) is int and self.least <= value <= self.most

    def __str__(self) -> str:
        only = f"a whole number from {self.least} to {self.most}"
        return str(self.least) if self.least == self.most else only


@dataclass(frozen=True)
class Above:
    """Finite numbers above `least`."""

    least: float

    def holds(self, value: object) -> bool:
        return type(value) is float and self.least < value < math.inf

    def __str__(self) -> str:
        return f"a number above {self.least:g}"


@dataclass(frozen=True)
class OneOf:
    """These values, of their own types: 1 is not True."""

    values: tuple[Any, ...]

    def holds(self, value: object) -> bool:
        return any(type(value) is type(own) and value == own for own in self.values)

    def __str__(self) -> str:
        return " or ".join(map(repr, self.values))


@dataclass(frozen=True)
class Rounds:
    """Rounds from 0 to `most`, ascending, as "0,4,5"."""

    most: int

    def holds(self, value: object) -> bool:
        if not isinstance(value, str) or not re.fullmatch(r"\d{1,12}(,\d{1,12})*", value, re.ASCII):
            return False
        rounds = [int(number) for number in value.split(",")]
        return (
            rounds == sorted(set(rounds)) and rounds[-1] <= self.most and len(rounds) <= MOST_ROUNDS
        )

    def __str__(self) -> str:
        return f"at most {MOST_ROUNDS} ascending rounds from 0 to {self.most}, with commas between them"


@dataclass(frozen=True)
class Text:
    """Any text of at most `most` characters."""

    most: int = 200

    def holds(self, value: object) -> bool:
        return isinstance(value, str) and len(value) <= self.most

    def __str__(self) -> str:
        return f"a text of at most {self.most} characters"


YES_NO = OneOf((True, False))
Fields = Mapping[str, Allowed]
NO_FIELDS: Fields = {}


@dataclass(frozen=True)
class Instruction:
    """One kind of message. needed: fields that it must have; optional: fields that it may have."""

    needed: Fields = field(default_factory=dict)
    optional: Fields = field(default_factory=dict)

    @cached_property
    def _known(self) -> Fields:
        return {**self.optional, **self.needed}

    def check(self, config: Mapping[str, Any], whose: str) -> None:
        """InputError, which starts with `whose`, for the first field that is missing, unknown, or has another value."""
        known = self._known
        if missing := sorted(self.needed.keys() - config.keys()):
            raise refused(whose, missing[0], "missing", known[missing[0]])
        for name in sorted(known.keys() & config.keys()):
            if not known[name].holds(config[name]):
                raise refused(whose, name, one_line(repr(config[name]), 60), known[name])
        if unknown := sorted(config.keys() - known.keys()):
            raise refused(whose, one_line(unknown[0], 60), "unknown", _listed(known))


def refused(whose: str, name: str, found: str, expected: object) -> InputError:
    """What a client answers to a message that its run does not have."""
    return InputError(
        f"{whose}: the server's message has {name} = {found}, expected {expected}; nothing was computed, see to the server"
    )


def query(num_rounds: int) -> Instruction:
    """Who are you; with the round that the run goes on from, to which private state is rolled back."""
    facts = {name: Text() for name in ("roster", "version", "flwr", "run-key")}
    return Instruction({"resume-round": Whole(0, num_rounds)}, facts)


def task(num_rounds: int, needed: Fields = NO_FIELDS, optional: Fields = NO_FIELDS) -> Instruction:
    """A task of the round loop: the round, what a resume can ask for, the client's last training, and fields of its own."""
    rounds = Whole(0, num_rounds)
    told: Fields = {"round": rounds, "checkpoint-rounds": Rounds(num_rounds)}
    known: Fields = {"last-trained": rounds, "best-round": rounds}
    return Instruction({**told, **needed}, {**known, **optional})


def _listed(known: Collection[str]) -> str:
    return f"no field but {', '.join(sorted(known))}"
