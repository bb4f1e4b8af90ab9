"""A member's keys of a run in which messages to peers are sealed (fedsuite/privacy/sealing.py), on its own disk.

Before round 1 a member announces its key, and is told those of all members. It holds each to who it is: to the key on
its own roster where its node's file has an own-key, else to who it was first said to be in the run. Who has announced a key
keeps it to the end of the run.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from clients.numpy_client_app import Config, Fitted, Parameters, named_arrays, named_reply
from clients.sum_state import Peers
from fedsuite.arrays import Arrays
from fedsuite.errors import one_line
from fedsuite.messages.instructions import Instruction, OneOf, refused, task
from fedsuite.privacy.sealing import (
    ANNOUNCED,
    KEYS,
    PEERS,
    STAGE,
    Sealer,
    announced,
    drawn_secret,
    read_announced,
)  # fmt: skip
from fedsuite.privacy.secure_sum import public_of
from fedsuite.runs.versions import Versions

FOLDER = "sealed-keys"


class SealedKeys:
    """Of the member `own` of `members` in the run called `run`; peers: who they are known to be."""

    def __init__(
        self, folder: Path, name: str, run: str, own: int, members: int, peers: Peers
    ) -> None:
        self._kept = Versions(folder / FOLDER, name)
        self.name, self.run, self.own, self.members, self.peers = name, run, own, members, peers

    def instruction(self, config: Mapping[str, Any], rounds: int) -> Instruction | None:
        """What a message of the two stages may say; None for any other message."""
        if config.get(STAGE) not in (KEYS, PEERS):
            return None
        return task(rounds, {STAGE: OneOf((KEYS, PEERS))})

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """One of the two stages; asked again, the same."""
        if config[STAGE] == KEYS:
            said = announced(self.peers.identity(), self.run, self.own, self._secret())
            return named_reply({"keys": np.frombuffer(said, np.uint8)}, 0, {})
        self._meet(named_arrays(parameters, config))
        return named_reply({}, 0, {})

    @cached_property
    def sealer(self) -> Sealer:
        """For messages of the run; InputError before its keys are known."""
        stored = self._kept.load(1)
        if stored is None or "public" not in stored[0]:
            self.refuse("a message to a peer", "none", "keys of all members before it")
        public = {p: row.tobytes() for p, row in enumerate(stored[0]["public"])}
        return Sealer(self.own, stored[0]["secret"].tobytes(), public)

    def opened(self, sender: int, round: int, place: str, box: np.ndarray) -> bytes:
        """The message in a box; InputError for one that this sender has not sealed for this place."""
        try:
            return self.sealer.open(sender, round, place, box.tobytes())
        except ValueError as error:
            self.refuse(place, str(error), f"what member {sender} has sealed for it")

    def refuse(self, name: str, found: object, expected: object) -> NoReturn:
        """InputError of this member."""
        about = f"sealed messages, member {self.own} ({self.name})"
        raise refused(about, name, one_line(str(found), 300), expected)

    # --- the keys ---------------------------------------------------------------------------------

    def _secret(self) -> bytes:
        stored = self._kept.load(1)
        if stored is not None:
            return stored[0]["secret"].tobytes()
        secret = drawn_secret()
        self._kept.save(0, {"secret": np.frombuffer(secret, np.uint8)}, {})
        return secret

    def _meet(self, arrays: Arrays) -> None:
        """Keep who has which key; the run has one list of them, for good."""
        rows = arrays.get("keys")
        if rows is None or rows.dtype != np.uint8 or rows.shape != (self.members, ANNOUNCED):
            here = "missing" if rows is None else f"{rows.dtype} {rows.shape}"
            self.refuse("keys", here, f"uint8 {(self.members, ANNOUNCED)}, of all on the roster")
        told, public = dict[int, str](), list[bytes]()
        for p, row in enumerate(rows):
            try:
                told[p], key = read_announced(row.tobytes(), self.run, p)
            except ValueError as error:
                self.refuse("keys", f"of member {p}: {error}", "keys signed by who sent them")
            public.append(key)
        stored = self._kept.load(1)
        before = stored[0] if stored else {}
        if public[self.own] != public_of(secret := self._secret()):
            self.refuse("keys", "another in the place of this member's", "its own")
        if len(set(public)) < len(public):
            self.refuse("keys", "the same key twice", "a key of each member")
        table = np.stack([np.frombuffer(key, np.uint8) for key in public])
        if "public" in before and not np.array_equal(before["public"], table):
            changed = np.flatnonzero((before["public"] != table).any(axis=1)).tolist()
            self.refuse("keys", f"others of members {changed}", "those that the run began with")
        # Last, since it keeps who they say they are.
        self.peers.meet(told, lambda found, expected: self.refuse("keys", found, expected))
        self._kept.save(0, {"secret": np.frombuffer(secret, np.uint8), "public": table}, {})
