"""meta/info.json of a LeRobot folder: its version, features, and which of them are the steering angle and the camera.

Formats v2.0, v2.1 and v3.0 of Hugging Face's LeRobot (github.com/huggingface/lerobot). The folder fixes neither the name,
nor the unit, nor the sign of a steering angle: a name is found where only one can be meant, all else has to be said.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.driving.data.readers.drive import LEFT, RIGHT, ReadOptions, name_of
from fedsuite.errors import InputError, one_line
from fedsuite.storage.files import read_object

INFO = Path("meta", "info.json")
PICTURES = ("image", "video")
FLOATS = ("float32", "float64")
KIN = ("action", "observation.state")  # features that may steer; what the driver did comes first
TERM = re.compile(r"\s*([^\[\]]+?)\s*(?:\[([^\[\]]+)\])?\s*")
NO_CAMERA = ("map", "depth", "left", "right", "rear")  # never without being asked for
V2 = (
    "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
)
V3 = (
    "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
    "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
)
LAYOUTS = {"v2.0": V2, "v2.1": V2, "v3.0": V3}


@dataclass(frozen=True)
class Feature:
    """axes: names of its numbers, "0", "1", ... where they have none (named: False). depth: whether it says it is a depth
    map."""

    key: str
    dtype: str
    axes: tuple[str, ...]
    named: bool
    depth: bool


@dataclass(frozen=True)
class Term:
    """One number of a feature: its axis counts from 0, of `size`; factor is 1 or -1."""

    key: str
    axis: int
    size: int
    name: str
    factor: float = 1.0


@dataclass(frozen=True)
class Schema:
    """What info.json says. layout: where rows and videos lie; chunk: files (v3.0) or episodes (v2) a folder."""

    folder: Path
    layout: tuple[str, str]
    fps: float
    frames: int
    episodes: int
    chunk: int
    features: Mapping[str, Feature]

    @property
    def file(self) -> Path:
        return self.folder / INFO


def read_schema(folder: Path) -> Schema:
    """InputError for another version, or where a part that is needed is missing or leads out of the folder."""
    file = folder / INFO
    info = read_object(file, "a LeRobot folder's description", "fetch the folder again")
    version = info.get("codebase_version")
    if not isinstance(version, str) or version not in LAYOUTS:
        raise InputError(
            f"{file}: codebase_version {one_line(str(version), 40)}, expected {', '.join(LAYOUTS)}; convert it with "
            "lerobot's own tools"
        )
    layout = LAYOUTS[version]
    for key, known in zip(("data_path", "video_path"), layout, strict=True):
        if info.get(key) != known and not (key == "video_path" and info.get(key) is None):
            raise InputError(
                f"{file}: {key} {one_line(str(info.get(key)), 100)!r}, expected {known!r} of {version}; arrange "
                "the files so"
            )
    fps = info.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps <= 1000:
        raise InputError(f"{file}: fps {fps!r}, expected frames a second above 0; correct it")
    counts = [info.get(key, 0) for key in ("total_frames", "total_episodes", "chunks_size")]
    if not all(type(count) is int and count > 0 for count in counts):
        raise InputError(
            f"{file}: total_frames, total_episodes, chunks_size are {counts}, expected whole numbers above 0; fetch the "
            "folder again"
        )
    features = info.get("features")
    if not isinstance(features, dict) or not features:
        raise InputError(f"{file}: no features; fetch the folder again")
    found = {key: _feature(file, key, told) for key, told in features.items()}
    frames, episodes, chunk = counts
    return Schema(folder, layout, float(fps), frames, episodes, chunk, found)


def _feature(file: Path, key: str, told: Any) -> Feature:
    if not key.isprintable() or {"/", "\\"} & set(key) or ".." in key:
        raise InputError(f"{file}: feature {key!r} is no name of a folder; rename it")
    shape = told.get("shape") if isinstance(told, dict) else None
    if not isinstance(shape, list) or not all(type(n) is int and n > 0 for n in shape):
        raise InputError(f"{file}: feature {key} has no shape of whole numbers; correct it")
    names = told.get("names")
    if isinstance(names, dict):
        names = next(iter(names.values()), None) if len(names) == 1 else None
    size = shape[0] if len(shape) == 1 else 0
    named = (
        isinstance(names, list) and len(names) == size and all(isinstance(n, str) for n in names)
    )
    facts = [told, *(told[k] for k in ("info", "video_info") if isinstance(told.get(k), dict))]
    depth = any(value is True for own in facts for k, value in own.items() if "is_depth_map" in k)
    axes = tuple(names) if named else tuple(map(str, range(min(size, 1000))))
    return Feature(key, str(told.get("dtype")), axes, named, depth)


def steering_of(schema: Schema, options: ReadOptions) -> tuple[Term, ...]:
    """The number that steers, or two whose difference does; InputError where it is not clear which, or not said how."""
    terms = _said(schema, options.steering) if options.steering else (_found(schema),)
    if not options.own_positive or not (options.unit or options.own_scale):
        normal = any("normalized" in term.name for term in terms)
        unit = ' (perhaps "normalised", by the name)' if normal else ""
        place = options.place or f"[{name_of(schema.folder)}] of drives.toml"
        raise InputError(
            f"{schema.file}: does not say the unit and sign of {terms[0].key}[{terms[0].name}]; say angle-unit{unit} and "
            f'positive = "{LEFT}" or "{RIGHT}" in {place}'
        )
    return terms


def _found(schema: Schema) -> Term:
    floats = [f for f in schema.features.values() if f.dtype in FLOATS]
    for start in KIN:
        steer = [
            Term(f.key, axis, len(f.axes), name)
            for f in floats
            for axis, name in enumerate(f.axes)
            if f.named and f.key.startswith(start) and "steer" in name.lower()
        ]
        if len(steer) == 1:
            return steer[0]
        if steer:
            break
    count = f"{len(steer)} numbers" if steer else "no number"
    raise InputError(
        f'{schema.file}: {count} of {KIN[0]} or {KIN[1]} called steer...; say steering = "FEATURE[AXIS]" in drives.toml, '
        f"one of {_listed(schema)}; velocities are no steering"
    )


def _said(schema: Schema, text: str) -> tuple[Term, ...]:
    """The terms of "feature[axis]" or of the difference of two."""
    found = []
    for number, part in enumerate(re.split(r"(?<=\])\s*-\s*", text)):
        match = TERM.fullmatch(part)
        feature = schema.features.get(match[1]) if match else None
        axes = feature.axes if feature and feature.dtype in FLOATS else ()
        axis = (match[2] or ("" if len(axes) > 1 else "0")).strip() if match else ""
        place = axes.index(axis) if axis in axes else int(axis) if axis.isdecimal() else -1
        if feature is None or not 0 <= place < len(axes) or number > 1:
            raise InputError(
                f"{schema.file}: steering = {one_line(text, 100)!r} in drives.toml is none of {_listed(schema)}, and no "
                "difference of two; correct it"
            )
        found.append(Term(feature.key, place, len(axes), axes[place], (1.0, -1.0)[number]))
    return tuple(found)


def _listed(schema: Schema) -> str:
    """All numbers that may steer."""
    floats = [f for f in schema.features.values() if f.dtype in FLOATS and f.key != "timestamp"]
    return one_line(", ".join(f"{f.key}[{axis}]" for f in floats for axis in f.axes) or "nothing")


def camera_of(schema: Schema, said: str) -> Feature:
    """The camera that was said, or the only one."""
    there = {f.key: f for f in schema.features.values() if f.dtype in PICTURES}
    if said in there:
        return there[said]
    only = next(iter(there.values())) if len(there) == 1 and not said else None
    words = re.split(r"\W|_", only.key.lower()) if only else []
    if only is None or only.depth or any(word in words for word in NO_CAMERA):
        asked = f"camera = {said!r} in drives.toml is" if said else "the front camera may be"
        which = f"{'none' if said else 'any'} of {', '.join(there) or 'no images'}"
        raise InputError(f'{schema.file}: {asked} {which}; say camera = "FEATURE" in drives.toml')
    return only
