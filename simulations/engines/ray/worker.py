"""What a Ray actor does for a run: it imports the ClientApp once and answers messages, one at a time.

A message travels in two parts: a small pickle, and the long blocks of bytes that it refers to by number. So a model that
goes to several clients is put into Ray's store once, whoever gets it.
"""

import io
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from simulations.engines.ray.keeping import Files

LONG = 4096  # bytes; shorter ones stay in the pickle
Parcel = tuple[bytes, list[Any]]


class Worker:
    """One process of a run. environment: variables of its own; paths, folder: where the run finds modules and files; apart:
    it does not have the run's folder, and keeps what clients keep in one of its own (keeping.py); system: of the run, for
    which it imports what clients need before the first message comes."""

    def __init__(
        self,
        paths: Sequence[str],
        folder: str,
        environment: Mapping[str, str],
        apart: bool = False,
        system: str = "",
    ) -> None:
        if os.path.isdir(folder):  # on another host it need not be
            os.chdir(folder)
        os.environ.update(environment)
        sys.path[:] = [*paths, *(p for p in sys.path if p not in paths)]
        from simulations.client_app import app, import_clients
        from simulations.engines.inprocess import answered, server_identity
        from simulations.engines.ray.keeping import Elsewhere

        self.app, self._answered, self._identity = app, answered, server_identity
        self._elsewhere = Elsewhere() if apart else None
        import_clients(system)

    def pid(self) -> int:
        """Of this process."""
        return os.getpid()

    def answer_elsewhere(
        self, files: "Files", small: bytes, *blocks: bytes
    ) -> "tuple[Parcel, Files]":
        """As `answer`, from what the client keeps, and with what it keeps then."""
        assert self._elsewhere is not None
        message, context = opened(small, blocks)
        context.run_config, folder = self._elsewhere.settings(context.run_config)
        before = self._elsewhere.put(folder, files)
        parcel = self._answer(message, context)
        return parcel, self._elsewhere.changed(folder, before)

    def answer(self, small: bytes, *blocks: bytes) -> Parcel:
        """To the parcel of a message and its context that of the reply, with the client's Flower state if there is any."""
        return self._answer(*opened(small, blocks))

    def _answer(self, message: Any, context: Any) -> Parcel:
        with self._identity():
            reply = self._answered(self.app, message, context)
        state = context.state if context.state and not reply.has_error() else None
        said, long = packed((reply, state))
        # Ray copies bytes into its pickle, arrays into its store alone.
        return said, [np.frombuffer(block, np.uint8) for block in long]


def packed(thing: Any) -> Parcel:
    """A pickle, and the blocks of bytes that are not in it."""
    out = io.BytesIO()
    pickler = _Pickler(out, pickle.HIGHEST_PROTOCOL)
    pickler.dump(thing)
    return out.getvalue(), pickler.blocks


def opened(small: bytes, blocks: Sequence[Any]) -> Any:
    """What was packed."""
    return _Unpickler(io.BytesIO(small), blocks).load()


class _Pickler(pickle.Pickler):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.blocks: list[bytes] = []

    def persistent_id(self, obj: Any) -> int | None:
        if type(obj) is not bytes or len(obj) < LONG:
            return None
        self.blocks.append(obj)
        return len(self.blocks) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, blocks: Sequence[Any]) -> None:
        super().__init__(file)
        self.blocks = blocks

    def persistent_load(self, pid: Any) -> bytes:
        return bytes(self.blocks[pid])
