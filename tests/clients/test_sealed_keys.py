"""Members who exchange keys for sealed messages through a server that lies: every lie is refused, and none is kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.numpy_client_app import NAMES, named_arrays
from clients.sealed_keys import SealedKeys
from clients.sum_state import Peers
from fedsuite.arrays import Arrays
from fedsuite.errors import InputError
from fedsuite.privacy.identity import Key, drawn_key, fingerprint_of
from fedsuite.privacy.sealing import ANNOUNCED, KEYS, PEERS, STAGE, announced, drawn_secret

RUN, MEMBERS, ROUNDS = "0" * 32, 3, 4


class Members:
    """Members of a run, each with a disk of its own; pinned: their nodes have keys of their own, and know each other's."""

    def __init__(self, root: Path, pinned: bool = False) -> None:
        self.root = root
        self.own: list[Key | None] = [drawn_key() if pinned else None for _ in range(MEMBERS)]
        keys = {p: key for p, key in enumerate(self.own) if key}
        self.pinned = {p: fingerprint_of(key.public_key()) for p, key in keys.items()} or None

    def member(self, own: int, run: str = RUN) -> SealedKeys:
        """Made anew for each message, as in a process of its own."""
        folder = self.root / str(own)
        peers = Peers(folder, str(own), self.own[own], self.pinned)
        return SealedKeys(folder, str(own), run, own, MEMBERS, peers)

    def announcement(self, own: int) -> np.ndarray:
        values, _, said = self.member(own).fit([], {STAGE: KEYS, NAMES: ""})
        return named_arrays(values, said)["keys"]

    def all(self) -> np.ndarray:
        return np.stack([self.announcement(own) for own in range(MEMBERS)])

    def tell(self, own: int, rows: Any) -> None:
        arrays: Arrays = {} if rows is None else {"keys": rows}
        self.member(own).fit([*arrays.values()], {STAGE: PEERS, NAMES: "\n".join(arrays)})


@pytest.fixture(params=[False, True], ids=["unknown", "pinned"])
def members(request: pytest.FixtureRequest, tmp_path: Path) -> Members:
    return Members(tmp_path, request.param)


def refusal(members: Members, own: int, rows: Any) -> str:
    with pytest.raises(InputError) as caught:
        members.tell(own, rows)
    line = str(caught.value)
    assert "\n" not in line and f"member {own} ({own})" in line
    return line


def test_members_meet_and_read_each_other(members: Members) -> None:
    rows = members.all()
    for own in range(MEMBERS):
        members.tell(own, rows)
        members.tell(own, rows)  # asked again, the same
    box = members.member(0).sealer.seal(2, 1, "a place", b"theta")
    sealed = np.frombuffer(box, np.uint8)
    assert members.member(2).opened(0, 1, "a place", sealed) == b"theta"
    with pytest.raises(InputError, match="what member 1 has sealed for it"):
        members.member(2).opened(1, 1, "a place", sealed)


def test_nothing_is_sealed_before_the_keys_are_known(members: Members) -> None:
    members.announcement(0)
    with pytest.raises(InputError, match="keys of all members before it"):
        members.member(0).sealer  # noqa: B018


LIES = (
    "none", "one less", "of another kind", "a changed byte", "of another run", "in another's place", "another for its own",
    "its own for another",
)  # fmt: skip


def lies(members: Members) -> dict[str, tuple[Any, str]]:
    rows = members.all()
    stranger = drawn_key()

    def with_row(place: int, data: bytes) -> np.ndarray:
        changed = rows.copy()
        changed[place] = np.frombuffer(data, np.uint8)
        return changed

    own = members.member(0)
    same = [announced(own.peers.identity(), RUN, p, own._secret()) for p in range(MEMBERS)]
    other = announced(stranger, RUN, 0, drawn_secret())
    spoilt = rows.copy()
    spoilt[1, -1] ^= 1
    return {
        "none": (None, "missing"),
        "one less": (rows[:-1], f"uint8 {(MEMBERS, ANNOUNCED)}"),
        "of another kind": (rows.astype(np.int64), "int64"),
        "a changed byte": (spoilt, "of member 1: "),
        "of another run": (with_row(1, announced(stranger, "1" * 32, 1, drawn_secret())), "of member 1: "),
        "in another's place": (rows[[0, 2, 1]], "of member 1: "),
        "another for its own": (with_row(0, other), "another in the place of this member's"),
        "its own for another": (with_row(1, same[1]), "the same key twice"),
    }  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_and_not_kept(members: Members, lie: str) -> None:
    rows, words = lies(members)[lie]
    honest = members.all()
    assert words in refusal(members, 0, rows)
    members.tell(0, honest)  # what the lie said of members is not held against them
    assert members.member(0).sealer.public.keys() == {0, 1, 2}


def test_other_keys_later_are_refused(members: Members) -> None:
    """Those of the run stay, whoever signs for others."""
    rows = members.all()
    members.tell(0, rows)
    one = members.member(1)
    rows[1] = np.frombuffer(announced(one.peers.identity(), RUN, 1, drawn_secret()), np.uint8)
    assert "others of members [1]" in refusal(members, 0, rows)


def test_who_is_known_is_held_to_it(members: Members) -> None:
    """Pinned by the own roster, or known from a first time."""
    rows = members.all()
    if not members.pinned:
        members.member(0).peers.meet({1: "SHA256:another"}, lambda *_: None)
    else:
        rows[1] = np.frombuffer(announced(drawn_key(), RUN, 1, drawn_secret()), np.uint8)
    assert "member 1 as SHA256:" in refusal(members, 0, rows)


def test_other_messages_are_not_of_the_exchange(members: Members) -> None:
    member = members.member(0)
    assert member.instruction({STAGE: KEYS}, ROUNDS) is not None
    assert member.instruction({STAGE: "mix"}, ROUNDS) is None and member.instruction({}, 1) is None
