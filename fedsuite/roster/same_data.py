"""Whether a run that is resumed has the data that it was begun with: its stored roster beside the one of the data at hand.

Compared are members, their sizes, words and facts, and CONTENT of what both tell. Not compared is what may differ: where
files lie (PLACES), keys of nodes, houses of the leaderboard's split, of which nothing is learnt, and what an older version
of the program, or a node's operator, does not tell.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, one_line
from fedsuite.roster.members import CONTENT, Roster, read_roster
from fedsuite.settings.values import shown

PLACES = ("folder",)  # facts that say where prepared data lie
SUBMITTED = "test"  # a role, and the detail that counts its instructions


def check_same_data(file: Path, roster: Roster) -> None:
    """InputError if `roster` is not that of the same data as the one in `file`, which a run has stored; no file: nothing
    to compare."""
    if not file.exists():
        return
    try:
        before = read_roster(file)
    except InputError as error:
        cure = "put it back from a copy, or move it away to resume without comparing the data"
        raise InputError(f"{error}; {cure}") from None
    if found := next(differences(before, roster), ""):
        raise InputError(
            f"{file.parent}: cannot resume, the data are not those that the run was begun with: {one_line(found, 300)}; put "
            "the old data back or start a new run"
        )


def differences(before: Roster, now: Roster) -> Iterator[str]:
    """What has changed, a line each."""
    old, new = _plain(before), _plain(now)
    if (names := list(old["members"])) != list(new["members"]):
        yield _who(names, list(new["members"]))
        return
    known = {key for member in old["members"].values() for key in member["details"]}
    for name, was in old["members"].items():
        own = new["members"][name]
        for key in ("role", "examples"):
            if was[key] != own[key]:
                yield f"{name}: {key} was {shown(was[key])}, is {shown(own[key])}"
        for key in sorted(known - {SUBMITTED}):
            if (one := was["details"].get(key)) != (other := own["details"].get(key)):
                yield f"{name}: {key} was {shown(one)}, is {shown(other)}"
    if before.words != now.words:
        moved = sum(a != b for a, b in zip(before.words, now.words, strict=False))
        yield f"{len(before.words)} words were known, {len(now.words)} are, {moved} of them at another's place"
    facts, own = old["facts"], new["facts"]
    contents = [facts.pop(CONTENT, {}), own.pop(CONTENT, {})]
    for key in sorted((facts.keys() & own.keys()) - {*PLACES}):
        if facts[key] != own[key]:
            yield f"{key} was {shown(facts[key])}, is {shown(own[key])}"
    for what in sorted(contents[0].keys() & contents[1].keys()):
        if contents[0][what] != contents[1][what]:
            yield f"what is in {what} has changed"


def _plain(roster: Roster) -> dict[str, Any]:
    """As JSON has it; members by name."""
    told: dict[str, Any] = json.loads(json.dumps({**asdict(roster), "words": ()}))
    members = (member for member in told["members"] if member["role"] != SUBMITTED)
    return {**told, "members": {member["name"]: member for member in members}}


def _who(before: list[str], now: list[str]) -> str:
    gone, new = [n for n in before if n not in now], [n for n in now if n not in before]
    if not gone and not new:
        return "its members stand in another order"
    told = [
        f"{name} is {how}" for names, how in ((gone, "gone"), (new, "new")) for name in names[:1]
    ]
    return " and ".join(told)
