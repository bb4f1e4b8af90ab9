"""States by round, each either complete on disk or absent: the server's checkpoints, the clients' private states.

A version is one file, `round-000010.safetensors`, with one entry of metadata: format, order of the arrays, scalars, owner,
round, and the SHA-256 of all that. Equal states are equal bytes. A damaged or missing version is an InputError that says
what to do; no other one is taken in its place unasked.

The server keeps its first checkpoint (before round 1) and the last two. A client keeps what is its own (personal layers,
optimizer state, replay) under its own identity (house, silo, party), never on the wire and never under a node id. It saves
under the round it has just trained in, then prunes by the "checkpoint-rounds" of its instructions. When it is asked who it
is, it rolls back to the "resume-round" found there: 0 in a new run.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from fedsuite.arrays import Arrays, fingerprint, under_prefix, with_prefix
from fedsuite.errors import InputError, one_line
from fedsuite.federation import ServerState
from fedsuite.runs.array_files import write_arrays
from fedsuite.settings.values import shown
from fedsuite.storage.deleting import delete_file, delete_made
from fedsuite.storage.files import make_private, sync, telling

FORMAT = 2
_PREFIX, _SUFFIX, _ABOUT, _ASIDE = "round-", ".safetensors", "about", "aside-"
ANEW = "start the run again under another name"
BACK = "put it back from a copy, or move the newest file of checkpoints/ away to resume from the one before it"


class Versions:
    """Versions of one state in `folder`, which is made when something is saved; a client's private state, by its name."""

    kind, durable = "private state", False

    def __init__(self, folder: Path, owner: str = "", cure: str = BACK) -> None:
        self.folder, self.owner, self._cure = folder, owner, cure

    def cure(self, round: int) -> str:
        """What to do where the version of `round` cannot be read."""
        return self._cure

    def rounds(self) -> list[int]:
        """Rounds that have a version, ascending."""
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        numbers = (n.removeprefix(_PREFIX).removesuffix(_SUFFIX) for n in names)
        found = {int(n) for n in numbers if n.isdecimal()}
        return sorted(r for r in found if self.path(r).name in names)

    def path(self, round: int) -> Path:
        return self.folder / f"{_PREFIX}{round:06d}{_SUFFIX}"

    def newest(self, before_round: int, least: int = 0) -> int | None:
        """Round of the newest version older than `before_round`; None if there is none yet.

        least: at least this round's must be there (a message's "last-trained"), else InputError.
        """
        found = max((r for r in self.rounds() if r < before_round), default=None)
        if (found or 0) < least:
            raise self.missing(least)
        return found

    def missing(self, round: int) -> InputError:
        """What to say of the version of `round`, which must have been there."""
        then = f"which trained in round {round}" if round else "which the run began with"
        return InputError(
            f"{self.path(round)}: missing {self.kind} of {self.owner or 'this client'}, {then}; {self.cure(round)}"
        )

    def load(self, before_round: int, least: int = 0) -> tuple[Arrays, dict[str, Any]] | None:
        """Arrays and scalars of the version that `newest` finds; None if there is none yet."""
        found = self.newest(before_round, least)
        return None if found is None else self._read(found)

    def save(
        self, round: int, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Any]
    ) -> None:
        """Write the version of `round`, in place of one that is already there. scalars: anything that JSON knows."""
        with telling(self.folder):
            make_private(self.folder)
        about = {"format": FORMAT, "names": list(arrays), "scalars": dict(scalars)}
        about |= {"owner": self.owner, "round": round}
        about["sha256"] = _digest(arrays, about)
        # One entry: safetensors writes several in random order.
        entry = {_ABOUT: json.dumps(about, sort_keys=True, allow_nan=False)}
        write_arrays(self.path(round), arrays, entry, self.durable)
        if self.durable:
            sync(self.folder)
        for aside in self.folder.glob(f"{_ASIDE}{_PREFIX}*{_SUFFIX}"):
            if aside.name <= f"{_ASIDE}{self.path(round).name}":  # it has got as far again
                delete_file(aside)

    def prune(self, checkpoints: Sequence[int]) -> None:
        """Drop what no resume can ask for: all but the newest version, and the newest one at or before each checkpoint."""
        found = self.rounds()
        kept = {max((r for r in found if r <= c), default=None) for c in checkpoints}
        for number in found[:-1]:
            if number not in kept:
                delete_file(self.path(number))

    def rollback(self, round: int) -> None:
        """Drop versions of later rounds and leftovers of interrupted writes.

        Where nothing would be left the newest stays as aside-round-NNNNNN.safetensors until a version of that round is there
        again. Nobody reads it: whoever asked for the rollback may have been mistaken.
        """
        later = [number for number in self.rounds() if number > round]
        aside = self.folder / f"{_ASIDE}{self.path(later[-1]).name}" if later else None
        if aside is not None and later == self.rounds() and not aside.exists():
            os.replace(self.path(later.pop()), aside)
        self._drop(later)

    def clear(self) -> None:
        """Drop all versions."""
        self._drop(self.rounds())

    def _drop(self, rounds: Sequence[int]) -> None:
        for number in rounds:
            delete_file(self.path(number))
        for partial in self.folder.glob(f".{_PREFIX}*{_SUFFIX}.*.partial"):
            delete_made(partial)

    def _read(self, round: int) -> tuple[Arrays, dict[str, Any]]:
        path = self.path(round)
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                about = json.loads(file.metadata()[_ABOUT])
                arrays = {name: file.get_tensor(name) for name in about["names"]}
            if about["format"] == FORMAT and about.pop("sha256") != _digest(arrays, about):
                raise ValueError("its SHA-256 is not the recorded one")
            if about["format"] == FORMAT and (about["owner"], about["round"]) != (
                self.owner,
                round,
            ):
                raise ValueError(f"it is that of {about['owner']!r} after round {about['round']}")
        except (
            safetensors.SafetensorError,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            RecursionError,
        ) as error:
            why = one_line(str(error), 200)
            raise InputError(f"{path}: damaged {self.kind}, {why}; {self.cure(round)}") from None
        if about["format"] != FORMAT:
            raise InputError(
                f"{path}: {self.kind} format {shown(about['format'])}, this version reads {FORMAT}; "
                "resume with the version that wrote it or start a new run"
            )
        return arrays, dict(about["scalars"])


GROUPS = ("arrays", "optimizer", "best", "rules")
"""Fields of ServerState that are named arrays; a checkpoint holds each under its name and a dot."""


@dataclass(frozen=True)
class RunState:
    """The server's state after `round` (0: before round 1) under the configuration with this digest.

    history: what HistoryWriter.durable said then; trained: by partition, the round in which a client has trained last.
    """

    round: int
    state: ServerState
    config_digest: str
    history: Mapping[str, Any] = field(default_factory=dict)
    trained: Mapping[int, int] = field(default_factory=dict)


class Checkpoints(Versions):
    """The server's states, safe from a loss of power once `save_state` has returned."""

    kind, durable = "checkpoint", True

    def cure(self, round: int) -> str:
        if older := [r for r in self.rounds() if r < round]:
            return f"put it back from a copy, or move it away to resume from round {older[-1]}"
        return f"put it back from a copy; without one, {ANEW}"

    def save_state(self, run_state: RunState) -> None:
        """Write a checkpoint and drop those no longer kept."""
        state = run_state.state
        groups = [with_prefix(getattr(state, group), f"{group}.") for group in GROUPS]
        arrays = {name: array for group in groups for name, array in group.items()}
        about = {"round": run_state.round, "config-digest": run_state.config_digest}
        about |= {"scalars": dict(state.scalars), "history": dict(run_state.history)}
        about["trained"] = sorted(run_state.trained.items())
        self.save(run_state.round, arrays, about)
        self.prune([*self.rounds()[:1], *self.needed()])

    def latest(self, before_round: int = sys.maxsize) -> RunState | None:
        """The newest checkpoint, verified; None if the folder holds none at all."""
        if (stored := self.load(before_round)) is None:
            return None
        arrays, about = stored
        groups = {group: under_prefix(arrays, f"{group}.") for group in GROUPS}
        state = ServerState(**groups, scalars=about["scalars"])
        trained = dict(about["trained"])
        return RunState(about["round"], state, about["config-digest"], about["history"], trained)

    def needed(self) -> list[int]:
        """The rounds that a resume may go back to short of starting over, ascending; private state of others can go."""
        return self.rounds()[-2:] or [0]


def checkpoint_rounds(config: Mapping[str, Any]) -> list[int]:
    """The checkpoints that a message says a resume may go back to."""
    return [int(number) for number in str(config["checkpoint-rounds"]).split(",")]


def _digest(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> str:
    text = json.dumps(about, sort_keys=True, allow_nan=False)
    return hashlib.sha256((fingerprint(arrays) + text).encode()).hexdigest()
