"""nuScenes (Caesar et al. 2020, 1903.11027) with its CAN bus expansion; the folder of the data set is one drive.

    v1.0-<version>/{scene,sample,sample_data}.json     which picture belongs to which scene; timestamps in microseconds
    can_bus/<scene>_steeranglefeedback.json            {utime, value}, microseconds of the same clock, 100 a second
    samples/CAM_FRONT/*.jpg, sweeps/CAM_FRONT/*.jpg    2 key frames a second; 12 pictures a second with the sweeps

Angle: radians of the steering WHEEL, LEFT POSITIVE (nuscenes-devkit, pull requests 371 and 373; older copies of its page
say right), brought to the times of the pictures (clocks.py). Scenes, 20 s each, are runs of their own; some have no CAN bus.
Sweeps count where their files are there.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.driving.data.readers.angles import WHEEL, law_of
from fedsuite.driving.data.readers.clocks import at_times, check_clock
from fedsuite.driving.data.readers.drive import LEFT, Drive, ReadOptions, first_of, name_of
from fedsuite.driving.data.readers.rows import BadRows, kept_frames
from fedsuite.errors import InputError, one_line
from fedsuite.storage.files import check_readable, path_name

KIND = "nuscenes"
CAN, PICTURES = "can_bus", "sample_data.json"
CAMERA = re.compile(r"(?:samples|sweeps)/CAM_FRONT/[\w.+-]+\.jpg")
MICROSECONDS = 1e6
_CHUNK, _LONGEST = 1 << 20, 1 << 16  # characters that are read at once, and of one record


def matches(folder: Path) -> bool:
    return (folder / CAN).is_dir() and any(folder.glob(f"v1.0-*/{PICTURES}"))


def read(folder: Path, options: ReadOptions) -> Drive:
    """The front camera's pictures of all scenes that have a CAN bus, in order of scene and time."""
    file = first_of(folder.glob(f"v1.0-*/{PICTURES}"), f"v1.0-*/{PICTURES}", folder)
    names = {
        str(r["token"]): path_name(r["name"], f"{file.with_name('scene.json')}: a scene's name")
        for r in _records(file, "scene", ("token", "name"))
    }
    scene_of = {
        str(r["token"]): names.get(str(r["scene_token"]), "")
        for r in _records(file, "sample", ("token", "scene_token"))
    }
    seen: dict[str, list[tuple[int, Path]]] = {}
    wanted = ("sample_token", "timestamp", "is_key_frame", "filename")
    for record in _records(file, "sample_data", wanted):
        if not CAMERA.fullmatch(str(record["filename"])):
            continue
        picture, scene = folder / str(record["filename"]), scene_of.get(str(record["sample_token"]))
        if not scene or not _is_whole(record["timestamp"]):
            raise InputError(
                f"{file}: {picture.name} has no scene, or a timestamp that is no number; fetch the file again"
            )
        if record["is_key_frame"] or picture.exists():
            seen.setdefault(scene, []).append((record["timestamp"], picture))
    bad, values, paths, places, runs = BadRows(options.drop), [], [], [], []
    for scene in sorted(seen):
        samples = folder / CAN / f"{scene}_steeranglefeedback.json"
        if not samples.exists():
            bad.found(folder, f"{scene} has no {CAN}/{samples.name}")
            continue
        pictures = sorted(seen[scene])
        values.append(_angles(samples, [time for time, _ in pictures]))
        paths += [path for _, path in pictures]
        places += [f"{scene} {path.name}" for _, path in pictures]
        runs += [len(values)] * len(pictures)
    if not paths:
        raise InputError(
            f"{folder}: no scene has both pictures and {CAN}; fetch the CAN bus expansion"
        )
    law = law_of(WHEEL, LEFT, options)
    angles, kept = kept_frames(folder, places, np.concatenate(values).tolist(), law, bad, paths)
    return Drive(
        name_of(folder), KIND, angles, law.unit, law.sign, tuple(paths[i] for i in kept.tolist()),
        runs=np.array(runs)[kept], limit=law.limit, left_out=len(bad.told), notes=bad.notes(folder),
    )  # fmt: skip


def _angles(file: Path, times_us: list[int]) -> np.ndarray:
    """float64 [n], at the times of the pictures; NaN where no sample is near."""
    pairs = [(r["utime"], r["value"]) for r in _read(file, ("utime", "value"))]
    if not all(_is_whole(t) and (_is_whole(value) or type(value) is float) for t, value in pairs):
        raise InputError(f"{file}: utime and value must be numbers; fetch the file again")
    first = (
        pairs[0][0] if pairs else 0
    )  # as floats, microseconds since 1970 would be off by a quarter of one
    samples = np.array([(time - first) / MICROSECONDS for time, _ in pairs])
    check_clock(file, samples)
    frames = np.array([(time - first) / MICROSECONDS for time in times_us])
    return at_times(frames, samples, np.array([float(value) for _, value in pairs]))


def _is_whole(value: object) -> bool:
    """Whether it is a whole number of at most 64 bits; JSON may hold longer ones than a float can."""
    return type(value) is int and abs(value) < 2**63


def _records(beside: Path, table: str, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    return _read(beside.with_name(f"{table}.json"), keys)


def _read(file: Path, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The flat objects of a JSON list, one by one: the largest table has two million. InputError where a key is missing."""
    check_readable(file)
    if not file.exists():
        raise InputError(f"{file}: no such file; fetch the data set again")
    rest, place = "", 0
    with file.open(encoding="utf-8", errors="replace") as source:
        while part := source.read(_CHUNK):
            *whole, rest = (rest + part).split("}")
            for text in whole:
                yield _record(file, place, text[text.find("{") :] + "}", keys)
                place += 1
            if len(rest) > _CHUNK + _LONGEST:
                break
    if rest.strip() not in ("]", "[]"):
        raise InputError(f"{file}: ends within record {place}; fetch the data set again")


def _record(file: Path, place: int, text: str, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        found = json.loads(text) if len(text) <= _LONGEST else None
        if isinstance(found, dict) and all(key in found for key in keys):
            return found
        reason = f"it must hold {', '.join(keys)}"
    except (ValueError, RecursionError) as error:
        reason = one_line(str(error), 100)
    raise InputError(f"{file}: record {place} cannot be read ({reason}); fetch the data set again")
