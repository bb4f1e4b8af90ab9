"""What nodes say of themselves for a roster: written, read, joined, added to one, and compared with it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError
from fedsuite.roster.members import Member
from fedsuite.roster.node_report import (
    Part,
    disagreement,
    extended,
    fingerprint_of,
    join,
    read_part,
    total_words,
    write_part,
)


def part(name: str = "oak", **changes: Any) -> Part:
    member = Member(name, "seen", 18, {"houses": [name], "numbers": [7]})
    facts = {"feature-size": 64, "views": [36]}
    numbered = Part("fedvln", member, facts, {"longest": 9}, "numbers", "houses-in-all")
    return replace(numbered, **{"words": {"left": 2, "go": 1}, "alike": {"rules": "1"}, **changes})


def of(member: Member, **changes: Any) -> Part:
    return replace(part(), member=member, **changes)


OAK, ASH = part(), part("ash", largest={"longest": 12, "widest": 3})
ROSTER = join({"oak.json": OAK, "ash.json": ASH}, ["left", "go"])


@pytest.mark.parametrize("words", [{"left": 2, "go": 1, "ü": 1}, {}, None])
def test_what_is_written_is_read(tmp_path: Path, words: dict[str, int] | None) -> None:
    file, given = tmp_path / "oak.json", part(words=words, cures={"rules": "update"})
    write_part(file, given)
    found = read_part(file)
    assert found == given and list(found.words or ()) == list(words or ())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"facts": 3}, "facts must be a table, got 3"),
        ({"largest": [1]}, "largest must be a table, got [1]"),
        ({"alike": "x"}, 'alike must be a table, got "x"'),
        ({"cures": None}, "cures must be a table, got None"),
        ({"system": 1}, "system must be text, got 1"),
        ({"numbered": None}, "numbered must be text"),
        ({"counted": True}, "counted must be text, got true"),
        ({"member": {"name": "oak"}}, "(TypeError: "),
        ({"member": {**vars(OAK.member), "details": [1]}}, "details must be a table, got [1]"),
        ({"words": [["left"]]}, "(ValueError: "),
        ({"words": [["left", "x"]]}, "(ValueError: "),
        ({"words": 3}, "(TypeError: "),
        ({"colour": "green"}, "(TypeError: "),
    ],
)
def test_what_is_no_part_is_named_with_its_file(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    file = tmp_path / "oak.json"
    write_part(file, OAK)
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(InputError) as caught:
        read_part(file)
    line = str(caught.value)
    assert line.startswith(f"{file}: ") and complaint in line and "\n" not in line
    assert line.endswith("; have `fedsuite data prepare-node` write it anew where the data are")


def test_parts_become_a_roster_in_their_order() -> None:
    assert ROSTER.names == ["oak", "ash"] and ROSTER.words == ("left", "go")
    assert [m.details for m in ROSTER.members] == [
        {"houses": ["oak"], "numbers": [0]},
        {"houses": ["ash"], "numbers": [1]},
    ]
    size = {"feature-size": 64, "views": [36]}
    assert ROSTER.facts == {**size, "longest": 12, "widest": 3, "houses-in-all": 2}
    plain = join({"a": part(numbered="", counted="", largest={})})
    assert plain.facts == size and plain.members == (OAK.member,)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"system": "cdl"}, "b: of cdl, but a is of fedvln; leave one out"),
        ({"facts": {"feature-size": 65, "views": [36]}}, "b: feature-size is 65, in a it is 64; "),
        ({"facts": {"views": [36]}}, "b: feature-size is None, in a it is 64; "),
        ({"facts": {**OAK.facts, "more": 1}}, "b: more is 1, in a it is None; "),
        ({"alike": {"rules": "2"}}, 'b: rules is "2", in a it is "1"; '),
        ({"alike": {}}, 'b: rules is None, in a it is "1"; '),
    ],
)
def test_parts_that_do_not_go_together(changes: dict[str, Any], complaint: str) -> None:
    own = {key: "update it" for key in ("rules", "feature-size", "more")}
    for cures, cure in (
        ({}, "in all: prepare the nodes with the same run"),
        (own, "in all: update it"),
    ):
        with pytest.raises(InputError) as caught:
            join({"a": OAK, "b": part("ash", cures=cures, **changes)})
        assert str(caught.value).startswith(complaint)
        assert (cure in str(caught.value)) == ("leave one out" not in complaint)


def test_words_are_counted_over_all() -> None:
    more = part("ash", words={"up": 1, "go": 4})
    found = total_words({"a": OAK, "b": more})
    assert list(found.items()) == [("left", 2), ("go", 5), ("up", 1)]
    with pytest.raises(InputError, match=r"^c: says no words; give a vocabulary"):
        total_words({"a": OAK, "c": part(words=None)})


def test_one_more_comes_to_a_roster() -> None:
    elm = part("elm", largest={"longest": 10, "widest": 5, "deepest": 1}, words={"down": 3})
    found = extended(ROSTER, elm, "elm.json")
    assert found.members[:2] == ROSTER.members and found.words == ROSTER.words
    assert found.members[2] == replace(elm.member, details={"houses": ["elm"], "numbers": [2]})
    most = {"longest": 12, "widest": 5, "deepest": 1, "houses-in-all": 3}
    assert found.facts == {**ROSTER.facts, **most}
    unnumbered = extended(ROSTER, replace(elm, numbered="", counted="", largest={}), "elm.json")
    assert unnumbered.members[2] == elm.member and unnumbered.facts == ROSTER.facts


def test_who_is_on_the_roster_or_does_not_go_with_it_is_not_added() -> None:
    with pytest.raises(InputError, match=r"^x: oak is on the roster already; nothing is to be add"):
        extended(ROSTER, OAK, "x")
    for facts, complaint in (
        ({"feature-size": 65}, "feature-size is 65, on the roster it is 64"),
        ({"feature-size": 64.0}, "feature-size is 64.0, on the roster it is 64"),
        ({"doors": 3}, "doors is 3, on the roster it is None"),
    ):
        with pytest.raises(InputError, match=f"^x: {complaint}; it must be the same in all"):
            extended(ROSTER, part("elm", facts=facts), "x")


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (OAK, ""),
        (part(largest={"longest": 12}), ""),  # another member's is as large
        (part(largest={}), ""),
        (of(replace(OAK.member, details={"houses": ["oak"], "numbers": [5]})), ""),  # its own count
        (of(replace(OAK.member, role="unseen")), 'role is "unseen" here, "seen" on the roster'),
        (of(replace(OAK.member, examples=17)), "examples is 17 here, 18 on the roster"),
        (
            of(replace(OAK.member, details={"houses": ["elm"]})),
            "houses is ['elm'] here, ['oak'] on",
        ),
        (of(replace(OAK.member, details={"doors": 2})), "doors is 2 here, None on the roster"),
        (part(facts={"feature-size": 65}), "feature-size is 65 here, 64 on the roster"),
        (part(largest={"longest": 13}), "longest is 13 here, 12 on the roster"),
        (part(largest={"deepest": 1}), "deepest is 1 here, None on the roster"),
    ],
)
def test_what_a_node_says_otherwise(found: Part, complaint: str) -> None:
    line = disagreement(found, ROSTER)
    assert line.startswith(f"oak: {complaint}") if complaint else line == ""


def test_public_keys(tmp_path: Path) -> None:
    file = tmp_path / "oak.pub"
    file.write_text("ecdsa-sha2-nistp256 AAAA oak@home\n")
    assert fingerprint_of(file) == "SHA256:cJ6AyISHokEeHuTfufIqhhSS0gxHZRUMDHlKvXD4FHw"
    for text in (
        "",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp256 AA!A",
        "ssh-rsa AAAA",
        "ecdsa-sha2-x =",
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=f"^{file}: no public key of an elliptic curve"):
            fingerprint_of(file)
    file.unlink()
    with pytest.raises(InputError, match=f"^{file}: No such file"):
        fingerprint_of(file)
