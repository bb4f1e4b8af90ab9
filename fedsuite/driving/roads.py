"""Generated front-camera frames of silos: country roads, corridors and towns, with controlled differences between silos.

Source: the three recordings of Do et al. 2024 (CDL), which cannot be had freely, are imitated in character and label
scale. Poses are drawn independently; the angle is pure pursuit on what the picture shows, so all error above
label_noise can be learned.

    settings = RoadSettings("carla", num_silos=11, seed=1)
    generate_silos(Path("data/carla"), settings, print)
    scene = silo_scene(settings, silo=0)
    poses = sample_poses(scene, 16, rng)                # Poses: values float32 [16, 4]
    images = render(scene, poses, rng)                  # uint8 [16, C, H, W]
    angles = steering(scene, poses, rng)                # float32 [16], rad, left positive
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from fedsuite.driving.frames import INDEX, SPLITS, finish_silos, is_finished
from fedsuite.driving.rendering.scene import (
    Poses,
    Scene,
    render,
    sample_poses,
    silo_scene,
    steering,
)
from fedsuite.driving.rendering.settings import RoadSettings
from fedsuite.errors import InputError
from fedsuite.files import sync_folder, write_json
from fedsuite.randomness import rng_for

__all__ = [
    "Poses",
    "RoadSettings",
    "Scene",
    "generate_silos",
    "render",
    "sample_poses",
    "silo_scene",
    "steering",
]

SOURCE = "generated roads"
WANTED = "settings.json"  # in an unfinished folder: what it is being filled for
LAYOUT_VERSION = 1  # raise when the same settings give other frames


def generate_silos(folder: Path, settings: RoadSettings, progress: Callable[[str], None]) -> None:
    """Fill `folder` with the silos' frames, in the layout of fedsuite.driving.frames, silos silo-00, silo-01, ...

    Does nothing where the folder already holds these settings' frames. Works in a hidden folder beside it, which a
    later call with the same settings goes on filling after an interruption. Frames go straight to disk, so memory
    does not grow with their number. InputError: the folder holds something else.
    """
    about = {
        "source": SOURCE,
        "version": LAYOUT_VERSION,
        "unit": "rad",
        "settings": settings.as_dict(),
    }
    if _is_ready(folder, about):
        progress(f"{folder}: already there")
        return
    partial = folder.with_name(f".{folder.name}.partial")
    _start(partial, about)
    names = [f"silo-{silo:02d}" for silo in range(settings.num_silos)]
    for silo, (name, size) in enumerate(zip(names, settings.train_sizes(), strict=True)):
        if not (partial / name).is_dir():
            _write_silo(partial, name, silo_scene(settings, silo), size, settings)
        progress(f"{name}: {size} + {settings.test_frames} frames ({silo + 1} of {len(names)})")
    finish_silos(partial, names, about)
    if folder.is_dir():
        folder.rmdir()  # empty, see _is_ready
    os.replace(partial, folder)
    (folder / WANTED).unlink()
    sync_folder(folder.parent)


def _is_ready(folder: Path, about: dict[str, object]) -> bool:
    """Whether the folder holds what is wanted; False if it is empty or missing, InputError otherwise."""
    if is_finished(folder):
        if _read(folder / INDEX).get("about") == about:
            return True
        raise InputError(
            f"{folder}: holds frames of other settings; choose another folder or delete this one"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: expected a new or empty folder; choose another one")
    return False


def _start(partial: Path, about: dict[str, object]) -> None:
    """Make the working folder, keeping what an interrupted run with the same settings has left."""
    if _read(partial / WANTED) != about:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write_json(partial / WANTED, about)


def _read(path: Path) -> dict[str, object]:
    """A JSON object; empty where there is none that can be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_silo(partial: Path, name: str, scene: Scene, size: int, settings: RoadSettings) -> None:
    """One silo's two splits, under another name until both are complete."""
    draft = partial / f".{name}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    for split, count in zip(SPLITS, (size, settings.test_frames), strict=True):
        rng = rng_for(settings.seed, f"roads {split}", 0, scene.silo)
        poses = sample_poses(scene, count, rng)
        np.save(draft / f"{split}_angles.npy", steering(scene, poses, rng))
        shape = (count, scene.channels, scene.size_px, scene.size_px)
        images = open_memmap(draft / f"{split}_images.npy", "w+", np.uint8, shape)
        render(scene, poses, rng, out=images)
        images.flush()
    os.replace(draft, partial / name)
