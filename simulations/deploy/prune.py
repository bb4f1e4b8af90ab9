"""`fedsuite deploy prune`: the private state of runs that are over, deleted from a node's state-dir; or a smaller database.

A node is not told that a run is over, for it may be resumed: its operator says which runs are, by the keys that the server
keeps in its run folders (`run-key`), or by how long nothing was written. Only names that clients write are deleted.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Annotated

import typer

from fedsuite.errors import InputError
from fedsuite.roster.node import NodeSettings, read_node
from fedsuite.runs.folder import WRITTEN, checked_key
from fedsuite.storage.deleting import check_own, delete, delete_file
from fedsuite.storage.files import telling
from simulations.app.own_node import RUNS
from simulations.deploy.database import compacted
from simulations.deploy.kit.server_folder import read_server
from simulations.systems import load_system

DAY_S = 86400.0
_CLIENTS = "clients/*/"  # in a simulation's run folder; here it is the node itself


@dataclass(frozen=True)
class State:
    """What a node has of one run. files: those of `flower-runs` that name it; written: when it last was, as time.time()."""

    key: str
    folder: Path
    files: tuple[Path, ...]
    written: float
    size: int

    def __str__(self) -> str:
        day = time.strftime("%Y-%m-%d", time.localtime(self.written))
        return f"{self.key}  {self.size / 1e6:.1f} MB, last written {day}"


def prune(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="NODE.toml|DIR/server", help="The node's own file, or the SuperLink's folder."
        ),
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", help="A run that is over, by the run-key in its folder at the server."
        ),
    ] = None,
    idle_days: Annotated[
        float | None,
        typer.Option(min=0.0, help="All runs of which nothing was written for so many days."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
) -> None:
    """Delete what a node keeps of runs that are over; without --run and --idle-days list it. Such runs cannot be resumed.
    Of a SuperLink's folder: give the empty part of the database back to the disk.
    """
    if not place.is_dir():
        lines = pruned(read_node(place, rostered=False), run or [], idle_days, dry_run)
    elif run or idle_days is not None:
        raise InputError(
            "--run, --idle-days: are for a node's state, and this is a folder; give its node.toml, or leave them out"
        )
    else:
        lines = compacted(read_server(place), dry_run)
    for line in lines:
        print(line)


def pruned(
    own: NodeSettings, keys: Sequence[str], idle_days: float | None, dry_run: bool
) -> Iterator[str]:
    """Delete, and say of every run what becomes of it. InputError before anything is, where a key is unknown or something
    lies among the state that no client writes.
    """
    states = {state.key: state for state in states_of(own)}
    if unknown := [key for key in keys if key not in states]:
        raise InputError(
            f"--run {checked_key(unknown[0], '--run')}: nothing of it in {own.state_dir}, which has "
            f"{', '.join(states) or 'no run'}; give one of these"
        )
    oldest = time.time() - (idle_days or 0.0) * DAY_S
    over = {
        k for k, s in states.items() if k in keys or (idle_days is not None and s.written < oldest)
    }
    names = names_of_client(own)
    for key in over:
        check_own(states[key].folder, names)
    for key, state in states.items():
        if key in over and not dry_run:
            delete(state.folder, names)
            for file in state.files:
                delete_file(file)
        done = "would be deleted" if dry_run else "deleted"
        yield f"{state}: {done if key in over else 'kept'}"
    yield f"kept in any case: {own.data.cache_dir}, and Flower's files in {Path(own.state_dir) / 'flower'}"


def states_of(own: NodeSettings) -> Iterator[State]:
    """All runs of which the node keeps something, by key."""
    root = Path(own.state_dir)
    with telling(root):
        known = {file: file.read_text(errors="replace") for file in sorted((root / RUNS).glob("*"))}
        folders = {p.name for p in root.iterdir() if _is_key(p.name)} if root.is_dir() else set()
    for key in sorted({*folders, *filter(_is_key, known.values())}):
        files = tuple(file for file, text in known.items() if text == key)
        found = [p.stat() for p in (root / key).rglob("*") if p.is_file()]
        stamps = [s.st_mtime for s in found] + [file.stat().st_mtime for file in files]
        size = sum(s.st_size for s in found)
        yield State(key, root / key, files, max(stamps, default=0.0), size)


def names_of_client(own: NodeSettings) -> list[str]:
    """What a client of this node writes below the folder of a run, of whatever system that it allows."""
    leaves = [name for system in own.allowed for name in load_system(system).leaves]
    there = [n.removeprefix(_CLIENTS) for n in (*WRITTEN, *leaves) if n.startswith(_CLIENTS)]
    return [f"{escape(own.name)}/{name}" for name in (*there, "nonce", "answered")]


def _is_key(name: str) -> bool:
    try:
        return bool(checked_key(name, ""))
    except InputError:
        return False
