"""Members of secure sums and servers that lie to them: each lie is answered with one line, and tells nothing."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.client import NumPyClient

from clients.numpy_client_app import named_arrays, named_reply
from clients.sum_messages import instruction_of
from clients.sum_state import Peers, SumState
from clients.summing import SummingClient
from fedsuite.arrays import Arrays
from fedsuite.errors import InputError
from fedsuite.messages.instructions import task
from fedsuite.privacy.identity import (
    Key,
    announced,
    drawn_key,
    fingerprint_of,
    read_announced,
)  # fmt: skip
from fedsuite.privacy.masked_vectors import Levels
from fedsuite.privacy.secure_sum import Listed, Secrets, unmasked
from fedsuite.privacy.sum_terms import SumTerms

MANY, ROUNDS = 5, 4
TERMS = SumTerms(0.5, 1.0)


class Inner(NumPyClient):
    """Adds a tenth of its number to the model, and counts its visits."""

    def __init__(self, partition: int) -> None:
        self.partition, self.visits = partition, 0

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        return {"num-examples": 10 + self.partition}

    def fit(self, parameters: Any, config: dict[str, Any]) -> Any:
        assert config["steps"] == 1 and not {"stage", "members"} & config.keys()
        self.visits += 1
        w = named_arrays(parameters, config)["w"]
        return named_reply({"w": w + np.float32(0.1 * self.partition)}, 10, {"steps": 1})


class Members:
    """All members, each with a disk of its own, and what an honest server says to them."""

    def __init__(self, root: Path, own_keys: dict[int, Key] | None = None) -> None:
        self.root, self.own_keys = root, own_keys or {}
        self.pinned = {p: fingerprint_of(k.public_key()) for p, k in self.own_keys.items()}
        self.inner = [Inner(p) for p in range(MANY)]
        self.announced: dict[int, bytes] = {}

    def client(self, p: int) -> SummingClient:
        """Made anew for each message, as in a process of its own."""
        folder = self.root / str(p)
        peers = Peers(folder, str(p), self.own_keys.get(p), self.pinned or None)
        state = SumState(folder, str(p))
        return SummingClient(
            self.inner[p], TERMS, state, peers, p, MANY, ROUNDS, np.random.default_rng
        )

    def ask(self, p: int, number: int, stage: str, arrays: Arrays, **fields: Any) -> Arrays:
        """A message of training, checked as the app does."""
        client, told = self.client(p), {"round": number, "checkpoint-rounds": "0", "stage": stage}
        client.instruction("train", told).check({**told, **fields}, "train message")
        steps = {"steps": 1} if stage == "masked" else {}
        config = {**told, **fields, **steps, "array-names": "\n".join(arrays)}
        reply, _, metrics = client.fit([*arrays.values()], config)
        return named_arrays(reply, metrics)

    def resume(self, number: int) -> None:
        for p in range(MANY):
            told = self.client(p).get_properties({"resume-round": number})
            assert told["num-examples"] == 10 + p

    def keys(self, number: int = 1) -> None:
        for p in range(MANY):
            self.announced[p] = self.ask(p, number, "keys", {})["keys"].tobytes()

    def list(self) -> Arrays:
        rows = [np.frombuffer(self.announced[p], np.uint8) for p in sorted(self.announced)]
        counts = np.array([10 + p for p in sorted(self.announced)])
        members = np.array(sorted(self.announced))
        return {"members": members, "counts": counts, "keys": np.stack(rows)}

    def shares(self, number: int = 1) -> None:
        self.keys(number)
        found = [self.ask(p, number, "shares", self.list(), threshold=3) for p in range(MANY)]
        self.sealed = np.stack([f["shares"] for f in found])

    def masked(self, number: int = 1, members: str = "0,1,2,3,4") -> None:
        self.shares(number)
        self.vectors = [self.visit(p, number, members) for p in range(MANY)]

    def visit(self, p: int, number: int = 1, members: str = "0,1,2,3,4") -> np.ndarray:
        model = {"w": np.zeros(3, np.float32)}
        return self.ask(p, number, "masked", model, members=members)["masked"]

    def unmask(self, p: int, number: int = 1, **fields: Any) -> np.ndarray:
        told = {"alive": "0,1,2,3", "dead": "4", **fields}
        return self.ask(p, number, "unmask", {"shares": self.sealed[:, p]}, **told)["shares"]


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path)


def refused(*words: str) -> Any:
    return pytest.raises(InputError, match=".*".join(words))


def test_an_honest_server_gets_the_sum(members: Members) -> None:
    members.masked()
    answers = {p: members.unmask(p) for p in range(3)}
    keys = {p: read_announced(data, 1, p)[1] for p, data in members.announced.items()}
    counts = {p: 10 + p for p in keys}
    shares = {p: {q: rows[q].tobytes() for q in range(MANY)} for p, rows in answers.items()}
    total = np.sum(members.vectors[:4], axis=0, dtype=np.uint32)
    summed = unmasked(Listed(1, 3, keys, counts), range(5), total, [0, 1, 2, 3], shares)
    weights = np.array([10, 11, 12, 13]) / 14  # the largest is member 4's
    mean, clipped = Levels(1.0, MANY).mean(summed, weights)
    expected = sum((10 + p) * 0.1 * p for p in range(4)) / 46
    assert clipped == 0 and mean == pytest.approx([expected] * 3, abs=1e-7)


# --- once, and in order -----------------------------------------------------------------------------


def test_no_second_unmasking(members: Members) -> None:
    members.masked()
    members.unmask(0)
    for more in ({}, {"alive": "0,1,2,3,4", "dead": ""}):
        with refused("stage = unmask, expected no second unmasking of a round"):
            members.unmask(0, **more)
    with refused("round = 1, expected a round after 1, whose sum is out"):
        members.ask(0, 1, "keys", {})
    assert not list((members.root / "0" / "secure-sum").iterdir())


def test_a_question_again_is_answered_alike(members: Members) -> None:
    """As after a lost answer; nothing is trained twice."""
    members.keys()
    assert members.ask(0, 1, "keys", {})["keys"].tobytes()[:161] == members.announced[0][:161]
    members.masked(2)
    assert np.array_equal(members.visit(3, 2), members.vectors[3])
    assert members.inner[3].visits == 1
    with refused("stage = keys, expected what follows masked"):
        members.ask(3, 2, "keys", {})


@pytest.mark.parametrize("stage", ["shares", "masked", "unmask"])
def test_no_stage_without_the_one_before(members: Members, stage: str) -> None:
    members.keys()
    members.sealed = np.zeros((MANY, MANY, 160), np.uint8)
    with refused(f"stage = {stage} of round (1|2), expected what follows"):
        if stage == "shares":
            members.ask(0, 2, "shares", members.list(), threshold=3)
        elif stage == "masked":
            members.visit(0)
        else:
            members.unmask(0)


def test_a_resumed_run_goes_on_with_new_secrets(members: Members) -> None:
    members.masked(2)
    first = members.vectors[1]
    members.resume(1)
    members.masked(2)
    assert not np.array_equal(first, members.vectors[1])
    members.unmask(1, 2)


# --- who is who -------------------------------------------------------------------------------------


def test_another_in_the_place_of_a_peer(members: Members) -> None:
    """A server that signs keys of its own with an identity of its own."""
    members.masked(1)
    members.keys(2)
    members.announced[2] = announced(drawn_key(), 2, 2, Secrets.drawn().public)
    with refused("keys = member 2 as SHA256:", "as before in this run"):
        members.ask(0, 2, "shares", members.list(), threshold=3)


def test_peers_of_the_roster_from_the_first_round_on(tmp_path: Path) -> None:
    own = {p: drawn_key() for p in range(MANY)}
    Members(tmp_path / "honest", own).masked()
    members = Members(tmp_path / "lied-to", own)
    members.keys()
    members.announced[2] = announced(drawn_key(), 1, 2, Secrets.drawn().public)
    with refused("keys = member 2 as SHA256:", "expected " + re.escape(members.pinned[2])):
        members.ask(0, 1, "shares", members.list(), threshold=3)


def test_keys_that_nobody_has_signed(members: Members) -> None:
    members.keys()
    false = bytearray(members.announced[2])
    false[97 + 40] ^= 1  # the key for masks
    members.announced[2] = bytes(false)
    with refused("keys = of member 2: the signature is not that of its key"):
        members.ask(0, 1, "shares", members.list(), threshold=3)


@pytest.mark.parametrize(
    ("change", "threshold", "words"),
    [
        ({"members": np.array([0, 1, 1, 3, 4])}, 3, "ascending numbers below 5, none twice"),
        ({"members": np.array([0, 1, 2, 3, 9])}, 3, "ascending numbers below 5, none twice"),
        ({"counts": np.array([9, 11, 12, 13, 14])}, 3, "counts = 9, expected 10"),
        ({"counts": np.array([10, 11, 12, 13, -1])}, 3, "no number below 0"),
        ({"counts": np.array([10.0, 11, 12, 13, 14])}, 3, "counts = float64"),
        ({"keys": np.zeros((5, 3), np.uint8)}, 3, "keys = of member 0: 3 bytes, expected 257"),
        ({}, 2, "threshold 2 of 5 members, expected more than half"),
        ({}, 4, "threshold = 4, expected 3"),
    ],
)
def test_lists_that_a_member_does_not_take(
    members: Members, change: Arrays, threshold: int, words: str
) -> None:
    members.keys()
    with refused(words):
        members.ask(0, 1, "shares", members.list() | change, threshold=threshold)
    members.shares()  # nothing was done


@pytest.mark.parametrize("size", [1, 2])
def test_fewer_than_three(members: Members, size: int) -> None:
    members.keys()
    some = {k: v[:size] for k, v in members.list().items()}
    with refused(f"a sum of {size} members, expected at least 3"):
        members.ask(0, 1, "shares", some, threshold=2)


def test_a_list_without_this_member_or_with_its_keys_changed(members: Members) -> None:
    members.keys()
    with refused("a list of members without this one"):
        members.ask(0, 1, "shares", {k: v[1:] for k, v in members.list().items()}, threshold=3)
    members.announced[0] = announced(drawn_key(), 1, 0, Secrets.drawn().public)
    with refused("keys = others in the place of this member's"):
        members.ask(0, 1, "shares", members.list(), threshold=3)


def test_a_second_list_in_a_round(members: Members) -> None:
    members.shares()
    some = {k: v[:4] for k, v in members.list().items()}
    with refused("members = another list, expected the list of before"):
        members.ask(0, 1, "shares", some, threshold=3)


# --- who is summed, and who is unmasked -------------------------------------------------------------


@pytest.mark.parametrize(
    "told", ["0,1", "0", "1,2,3", "0,1,2,9", "0,2,1", "0,0,1,2", "", "a", "0, 1,2"]
)
def test_sums_of_other_members(members: Members, told: str) -> None:
    members.shares()
    with refused("members = "):
        members.visit(0, members=told)
    assert members.inner[0].visits == 0


def test_the_same_change_is_not_masked_for_other_members(members: Members) -> None:
    members.masked()
    with refused("members = 0,1,2,3, expected 0,1,2,3,4"):
        members.visit(0, members="0,1,2,3")


@pytest.mark.parametrize(
    ("alive", "dead"),
    [
        ("0,1,2,3,4", "4"),
        ("0,1,2,3", ""),
        ("1,2,3,4", "0"),
        ("0,1,2,3,4", "0,1,2,3,4"),
        ("0,1", "2,3,4"),
        ("0,1,2,3", "4,5"),
        ("", ""),
    ],
)
def test_members_are_alive_or_dead(members: Members, alive: str, dead: str) -> None:
    members.masked()
    with refused("alive|dead"):
        members.unmask(0, alive=alive, dead=dead)
    members.unmask(0)


def test_boxes_of_another_member(members: Members) -> None:
    members.masked()
    with refused("shares = shares of member 0 that are not for this sum"):
        members.ask(1, 1, "unmask", {"shares": members.sealed[:, 2]}, alive="0,1,2,3,4", dead="")
    with refused("shares = uint8"):
        members.ask(1, 1, "unmask", {"shares": members.sealed[:2, 2]}, alive="0,1,2,3,4", dead="")


@pytest.mark.parametrize("clip", [None, 0.0, -1.0, 1, math.nan, math.inf, "1.0"])
def test_a_norm_that_is_none_is_refused(clip: object) -> None:
    """Where it adapts a message needs it; elsewhere none has it."""
    told = {"round": 1, "checkpoint-rounds": "0", "stage": "masked", "members": "0,1,2"}
    adapts, fixed = (
        instruction_of("masked", task(ROUNDS), ROUNDS, MANY, adapts) for adapts in (True, False)
    )
    adapts.check({**told, "clip": 0.5}, "train message")
    fixed.check(told, "train message")
    with pytest.raises(InputError, match="message has clip = unknown"):
        fixed.check({**told, "clip": 0.5}, "train message")
    given = {} if clip is None else {"clip": clip}
    with pytest.raises(InputError, match=r"has clip = .*, expected a number above 0"):
        adapts.check({**told, **given}, "train message")


def test_training_in_the_clear_is_refused(members: Members) -> None:
    client = members.client(0)
    for told in ({}, {"stage": "train"}):
        config = {"round": 1, "checkpoint-rounds": "0", "steps": 1, **told}
        with refused("stage = ", "expected 'keys' or 'shares' or 'masked' or 'unmask'"):
            client.instruction("train", config).check(config, "train message")
