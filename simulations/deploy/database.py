"""The SuperLink's database, an SQLite file of Flower's own: how much of it is empty, and the file without that.

Flower deletes a message when its answer has been fetched, and what is left of a run's messages when the run ends. SQLite
keeps the emptied pages for what comes next, so that the file stays as large as the busiest exchange was. Here SQLite writes
the same rows anew (VACUUM); tables and rows are Flower's, and none of them is touched.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.storage.files import locked
from simulations.deploy.kit.server_folder import ServerFolder


def compacted(server: ServerFolder, dry_run: bool) -> Iterator[str]:
    """Give the database's empty pages back to the disk, or only say how much they are; lines that say so.

    InputError, and the file as it was, while a SuperLink runs on the folder, and for a file that SQLite cannot rewrite.
    """
    if not server.database.is_file():
        yield f"{server.database}: no such file; the SuperLink makes one when it starts"
        return
    with locked(server.path / ".lock", 0.0) as ours:
        if not (ours or dry_run):
            raise InputError(
                f"{server.path}: a `fedsuite deploy server` runs on this folder; stop it between two runs, then give the "
                "command again"
            )
        try:
            size, empty = _sizes(server.database)
            if not dry_run:
                _rewrite(server.database)
        except sqlite3.Error as error:
            raise InputError(
                f"{server.database}: SQLite cannot rewrite it ({error}); end whatever else reads it, and leave as much room "
                "on the disk as it takes"
            ) from None
    if dry_run:
        yield f"{server.database}: {size / 1e6:.1f} MB, {empty / 1e6:.1f} MB of it empty: would be given back"
    else:
        now = server.database.stat().st_size
        yield f"{server.database}: {size / 1e6:.1f} MB before, {now / 1e6:.1f} MB now; runs and nodes in it are kept"


def _sizes(database: Path) -> tuple[int, int]:
    """Bytes of all pages, and of those that are empty."""
    with closing(_opened(database, "ro")) as connection:
        page, pages, empty = (
            int(connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_size", "page_count", "freelist_count")
        )
    return pages * page, empty * page


def _rewrite(database: Path) -> None:
    with closing(_opened(database, "rw")) as connection:
        connection.execute("VACUUM")
        # What a SuperLink that was killed has left in the log beside the database goes into it, too.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _opened(database: Path, mode: str) -> sqlite3.Connection:
    """mode: ro or rw; neither makes a new file."""
    return sqlite3.connect(f"{database.as_uri()}?mode={mode}", uri=True, isolation_level=None)
