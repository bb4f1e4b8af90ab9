"""All that a restart needs, saved so that it is either complete or absent.

One folder per checkpointed round, `round-000010/`: `arrays.safetensors` (server arrays) and
`state.json` (round, scalars, digest of the configuration, order and SHA-256 of the arrays, SHA-256
of itself). It is written under a temporary name and renamed. Kept are the first (before round 1)
and the last two. Clients keep their private state on their own disks, by round. A damaged
checkpoint is an InputError that says what to delete; no other checkpoint is taken in its place
unasked.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from fedsuite.arrays import Arrays
from fedsuite.errors import InputError
from fedsuite.federation import Scalar, ServerState
from fedsuite.files import sha256_of, sync_folder, write_atomically, write_json

FORMAT = 1
ARRAYS, STATE, PREFIX = "arrays.safetensors", "state.json", "round-"


@dataclass(frozen=True)
class RunState:
    """The server's state after `round` (0: before round 1) under the configuration with this digest."""

    round: int
    state: ServerState
    config_digest: str


def save(folder: Path, run_state: RunState) -> Path:
    """Write a checkpoint into `folder` and drop those no longer kept; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{PREFIX}{run_state.round:06d}"
    temporary = folder / f".{target.name}.{os.getpid()}.partial"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    data = arrays_to_bytes(run_state.state.arrays)
    write_atomically(temporary / ARRAYS, data)
    write_json(temporary / STATE, _with_own_digest(_manifest(run_state, data)))
    if target.exists():
        shutil.rmtree(target)
    os.rename(temporary, target)
    sync_folder(folder)
    _prune(folder)
    return target


def load(path: Path) -> RunState:
    """Read and verify one checkpoint."""
    manifest = _read_manifest(path)
    try:
        data = (path / ARRAYS).read_bytes()
    except OSError:
        raise _damaged(path / ARRAYS, "the file is missing or unreadable", path) from None
    if sha256_of(data) != manifest["arrays-sha256"]:
        raise _damaged(path / ARRAYS, "its SHA-256 is not the recorded one", path)
    try:
        stored = safetensors.numpy.load(data)
        arrays = {name: stored[name] for name in manifest["array-names"]}
    except (safetensors.SafetensorError, KeyError) as error:
        raise _damaged(path / ARRAYS, f"unreadable ({error})", path) from None
    state = ServerState(arrays, manifest["scalars"])
    return RunState(manifest["round"], state, manifest["config-digest"])


def rounds(folder: Path) -> list[int]:
    """Rounds that have a checkpoint, ascending."""
    names = (p.name.removeprefix(PREFIX) for p in folder.glob(f"{PREFIX}*") if p.is_dir())
    return sorted(int(name) for name in names if name.isdecimal())


def latest(folder: Path) -> RunState | None:
    """The newest checkpoint, verified; None if the folder holds none at all."""
    found = rounds(folder)
    return load(folder / f"{PREFIX}{found[-1]:06d}") if found else None


def needed(folder: Path) -> list[int]:
    """The rounds that a resume may go back to short of starting over, ascending; private state of others can go."""
    return rounds(folder)[-2:] or [0]


def discard_after(folder: Path, round: int) -> None:
    """Drop checkpoints of later rounds and leftovers of interrupted writes."""
    for number in rounds(folder):
        if number > round:
            shutil.rmtree(folder / f"{PREFIX}{number:06d}")
    for partial in folder.glob(".*.partial"):
        shutil.rmtree(partial)


def arrays_to_bytes(arrays: Arrays) -> bytes:
    """Safetensors bytes of named arrays of any memory layout."""
    return safetensors.numpy.save({k: np.array(v, order="C") for k, v in arrays.items()})


def _prune(folder: Path) -> None:
    for number in rounds(folder)[1:-2]:
        shutil.rmtree(folder / f"{PREFIX}{number:06d}")


def _manifest(run_state: RunState, data: bytes) -> dict[str, Any]:
    scalars: dict[str, Scalar] = dict(run_state.state.scalars)
    return {
        "format": FORMAT,
        "round": run_state.round,
        "config-digest": run_state.config_digest,
        "scalars": scalars,
        "array-names": list(run_state.state.arrays),
        "arrays-sha256": sha256_of(data),
    }


def _with_own_digest(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest, "sha256": sha256_of(json.dumps(manifest, sort_keys=True).encode())}


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / STATE
    try:
        manifest = json.loads(file.read_bytes())
        own = manifest.pop("sha256")
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise _damaged(file, "missing or no JSON manifest", path) from None
    if _with_own_digest(manifest)["sha256"] != own:
        raise _damaged(file, "its SHA-256 is not the recorded one", path)
    if manifest["format"] != FORMAT:
        raise InputError(
            f"{file}: checkpoint format {manifest['format']}, this version reads {FORMAT}; "
            "resume with the version that wrote it or start a new run"
        )
    return dict(manifest)


def _damaged(file: Path, why: str, path: Path) -> InputError:
    return InputError(
        f"{file}: damaged checkpoint, {why}; delete {path} to resume from the one before it, "
        "or start the run again with --overwrite"
    )
