"""Generated front-camera frames of silos: country roads, corridors and towns, with controlled differences between silos.

Source: the three recordings of Do et al. 2024 (CDL), which cannot be had freely, are imitated in character and label
scale. Poses are drawn independently; the angle is pure pursuit on what the picture shows, so all error above
label_noise can be learned.

    settings = RoadSettings("carla", num_silos=11, seed=1)
    generate_silos(Path("data/carla"), settings)
    scene = silo_scene(settings, silo=0)
    poses = sample_poses(scene, 16, rng)                # Poses: values float32 [16, 4]
    images = render(scene, poses, rng)                  # uint8 [16, C, H, W]
    angles = steering(scene, poses, rng)                # float32 [16], rad, left positive
"""

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from fedsuite.driving.data.frames import FRAMES, SPLITS, WANTED, WRITTEN, finish_silos, holds
from fedsuite.driving.data.rendering.scene import (
    Poses,
    Scene,
    render,
    sample_poses,
    silo_scene,
    steering,
)
from fedsuite.driving.data.rendering.settings import RoadSettings
from fedsuite.randomness import rng_for
from fedsuite.storage.deleting import delete, delete_file
from fedsuite.storage.files import write_json
from fedsuite.storage.progress import Progress, silent

SOURCE = "generated roads"
LAYOUT_VERSION = 1  # raise when the same settings give other frames


def generate_silos(folder: Path, settings: RoadSettings, progress: Progress = silent) -> None:
    """Fill `folder` with the silos' frames, in the layout of fedsuite.driving.data.frames, silos silo-00, silo-01, ...

    Does nothing where the folder already holds these settings' frames. Works in a hidden folder beside it, which a
    later call with the same settings goes on filling after an interruption. Frames go straight to disk, so memory
    does not grow with their number. InputError: the folder holds something else.
    """
    about = {
        "source": SOURCE,
        "version": LAYOUT_VERSION,
        "unit": "rad",
        "settings": asdict(settings),
    }
    if holds(folder, about):
        progress(f"{folder}: already there")
        return
    partial = folder.with_name(f".{folder.name}.partial")
    try:  # an interrupted run with the same settings has left its silos there
        wanted = json.loads((partial / WANTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        wanted = None
    if wanted != about:
        delete(partial, WRITTEN)
        partial.mkdir(parents=True)
        write_json(partial / WANTED, about)
    names = [f"silo-{silo:02d}" for silo in range(settings.num_silos)]
    for silo, (name, size) in enumerate(zip(names, settings.train_sizes(), strict=True)):
        if not (partial / name).is_dir():
            _write_silo(partial, name, silo_scene(settings, silo), size, settings)
        progress("silos of generated roads", silo + 1, len(names))
    finish_silos(partial, folder, names, about)
    delete_file(folder / WANTED)


def _write_silo(partial: Path, name: str, scene: Scene, size: int, settings: RoadSettings) -> None:
    """One silo's two splits, under another name until both are complete."""
    draft = partial / f".{name}"
    delete(draft, FRAMES)
    draft.mkdir()
    for split, count in zip(SPLITS, (size, settings.test_frames), strict=True):
        rng = rng_for(settings.seed, f"roads {split}", 0, scene.silo)
        poses = sample_poses(scene, count, rng)
        np.save(draft / f"{split}_angles.npy", steering(scene, poses, rng))
        shape = settings.shape_of(count)
        images = open_memmap(draft / f"{split}_images.npy", "w+", np.uint8, shape)
        render(scene, poses, rng, out=images)
        images.flush()
    os.replace(draft, partial / name)


def poses_of(settings: RoadSettings, silo: int, split: str) -> Poses:
    """Where on the road the frames of a silo's split were taken: the poses that its pictures were drawn from."""
    counts = dict(zip(SPLITS, (settings.train_sizes()[silo], settings.test_frames), strict=True))
    rng = rng_for(settings.seed, f"roads {split}", 0, silo)
    return sample_poses(silo_scene(settings, silo), counts[split], rng)
