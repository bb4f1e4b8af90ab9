"""Replies that outweigh what the server may hold in memory wait on disk until their round is over.

A reply that has been checked stays in memory while all that stay are at most `spill-above`; every other one goes to a file
of its own in the run's folder, and the strategy gets a mapping that reads an array when it is asked for (`Stored` of
fedsuite/arrays.py). No result depends on which reply lies where. Files of a round that was killed go when the run is
resumed.
"""

from dataclasses import replace
from pathlib import Path

from fedsuite.arrays import num_bytes
from fedsuite.averaging.stored import Stored
from fedsuite.federation import Reply
from fedsuite.storage.deleting import delete
from fedsuite.storage.files import telling

MEGABYTE = 10**6


class Spill:
    """most: of the arrays of a round's replies that stay in memory, MB."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most * MEGABYTE
        self.held, self.written = 0, 1  # of a run that was killed there may be some
        self.empty()

    def empty(self) -> None:
        """Forget the round, with its files."""
        written, self.held, self.written = self.written, 0, 0
        if not written:
            return
        with telling(self.folder):
            delete(self.folder, ("*.numbers",))

    def kept(self, reply: Reply) -> Reply:
        """The reply, its arrays on disk where there is no room for them; RunFailed names the folder where that is full."""
        size = num_bytes(reply.arrays.values())
        if self.held + size <= self.most:
            self.held += size
            return reply
        self.written += 1  # a client may answer several times in a round
        with telling(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            file = self.folder / f"{reply.partition}-{self.written}.numbers"
            return replace(reply, arrays=Stored.write(file, reply.arrays))
