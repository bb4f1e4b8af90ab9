"""SHA-256 of what a run has written: equal for a deployment and a simulation of the same run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from clients.sealed_keys import FOLDER as SEALED_KEYS
from clients.sum_state import PEERS
from fedsuite.roster.members import read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.files import sha256_of
from simulations.app.in_python import run

# Folders of private state that differ between equal runs: what is under way, and keys, which are drawn anew.
UNLIKE = ("working", SEALED_KEYS, PEERS)


def digests(folder: RunFolder, states: dict[str, Path]) -> dict[str, str]:
    """Of history, model and the newest of every private state; states: where each member has its own."""
    found = {p.name: p for p in (folder.path / "history.jsonl", folder.model)}
    found |= {f"{n}/{p.relative_to(s)}": p for n, s in states.items() for p in _newest(s)}
    return {name: sha256_of(path.read_bytes()) for name, path in found.items()}


def simulated(folder: RunFolder, names: Sequence[str]) -> dict[str, str]:
    """Of the folder of a simulation, which keeps the states of all these members."""
    return digests(folder, {name: folder.client(name) for name in names})


def of_a_simulation(toml: Path, roster: Path, home: Path) -> dict[str, str]:
    """The same of a run of this roster's members, which is made in `home`."""
    run(
        toml, name="simulated", results_dir=home, quiet=True,
        **{"data.cache-dir": str(home / "cache"), "roster": str(roster)},
    )  # fmt: skip
    return simulated(RunFolder(home / "simulated"), read_roster(roster).names)


def unlike(found: dict[str, str], wanted: dict[str, str]) -> list[str]:
    """Files that are missing on one side, or differ."""
    return sorted(k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k))


def _newest(state: Path) -> Iterator[Path]:
    """Of the versions of each private state only the newest: the others are for resumes, and depend on who asks for them."""
    folders = {p.parent for p in state.rglob("*.safetensors")}
    yield from (max(f.glob("*.safetensors")) for f in sorted(folders) if f.name not in UNLIKE)
