"""Who takes part in a run, as the server knows it without any data: names in order, roles, sizes, common facts.

Whoever has the data writes a roster (`System.prepare`; in a deployment the operator): one JSON file, which the server
reads in place of data and every client reads to find its own place.

    {"members": [{"name": "oak", "role": "seen", "examples": 18, "details": {"houses": ["oak"]}}, ...],
     "facts": {"feature-size": 64, ...}, "words": ["<PAD>", ...]}

A member's place in the list is its partition. role: seen, unseen or test (houses), silo, alpha, beta or gamma (parties).
key: fingerprint of the node's public key as `ssh-keygen -lf KEY.pub` prints it, SHA256:...; empty if the name is not bound
to a key. Only the server needs it.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fedsuite.errors import InputError, one_line
from fedsuite.settings.values import shown
from fedsuite.storage.files import check_readable, parsed_json, path_name, write_json

T = TypeVar("T", int, str)
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_KINDS: Mapping[type, str] = {int: "whole numbers >= 0", str: "texts"}
MOST = 2**53  # that a number of a roster can be: floats count no further
ROSTER, VOCABULARY = "roster.json", "vocabulary.json"  # in a run folder
CONTENT = "content"  # a fact: digest of what the data's files hold, by what they are; a resumed run is held to it


@dataclass(frozen=True)
class Member:
    """One client. name: fit for its private folder (`fedsuite.storage.files.path_name`); examples: training samples held.

    details: what the system's two halves must agree on, JSON values.
    """

    name: str
    role: str
    examples: int
    details: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""

    def listed(self, key: str, kind: type[T]) -> list[T]:
        """A detail that is a list of one kind; InputError if it is none."""
        found = self.details.get(key)
        if not isinstance(found, list | tuple) or not all(_is_of(value, kind) for value in found):
            raise InputError(
                f"roster: {self.name}: details must hold {key}, a list of {_KINDS[kind]}, got {shown(found)}; "
                f"have it made anew where the data are"
            )
        return list(found)

    def names(self, key: str) -> list[str]:
        """A detail that lists names fit for files."""
        return [path_name(n, f"roster: {self.name}: one of {key}") for n in self.listed(key, str)]


@dataclass(frozen=True, eq=False)
class Roster:
    """members: by partition; facts: sizes that all have in common; words: the vocabulary, () where there is none."""

    members: tuple[Member, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what server and nodes must have in common: members without their keys, facts but CONTENT, and words."""
        content = json.loads(json.dumps(asdict(self)))
        content["facts"].pop(CONTENT, None)
        for member in content["members"]:
            del member["key"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def fact(self, key: str, kind: type[T]) -> T:
        """What all have in common; InputError if it is not there or of another kind."""
        found: Any = self.facts.get(key)
        if not _is_of(found, kind):
            raise InputError(
                f"roster: facts must hold {key}, one of {_KINDS[kind]}, got {shown(found)}; "
                "have it made anew where the data are"
            )
        return kind(found)

    def partition_of(self, name: str) -> int:
        """The place of a member; InputError if it is none."""
        if name not in self.names:
            raise InputError(f"{name!r} is not on the roster; expected one of {self.names}")
        return self.names.index(name)


def _is_of(value: object, kind: type) -> bool:
    """Whether it is a text, or a whole number from 0 to MOST, as `kind` asks."""
    return type(value) is kind and not (isinstance(value, int) and not 0 <= value <= MOST)


def roster_of(names: Sequence[str], counts: Sequence[int], role: str = "client") -> Roster:
    """Clients of one kind by partition, and how many examples each trains on."""
    return Roster(tuple(Member(n, role, c) for n, c in zip(names, counts, strict=True)))


def write_roster(file: Path, roster: Roster) -> None:
    write_json(file, asdict(roster))


def read_roster(file: Path) -> Roster:
    """Read and check a roster; InputError names the file and what is wrong."""
    check_readable(file, "a roster")
    try:
        raw = parsed_json(file.read_text(encoding="utf-8"))
        members = tuple(Member(**member) for member in raw["members"])
        if not isinstance(raw["words"], list):
            raise TypeError("words must be a list")
        roster = Roster(members, dict(raw["facts"]), tuple(raw["words"]))
    except FileNotFoundError:
        raise InputError(f"{file}: no such roster; whoever prepares the data writes one") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{file}: no roster ({type(error).__name__}: {one_line(str(error), 200)}); expected members, facts and words"
        ) from None
    if complaint := _complaint(roster):
        raise InputError(f"{file}: {complaint}")
    for name in roster.names:
        path_name(name, f"{file}: a member's name")
    return roster


def _complaint(roster: Roster) -> str:
    if not roster.members:
        return "lists nobody; give at least one member"
    for member in roster.members:
        typed = isinstance(member.name, str) and isinstance(member.role, str)
        if not (typed and member.name.strip() == member.name and member.name):
            name, role = (one_line(repr(x), 100) for x in (member.name, member.role))
            return f"a member's name and role must be texts, got {name} and {role}"
        if not _is_of(member.examples, int):
            return f"{member.name}: examples must be a whole number >= 0, got {one_line(repr(member.examples), 100)}"
        if not (isinstance(member.details, dict) and isinstance(member.key, str)):
            return f"{member.name}: details must be a table and key a text, got {shown(member.details)}, {shown(member.key)}"
        if member.key and not _FINGERPRINT.fullmatch(member.key):
            return f"{member.name}: key must be SHA256:... as `ssh-keygen -lf KEY.pub` prints it, got {shown(member.key)}"
    keys = [member.key for member in roster.members if member.key]
    if len(set(keys)) < len(keys):
        return f"key {max(keys, key=keys.count)} is bound to two members; each node has its own"
    if not all(isinstance(word, str) for word in roster.words):
        return "words must be texts"
    twice = sorted(name for name, times in Counter(roster.names).items() if times > 1)
    return f"{twice[0]} stands in it twice; names must differ" if twice else ""
