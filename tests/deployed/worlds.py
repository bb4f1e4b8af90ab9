"""What is deployed in trials: small runs of every system, with the real data of each node in a folder of its own.

A world is a TOML, and what a node has: what to write into its folder, and keys of its [data].
"""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py

from fedsuite.settings.config import Value
from tests.harness import toml_from

SHARED = Path(__file__).parents[3] / "shared"
Own = Callable[[Path, str], None]  # writes what the node of this name has into this folder


@dataclass(frozen=True)
class World:
    """settings: short keys of the run; names: members in order, () = those of generated data; joint: the data of all.

    keys: of [data] in a node's file, and of the run as a simulation; values are relative to the folder of the data.
    """

    settings: Mapping[str, Any]
    names: tuple[str, ...] = ()
    own: Own | None = None
    keys: Mapping[str, str] = field(default_factory=dict)

    def toml(self, file: Path, **more: Value) -> Path:
        file.write_text(toml_from(self.settings, **more), encoding="utf-8")
        return file


# --- houses ---------------------------------------------------------------------------------------
_AGENT: dict[str, Any] = {
    "system": "fedvln", "hidden-size": 32, "word-embedding-size": 16, "action-embedding-size": 8,
    "angle-feature-size": 8, "max-actions": 6, "train-max-actions": 5, "max-instruction-length": 40,
    "max-generated-length": 12, "batch-size": 16, "learning-rate": 1e-3, "participation-rate": 1.0, "local-epochs": 1,
    "objective": "imitation", "server-learning-rate": 1.0, "server-optimizer": "nesterov", "client-optimizer": "kept",
}  # fmt: skip
# The smallest of Room-to-Room: two to train in, two of val-unseen; in the order of a simulation's roster.
HOUSES = ("Pm6F8kyY3z2", "GdvgFV5R1Z5", "8194nk5LbLH", "pLe4wQe7qrG")


def house(views: Path) -> Own:
    """What of Room-to-Room a house has: its graph, its instructions, its views."""

    def write(folder: Path, name: str) -> None:
        write_houses(folder, [name], views)

    return write


def write_houses(folder: Path, names: Iterable[str], views: Path) -> None:
    """The houses `names` of Room-to-Room; views: made by ../shared/tools/make_r2r_views.py."""
    source, names = SHARED / "data" / "r2r", list(names)
    (folder / "connectivity").mkdir(parents=True)
    (folder / "annotations").mkdir()
    for name in names:
        shutil.copy(source / "connectivity" / f"{name}_connectivity.json", folder / "connectivity")
    for file in (source / "annotations").glob("R2R_*.json"):
        own = [item for item in json.loads(file.read_text()) if item["scan"] in names]
        (folder / "annotations" / file.name).write_text(json.dumps(own))
    with h5py.File(views) as read, h5py.File(folder / "views.hdf5", "w") as written:
        for key in (k for k in read if k.partition("_")[0] in names):
            written[key] = read[key][()]


def houses(views: Path, **changes: Value) -> World:
    keys = {"dir": ".", "features": "views.hdf5"}
    return World({**_AGENT, **changes}, HOUSES, house(views), keys)


# --- silos ----------------------------------------------------------------------------------------
_RING: dict[str, Any] = {
    "system": "cdl", "underlay": "auto", "scenario": "ring", "image-size": 48, "batch-size": 8, "loss": "kl",
    "local-updates": 4, "silos-per-client": 1,
}  # fmt: skip
DRIVES = tuple(f"udacity_sim_{letter}" for letter in "cdef")


def drive(folder: Path, name: str) -> None:
    """The recorded drive of one vehicle."""
    shutil.copytree(SHARED / "data" / "driving" / name, folder / name)


def drives(**changes: Value) -> World:
    return World({**_RING, **changes}, DRIVES, drive, {"dir": "."})


def generated_drives(**changes: Value) -> World:
    sizes = {"num-silos": 4, "underlay": "gaia", "train-frames": 24, "test-frames": 8}
    return World({**_RING, **sizes, **changes})


# --- parties --------------------------------------------------------------------------------------
_PARTIES: dict[str, Any] = {
    "system": "fedrl", "parallel-episodes": 16, "num-rounds": 2, "batch-size": 8, "memory": 200, "filters": 4,
    "step-limit": 4, "evaluation-episodes": 16,
}  # fmt: skip


def maps(**changes: Value) -> World:
    return World({**_PARTIES, "maps": 200, "round-length": 32, **changes})


def texts(**changes: Value) -> World:
    own = {"world": "text2action", "corpus": "generated", "max-words": 12, "round-length": 32}
    short = {k: v for k, v in _PARTIES.items() if k != "step-limit"}
    return World({**short, **own, "last-word-bonus": 0.0, **changes})
