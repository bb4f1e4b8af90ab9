"""What each node says of itself for the roster, and the roster that these make: for operators that see nobody's data.

A part is a JSON file that a node's operator writes (`fedsuite data prepare-node`) and may read before handing it on:

    {"system": "fedvln",
     "member": {"name": "oak", "role": "seen", "examples": 18, "details": {"houses": ["oak"]}, "key": ""},
     "facts": {"feature-size": 64}, "largest": {}, "numbered": "numbers", "counted": "", "words": [["left", 12]]}
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, one_line
from fedsuite.roster.members import MOST, Member, Roster
from fedsuite.settings.values import shown
from fedsuite.storage.files import read_object, telling, write_json

_SAME = "prepare the nodes with the same run and the same kind of data"
_CURE = "have `fedsuite data prepare-node` write it anew where the data are"


@dataclass(frozen=True)
class Part:
    """One member, and what it needs from the others.

    facts: equal in all parts; alike: equal in all parts, too, and of no use afterwards; cures: what to do where one of these
    differs; largest: facts of which the largest counts; numbered: a detail that becomes the member's place
    in the list; counted: a fact that becomes the number of members; words: uses of words in its training instructions, in
    order of first appearance, None where it does not say.
    """

    system: str
    member: Member
    facts: Mapping[str, Any] = field(default_factory=dict)
    largest: Mapping[str, float] = field(default_factory=dict)
    numbered: str = ""
    counted: str = ""
    words: Mapping[str, int] | None = None
    alike: Mapping[str, str] = field(default_factory=dict)
    cures: Mapping[str, str] = field(default_factory=dict)


def write_part(file: Path, part: Part) -> None:
    write_json(file, as_json(part))


def as_json(part: Part) -> dict[str, Any]:
    """A part as JSON values; words as a list, for JSON files here are sorted by key."""
    words = None if part.words is None else [list(pair) for pair in part.words.items()]
    return asdict(part) | {"words": words}


def read_part(file: Path) -> Part:
    """Read and check a part; what is in its member `join` checks. InputError names the file and what is wrong."""
    raw = read_object(file, "what a node says for the roster", _CURE)
    try:
        words = raw["words"] if raw.get("words") is None else {w: n for w, n in raw["words"]}
        part = Part(**raw | {"member": Member(**raw["member"]), "words": words})
        counts = (words or {}).items()
        if not all(isinstance(w, str) and type(n) is int and 0 < n <= MOST for w, n in counts):
            raise ValueError("words must be pairs of a text and its uses")
        tables = {"facts": part.facts, "largest": part.largest, "details": part.member.details}
        tables |= {"alike": part.alike, "cures": part.cures}
        texts = {"system": part.system, "numbered": part.numbered, "counted": part.counted}
    except (KeyError, TypeError, ValueError) as error:
        why = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(f"{file}: not what a node says for the roster ({why}); {_CURE}") from None
    for kind, found in ((dict, tables), (str, texts)):
        for key, value in found.items():
            if not isinstance(value, kind):
                what = "a table" if kind is dict else "text"
                raise InputError(f"{file}: {key} must be {what}, got {shown(value)}; {_CURE}")
    for key, number in part.largest.items():
        if type(number) not in (int, float) or not 0 <= number <= MOST:
            raise InputError(f"{file}: {key} must be a number, got {shown(number)}; {_CURE}")
    return part


def join(parts: Mapping[str, Part], words: Sequence[str] = ()) -> Roster:
    """The roster of these parts (by file, for complaints), in their order; InputError where they do not go together."""
    first, *_ = parts.values()
    source = next(iter(parts))
    members, largest = [], dict[str, Any]()
    for number, (file, part) in enumerate(parts.items()):
        if part.system != first.system:
            raise InputError(
                f"{file}: of {part.system}, but {source} is of {first.system}; leave one out"
            )
        own, theirs = {**part.facts, **part.alike}, {**first.facts, **first.alike}
        for key in (*sorted({*part.facts, *first.facts}), *sorted({*part.alike, *first.alike})):
            if own.get(key) != theirs.get(key):
                raise InputError(
                    f"{file}: {key} is {shown(own.get(key))}, in {source} it is {shown(theirs.get(key))}; it must be the "
                    f"same in all: {part.cures.get(key, _SAME)}"
                )
        largest |= {k: max(v, largest.get(k, v)) for k, v in part.largest.items()}
        own_number = {part.numbered: [number]} if part.numbered else {}
        members.append(replace(part.member, details={**part.member.details, **own_number}))
    counted = {first.counted: len(parts)} if first.counted else {}
    return Roster(tuple(members), {**first.facts, **largest, **counted}, tuple(words))


def extended(roster: Roster, part: Part, source: str) -> Roster:
    """A roster with one more member at its end, whose words it keeps; InputError where the member does not go with it."""
    own = part.member
    if own.name in roster.names:
        raise InputError(f"{source}: {own.name} is on the roster already; nothing is to be added")
    for key in sorted(part.facts):
        here, there = part.facts[key], roster.facts.get(key)
        if json.dumps(here) != json.dumps(there):
            raise InputError(
                f"{source}: {key} is {shown(here)}, on the roster it is {shown(there)}; it must be the same in all: prepare "
                "the node with the run that the roster was made for"
            )
    number = {part.numbered: [len(roster)]} if part.numbered else {}
    member = replace(own, details={**own.details, **number})
    largest = {k: max(v, roster.facts.get(k, v)) for k, v in part.largest.items()}
    counted = {part.counted: len(roster) + 1} if part.counted else {}
    return replace(
        roster, members=(*roster.members, member), facts={**roster.facts, **largest, **counted}
    )


def total_words(parts: Mapping[str, Part]) -> dict[str, int]:
    """Uses of every word over all parts, in order of first appearance; InputError for a part that does not say."""
    total: dict[str, int] = {}
    for file, part in parts.items():
        if part.words is None:
            raise InputError(
                f"{file}: says no words; give a vocabulary with --vocabulary, or have the node count its words "
                "(prepare-node --count-words)"
            )
        for word, count in part.words.items():
            total[word] = total.get(word, 0) + count
    return total


def fingerprint_of(file: Path) -> str:
    """SHA256:... of a public key in OpenSSH's form, as `ssh-keygen -lf` prints it."""
    with telling(file):
        fields = file.read_text(encoding="utf-8", errors="replace").split()
    try:
        blob = base64.b64decode(fields[1], validate=True)
    except (IndexError, ValueError):
        blob = b""
    if not blob or not fields[0].startswith("ecdsa-sha2-"):
        raise InputError(
            f"{file}: no public key of an elliptic curve in OpenSSH's form (ecdsa-sha2-... AAAA...); give the .pub file "
            "that was registered for this SuperNode"
        )
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def disagreement(part: Part, roster: Roster) -> str:
    """What a node says that its roster says otherwise, as one line with the cure; "" if it is the same."""
    own = part.member
    listed = roster.members[roster.partition_of(own.name)]
    pairs = [("role", own.role, listed.role), ("examples", own.examples, listed.examples)]
    pairs += [(k, v, listed.details.get(k)) for k, v in own.details.items() if k != part.numbered]
    pairs += [(k, v, roster.facts.get(k)) for k, v in part.facts.items()]
    known = [(k, v, roster.facts.get(k)) for k, v in part.largest.items()]
    pairs += [(k, v, largest) for k, v, largest in known if v > (largest or 0)]
    for key, here, there in pairs:
        if json.dumps(here) != json.dumps(there):
            return (
                f"{own.name}: {key} is {shown(here)} here, {shown(there)} on the roster; give it the data that the roster "
                "was made with, or have the roster made anew"
            )
    return ""
