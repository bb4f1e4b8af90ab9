"""What nodes say of themselves, and the roster that it makes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError
from fedsuite.roster.members import Member
from fedsuite.roster.node_report import (
    Part,
    fingerprint_of,
    join,
    read_part,
    total_words,
    write_part,
)

OAK = Part(
    "fedvln", Member("oak", "seen", 18, {"houses": ["oak"]}), {"feature-size": 8},
    numbered="numbers", words={"walk": 3, "left": 1},
)  # fmt: skip
ELM = Part(
    "fedvln", Member("elm", "unseen", 0, {"houses": ["elm"]}), {"feature-size": 8},
    numbered="numbers", words={"left": 2, "über": 1},
)  # fmt: skip
ADA = Part(
    "cdl", Member("ada", "silo", 40, {}), {"unit": "radians"}, {"limit": 0.5}, "silos", "silos"
)
BOB = Part(
    "cdl", Member("bob", "silo", 40, {}), {"unit": "radians"}, {"limit": 0.8}, "silos", "silos"
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for part in (OAK, ADA):
        write_part(file := tmp_path / part.member.name, part)
        assert read_part(file) == part
    assert list(read_part(tmp_path / "oak").words or {}) == ["walk", "left"]


def test_members_keep_their_order_and_get_numbers() -> None:
    roster = join({"a": ELM, "b": OAK}, ("<PAD>",))
    assert roster.names == ["elm", "oak"] and roster.words == ("<PAD>",)
    assert roster.members[1].details == {"houses": ["oak"], "numbers": [1]}
    assert roster.facts == {"feature-size": 8}
    assert join({"a": ADA, "b": BOB}).facts == {"unit": "radians", "limit": 0.8, "silos": 2}


def test_words_are_added_up_in_order() -> None:
    total = total_words({"a": OAK, "b": ELM})
    assert list(total.items()) == [("walk", 3), ("left", 3), ("über", 1)]
    with pytest.raises(InputError, match="b: says no words; give a vocabulary with --vocabulary"):
        total_words({"a": OAK, "b": ADA})


def test_parts_that_do_not_go_together() -> None:
    with pytest.raises(InputError, match="b: of cdl, but a is of fedvln"):
        join({"a": OAK, "b": ADA})
    wide = Part("fedvln", ELM.member, {"feature-size": 9})
    with pytest.raises(InputError, match="b: feature-size is 9, in a it is 8; it must be the same"):
        join({"a": OAK, "b": wide})


@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.pop("system"),
        lambda part: part.update(colour="green"),
        lambda part: part.update(member=3),
        lambda part: part["member"].update(colour="green"),
        lambda part: part.update(words=[["left"]]),
        lambda part: part.update(facts=[]),
        lambda part: part.update(counted=3),
        lambda part: part.update(cures="none"),
        lambda part: part["member"].update(details=[]),
        lambda part: part.update(system={}),
    ],
)
def test_what_is_no_part_is_one_line(tmp_path: Path, change: Any) -> None:
    write_part(file := tmp_path / "part.json", OAK)
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    with pytest.raises(InputError) as caught:
        read_part(file)
    line = str(caught.value)
    assert line.startswith(f"{file}: ") and "\n" not in line
    tables = {"facts", "largest", "details", "alike", "cures"}
    if found := re.search(r": (\w+) must be (a table|text), got", line):
        assert (found[1] in tables) == (found[2] == "a table")
    assert line.endswith("have `fedsuite data prepare-node` write it anew where the data are")


def test_fingerprints_of_key_files(tmp_path: Path) -> None:
    """The key of tests/strategies/runtime/test_roll_call.py as ssh-keygen writes it."""
    code = (
        "AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBEjF4eRUZHaz+2iVCQlA3mWa05vh5TBkKkGlSGHx61m+BNd6mjpYneIXos"
        "d9ep4/JDXI8V7G1XO6ySRW2wepPbbsf4Uu35g15hDdPojKewxPFryKOrvbd/qo76XupTunBg=="
    )
    file = tmp_path / "key.pub"
    file.write_text(f"ecdsa-sha2-nistp384 {code} somebody\n")
    assert fingerprint_of(file) == "SHA256:ISgOI+HAxw/ygA0CxhFzSd/WESH/imXp2gBrBrGJsIA"
    for text in ("", "ecdsa-sha2-nistp384 ???", f"ssh-rsa {code}"):
        file.write_text(text)
        with pytest.raises(InputError, match="no public key of an elliptic curve"):
            fingerprint_of(file)
