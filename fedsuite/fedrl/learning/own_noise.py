"""Noise that only one party can draw, and that never goes on two different things.

Noise of the run's seed can be drawn, and taken off, by everybody who has the run-config. A party with a noise-seed of its
own mixes it with the run's key and with a nonce of the operating system, which is kept beside the party's state: two runs
share no noise, a resumed run has the noise of an uninterrupted one.

Each step of the protocol is a *slot*: the proposal of an exchange, its minibatches, a tick of a test. If the same noise
went on Q and on Q', their difference would leave without any. So what a slot was first used for is written down as a hash,
before it is answered; a slot that comes again (a lost answer, a resume) gets the same Q-values, or nothing. Where that
record is lost, and the nonce is not, there is no noise any more.
"""

import hashlib
import os
from functools import cached_property
from pathlib import Path

import numpy as np

from fedsuite.errors import InputError
from fedsuite.storage.files import PRIVATE_FILE, make_private, telling, write_atomically


class OwnNoise:
    """noise_seed: of the node; run_key: of the run; folder: where this party keeps its state of the run."""

    def __init__(self, noise_seed: int, run_key: str, folder: Path) -> None:
        self._noise_seed, self._run_key, self._folder = noise_seed, run_key, folder

    @cached_property
    def seed(self) -> int:
        """Of all noise of this party in this run, 128 bits."""
        text = f"{self._noise_seed}|{self._run_key}|{self._nonce().hex()}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")

    def once(self, slot: str, values: np.ndarray) -> None:
        """Before noise goes on `values` in this slot; InputError if the slot was used for other values."""
        digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:32]
        kept = self._answered()
        begin = kept.find(f"\n{slot} ".encode())
        if begin < 0:
            self._write_down(f"{slot} {digest}\n".encode())
            return
        before = kept[begin + 1 :].split(b"\n", 1)[0].split(b" ")[-1].decode()
        if before != digest:
            raise InputError(
                f"{self._file}: {slot} was answered before, for other Q-values, and the same noise must not go on both; let "
                "the run be resumed with the state, data and device that it had, or started again under another name"
            )

    @property
    def _file(self) -> Path:
        return self._folder / "answered"

    @property
    def _nonce_file(self) -> Path:
        return self._folder / "nonce"

    def _answered(self) -> bytes:
        """Whole lines of what has been written down, a line break before each."""
        with telling(self._file):
            kept = self._file.read_bytes() if self._file.exists() else None
        if kept is None and self._nonce_file.exists():
            raise InputError(
                f"{self._file}: no such file beside nonce, so nobody knows what this noise went on; put it back, or start "
                "the run again under another name"
            )
        kept = kept or b""
        whole, _, torn = kept.rpartition(b"\n")
        if torn:  # the answer to it never left
            os.truncate(self._file, len(kept) - len(torn))
        return b"\n" + whole + b"\n"

    def _write_down(self, line: bytes) -> None:
        with telling(self._file):
            make_private(self._folder)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
            try:
                os.write(descriptor, line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _nonce(self) -> bytes:
        """32 bytes, drawn when the run begins here."""
        file = self._nonce_file
        with telling(file):
            if not file.exists():
                self._write_down(b"")  # from now on it is missed
                write_atomically(file, os.urandom(32), private=True)
            nonce = file.read_bytes()
        if len(nonce) != 32:
            raise InputError(
                f"{file}: damaged, {len(nonce)} bytes in place of 32; put it back from a copy"
            )
        return nonce
