"""The list of who takes part: written by whoever has the data, read by everybody."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError
from fedsuite.roster.members import (
    CONTENT,
    Member,
    Roster,
    read_roster,
    roster_of,
    write_roster,
)

KEY = "SHA256:" + 43 * "k"
OAK = Member("oak", "seen", 18, {"houses": ["oak"], "numbers": [0]}, key=KEY)
ASH = Member("ash tree", "unseen", 0)
ROSTER = Roster((OAK, ASH), {"feature-size": 64}, ("<PAD>", "left", "über"))


def written(folder: Path, change: Any = None) -> Path:
    """A good roster's file, its content changed."""
    file = folder / "roster.json"
    write_roster(file, ROSTER)
    content = json.loads(file.read_text(encoding="utf-8"))
    if change is not None:
        content = change(content)
        file.write_text(json.dumps(content), encoding="utf-8")
    return file


def test_what_is_written_is_read(tmp_path: Path) -> None:
    roster = read_roster(written(tmp_path))
    assert roster.members == (OAK, ASH)
    assert roster.facts == {"feature-size": 64} and roster.words == ("<PAD>", "left", "über")
    assert len(roster) == 2 and roster.names == ["oak", "ash tree"]
    again = tmp_path / "again.json"
    write_roster(again, roster)
    assert again.read_bytes() == written(tmp_path).read_bytes()


def test_a_place_in_the_list_is_the_partition() -> None:
    assert [ROSTER.partition_of(n) for n in ("oak", "ash tree")] == [0, 1]
    with pytest.raises(
        InputError, match=r"'elm' is not on the roster; expected one of \['oak', 'ash tree'\]"
    ):
        ROSTER.partition_of("elm")


def test_what_all_have_in_common() -> None:
    assert Roster((OAK,), {"chains": 0}).fact("chains", int) == 0
    for found in (-1, 1.0, True, "1", None):
        with pytest.raises(InputError, match="facts must hold chains, one of whole numbers >= 0"):
            Roster((OAK,), {"chains": found}).fact("chains", int)


def test_details_are_of_the_kind_that_is_asked_for() -> None:
    member = Member(
        "oak", "silo", 3, {"houses": ["oak", "ash"], "numbers": (0, 2), "up": ["../oak"]}
    )
    assert member.names("houses") == ["oak", "ash"] and member.listed("numbers", int) == [0, 2]
    with pytest.raises(InputError, match=r"^roster: oak: one of up must be letters, digits"):
        member.names("up")
    wrong = {str: ([1], ["a", 1], "oak", {"a": 1}, None), int: ([True], [0, -1], [1.0], 3)}
    for kind, found in [(kind, found) for kind, values in wrong.items() for found in values]:
        with pytest.raises(InputError, match=r"^roster: oak: details must hold houses, a list of "):
            Member("oak", "silo", 3, {"houses": found}).listed("houses", kind)


def test_server_and_nodes_have_a_roster_in_common_whose_keys_differ() -> None:
    unbound = [replace(OAK, key=""), ASH]
    assert (
        ROSTER.digest == Roster(tuple(unbound), {**ROSTER.facts, CONTENT: "x"}, ROSTER.words).digest
    )
    for other in (
        Roster((ASH, OAK), ROSTER.facts, ROSTER.words),
        Roster((OAK,), ROSTER.facts, ROSTER.words),
        Roster((replace(OAK, examples=19), ASH), ROSTER.facts, ROSTER.words),
        Roster((replace(OAK, details={}), ASH), ROSTER.facts, ROSTER.words),
        replace(ROSTER, facts={"feature-size": 65}),
        replace(ROSTER, words=("<PAD>", "left")),
    ):
        assert other.digest != ROSTER.digest


def test_clients_of_one_kind() -> None:
    assert roster_of(["a", "b"], [3, 0]).members == (
        Member("a", "client", 3),
        Member("b", "client", 0),
    )
    with pytest.raises(ValueError, match="shorter"):
        roster_of(["a", "b"], [3])


def test_what_an_operator_may_leave_out(tmp_path: Path) -> None:
    """details and key of a member."""
    members = [{"name": "a", "role": "silo", "examples": 3}]
    file = written(tmp_path, lambda _: {"members": members, "facts": {}, "words": []})
    assert read_roster(file).members == (Member("a", "silo", 3),)


def first(**changes: Any) -> Any:
    """The first member with other values."""

    def change(content: dict[str, Any]) -> dict[str, Any]:
        content["members"][0] |= changes
        return content

    return change


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda c: [], "no roster (TypeError"),
        (lambda c: {**c, "members": {}}, "lists nobody; give at least one member"),
        (lambda c: {**c, "members": []}, "lists nobody; give at least one member"),
        (lambda c: {**c, "members": 3}, "no roster (TypeError"),
        (lambda c: {**c, "members": ["oak"]}, "no roster (TypeError"),
        (lambda c: {k: v for k, v in c.items() if k != "facts"}, "no roster (KeyError: 'facts')"),
        (lambda c: {k: v for k, v in c.items() if k != "words"}, "no roster (KeyError: 'words')"),
        (lambda c: {**c, "facts": 3}, "no roster (TypeError"),
        (first(colour="green"), "no roster (TypeError"),
        (
            first(key="aa:bb"),
            'oak: key must be SHA256:... as `ssh-keygen -lf KEY.pub` prints it, got "aa:bb"',
        ),
        (
            lambda c: {**c, "members": [m | {"key": KEY} for m in c["members"]]},
            f"key {KEY} is bound to two members; each node has its own",
        ),
        (first(name="ash tree"), "ash tree stands in it twice; names must differ"),
        (first(name=""), "name and role must be texts, got '' and 'seen'"),
        (first(name=" oak"), "name and role must be texts, got ' oak'"),
        (first(name="../oak"), "a member's name must be letters, digits, spaces"),
        (first(name="/tmp/oak"), "a member's name must be"),
        (first(name=".."), "a member's name must be"),
        (first(name="o\\ak"), "a member's name must be"),
        (first(name="o\x00ak"), "a member's name must be"),
        (first(name="o" * 201), "a member's name must be"),
        (first(name=3), "name and role must be texts, got 3"),
        (first(role=None), "name and role must be texts, got 'oak' and None"),
        (first(examples=-1), "oak: examples must be a whole number >= 0, got -1"),
        (first(examples=1.5), "oak: examples must be a whole number >= 0, got 1.5"),
        (first(examples=True), "oak: examples must be a whole number >= 0, got True"),
        (first(examples="3"), "oak: examples must be a whole number >= 0, got '3'"),
        (first(details=[1]), "oak: details must be a table and key a text, got [1]"),
        (
            first(key=3),
            "details must be a table and key a text, got {'houses': ['oak'], 'numbers': [0]}, 3",
        ),
        (lambda c: {**c, "words": ["left", 3]}, "words must be texts"),
    ],
)
def test_bad_content_is_named_with_the_file(tmp_path: Path, change: Any, complaint: str) -> None:
    file = written(tmp_path, change)
    with pytest.raises(InputError) as caught:
        read_roster(file)
    line = str(caught.value)
    assert line.startswith(f"{file}: ") and complaint in line and "\n" not in line


def test_a_file_that_is_torn_or_not_there(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(
        InputError, match=r"no roster .JSONDecodeError.*expected members, facts and words"
    ):
        read_roster(file)
    file.write_bytes(b"\xff\xfe{")
    with pytest.raises(InputError, match="no roster"):
        read_roster(file)
    with pytest.raises(InputError, match="a folder, not a roster"):
        read_roster(tmp_path)
    file.unlink()
    with pytest.raises(InputError, match="no such roster; whoever prepares the data writes one"):
        read_roster(file)
