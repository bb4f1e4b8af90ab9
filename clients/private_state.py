"""A client's private state on its own disk, one version per round, so that server and clients resume at the same round.

Whatever a client keeps to itself (personal layers, optimizer state, replay, random streams) lies
here under its own identity (house, silo, party), never on the wire and never under a node id. A
version is one safetensors file that holds arrays, scalars and their SHA-256; it is written to a
temporary name and renamed.

A client saves under the round it has just trained in, then prunes by the "checkpoint-rounds" of its
instructions. When it is asked who it is, it rolls back to the "resume-round" found there: 0 in a
new run.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from fedsuite.arrays import Arrays, fingerprint
from fedsuite.errors import InputError

_PREFIX, _SUFFIX, _ABOUT = "round-", ".safetensors", "about"


class PrivateState:
    """Versions of one client's state in `folder`; the folder is made when something is saved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rounds(self) -> list[int]:
        """Rounds that have a version, ascending."""
        names = (p.name for p in self.folder.glob(f"{_PREFIX}*{_SUFFIX}"))
        numbers = (n.removeprefix(_PREFIX).removesuffix(_SUFFIX) for n in names)
        return sorted(int(n) for n in numbers if n.isdecimal())

    def load(self, before_round: int) -> tuple[Arrays, dict[str, Any]] | None:
        """The newest version older than `before_round`; None if there is none yet."""
        earlier = [r for r in self.rounds() if r < before_round]
        return self._read(self._path(earlier[-1])) if earlier else None

    def save(
        self, round: int, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Any]
    ) -> None:
        """Write the version of `round`, in place of one that is already there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        plain = {k: np.asarray(v, order="C") for k, v in arrays.items()}
        text = json.dumps(dict(scalars), allow_nan=False)
        about = {"scalars": text, "names": list(plain), "sha256": _digest(plain, text)}
        # One entry: safetensors writes several in random order, and equal states shall be equal bytes.
        metadata = {_ABOUT: json.dumps(about)}
        temporary = self.folder / f".{_PREFIX}{round:06d}.{os.getpid()}.partial"
        temporary.write_bytes(safetensors.numpy.save(plain, metadata))
        os.replace(temporary, self._path(round))

    def prune(self, checkpoints: Sequence[int]) -> None:
        """Drop what no resume can ask for: all but the newest version, and the newest one at or before each checkpoint."""
        found = self.rounds()
        kept = {max((r for r in found if r <= c), default=None) for c in checkpoints}
        for number in found[:-1]:
            if number not in kept:
                self._path(number).unlink(missing_ok=True)

    def rollback(self, round: int) -> None:
        """Drop versions of later rounds and leftovers of interrupted writes."""
        for number in self.rounds():
            if number > round:
                self._path(number).unlink(missing_ok=True)
        for partial in self.folder.glob(".*.partial"):
            partial.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{_PREFIX}{number:06d}{_SUFFIX}"

    def _read(self, path: Path) -> tuple[Arrays, dict[str, Any]]:
        try:
            stored = safetensors.numpy.load_file(path)
            with safetensors.safe_open(path, framework="numpy") as file:
                about = json.loads(file.metadata()[_ABOUT])
            arrays = {name: stored[name] for name in about["names"]}
            if _digest(arrays, about["scalars"]) != about["sha256"]:
                raise ValueError("its SHA-256 is not the recorded one")
            return arrays, dict(json.loads(about["scalars"]))
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: damaged private state, {error}; start the run again with --overwrite"
            ) from None


def checkpoint_rounds(config: Mapping[str, Any]) -> list[int]:
    """The checkpoints that a message says a resume may go back to."""
    return [int(number) for number in str(config["checkpoint-rounds"]).split(",")]


def _digest(arrays: Arrays, scalars: str) -> str:
    return hashlib.sha256((fingerprint(arrays) + scalars).encode()).hexdigest()
