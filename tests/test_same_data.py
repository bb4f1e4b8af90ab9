"""A resumed run is held to the data that it was begun with; what may differ between a stop and a resume does not count."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.open_world import prepare_world
from fedsuite.roster.members import CONTENT, Member, Roster, write_roster
from fedsuite.roster.same_data import check_same_data
from fedsuite.storage.progress import silent
from tests.harness import changed

OAK = Member("oak", "seen", 18, {"houses": ["oak"], "numbers": [0], "train": [18], "val_seen": [2]})
ELM = Member("elm", "seen", 9, {"houses": ["elm"], "numbers": [1], "train": [9], "val_seen": [0]})
ASH = Member("ash", "unseen", 0, {"houses": ["ash"], "numbers": [2], "val_unseen": [3]})
FACTS = {"feature-size": 64, "folder": "drives-1", CONTENT: {"annotations/": "ab", "words": "cd"}}
BEFORE = Roster((OAK, ELM, ASH), FACTS, ("<PAD>", "left", "right"))
Change = Callable[[dict[str, Any]], object]


def checked(tmp_path: Path, change: Change) -> None:
    """The roster of before is stored, the one at hand is as `change` leaves it."""
    write_roster(tmp_path / "roster.json", BEFORE)
    raw = json.loads((tmp_path / "roster.json").read_text())
    change(raw)
    members = tuple(Member(**member) for member in raw["members"])
    check_same_data(tmp_path / "roster.json", Roster(members, raw["facts"], tuple(raw["words"])))


CHANGED: dict[str, tuple[Change, str]] = {
    "words": (lambda r: r["words"].reverse(), "3 words were known, 3 are, 2 of them at another's place"),
    "a word": (lambda r: r["words"].append("up"), "3 words were known, 4 are"),
    "order": (lambda r: r["members"].reverse(), "its members stand in another order"),
    "another": (lambda r: r["members"][1].update(name="fir"), "elm is gone and fir is new"),
    "one more": (lambda r: r["members"].append({**r["members"][0], "name": "fir"}), "fir is new"),
    "one less": (lambda r: r["members"].pop(), "ash is gone"),
    "samples": (lambda r: r["members"][0].update(examples=17), "oak: examples was 18, is 17"),
    "role": (lambda r: r["members"][0].update(role="unseen"), 'oak: role was "seen", is "unseen"'),
    "a split": (lambda r: r["members"][1]["details"].update(val_seen=[1]), "elm: val_seen was"),
    "an emptied split": (lambda r: r["members"][2]["details"].pop("val_unseen"), "ash: val_unseen was"),
    "a fact": (lambda r: r["facts"].update({"feature-size": 8}), "feature-size was 64, is 8"),
    "content": (lambda r: r["facts"][CONTENT].update(words="x"), "what is in words has changed"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGED)
def test_changed_data_are_refused(tmp_path: Path, case: str) -> None:
    change, words = CHANGED[case]
    with pytest.raises(InputError) as caught:
        checked(tmp_path, change)
    line = str(caught.value)
    assert words in line and "\n" not in line
    assert line.endswith("; put the old data back or start a new run")


def _test_house(raw: dict[str, Any]) -> None:
    """R2R_test.json was put there, for the submission."""
    raw["members"][2]["details"]["test"] = [4]
    raw["members"].append({"name": "yew", "role": "test", "examples": 0, "details": {"test": [5]}})


MAY_DIFFER: dict[str, Change] = {
    "nothing": lambda r: None,
    "a node's key": lambda r: r["members"][0].update(key="SHA256:" + 43 * "k"),
    "place": lambda r: r["facts"].update(folder="drives-2"),
    "told by nobody": lambda r: r["facts"].pop(CONTENT),
    "told in part": lambda r: r["facts"][CONTENT].pop("words"),
    "a new fact": lambda r: r["facts"].update(unit="radians"),
    "a new detail": lambda r: [m["details"].update(frames=[3]) for m in r["members"]],
    "the leaderboard's split": _test_house,
}


@pytest.mark.parametrize("case", MAY_DIFFER)
def test_what_may_differ(tmp_path: Path, case: str) -> None:
    checked(tmp_path, MAY_DIFFER[case])


def test_a_stored_roster_that_is_damaged_or_not_there(tmp_path: Path) -> None:
    file = tmp_path / "roster.json"
    check_same_data(file, BEFORE)
    file.write_text("{")
    with pytest.raises(InputError, match=r"no roster .*; put it back from a copy, or move it away"):
        check_same_data(file, BEFORE)


def test_nodes_and_server_need_not_tell_the_same_content() -> None:
    """Nodes' operators each know only what is theirs."""
    facts = {key: value for key, value in FACTS.items() if key != CONTENT}
    assert Roster(BEFORE.members, facts, BEFORE.words).digest == BEFORE.digest


@pytest.mark.slow
def test_other_word_vectors_are_told(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    own = {"world": "text2action", "cache_dir": str(tmp_path), "word_vectors": str(file)}
    told = []
    for text in ("to 1 2\n", "to 1 3\n"):
        file.write_text(text)
        told.append(prepare_world(changed(FedRLConfig(), **own), silent).facts[CONTENT])
    assert told[0] != told[1]
