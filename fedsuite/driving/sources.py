"""Where a run's silos come from: the project's roads or recorded drives, written once and kept in the cache.

data-dir empty   roads are generated into <cache-dir>/roads-<digest>
data-dir given   its drives are converted into <cache-dir>/drives-<digest>
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.drives import find_drives, prepare_drives
from fedsuite.driving.frames import Frames, Silo, is_finished, open_silo, silo_names
from fedsuite.driving.readers import ReadOptions
from fedsuite.driving.roads import RoadSettings, generate_silos
from fedsuite.errors import InputError

GENERATOR_VERSION = 1  # raise it when generated roads change, so that cached ones are made anew
LAYOUT_VERSION = 1  # the same for converted drives
POOLED_NAME = "all-silos"
Progress = Callable[[str], None]


def num_silos(config: CDLConfig, num_nodes: int) -> int:
    """N: as configured, or one per drive, or one per node of the network."""
    if config.num_silos:
        return config.num_silos
    return (
        len(find_drives(Path(config.data_dir), config.data_kind)) if config.data_dir else num_nodes
    )


def prepare_sources(config: CDLConfig, count: int, progress: Progress = lambda _: None) -> Path:
    """Generate or convert the frames of `count` silos; the folder that holds them."""
    folder = silos_folder(config, count)
    if is_finished(folder):
        return folder
    if config.data_dir:
        prepare_drives(
            folder,
            Path(config.data_dir),
            kind=config.data_kind,
            size_px=config.image_size,
            channels=config.channels,
            num_silos=config.num_silos,
            dirichlet=config.dirichlet,
            test_share=config.test_share,
            seed=config.generated_seed,
            progress=progress,
            read=ReadOptions(
                angle_scale=config.angle_scale,
                angle_limit=config.angle_limit,
                positive=config.angle_positive,
            ),
        )
    else:
        generate_silos(folder, road_settings(config, count), progress)
    return folder


def road_settings(config: CDLConfig, count: int) -> RoadSettings:
    """The generator's part of the configuration."""
    choices: Any = config  # its texts are checked to be among RoadSettings' choices
    return RoadSettings(
        character=choices.road_character,
        num_silos=count,
        train_frames=config.train_frames,
        test_frames=config.test_frames,
        sizes=choices.silo_sizes,
        size_px=config.image_size,
        channels=config.channels,
        label_skew=config.label_skew,
        appearance_skew=config.appearance_skew,
        concept_skew=config.concept_skew,
        label_noise=config.label_noise,
        seed=config.generated_seed,
    )


def silos_folder(config: CDLConfig, count: int) -> Path:
    """Where the silos of this configuration lie; nothing is read but sizes and times of the drives' files."""
    if not config.data_dir:
        key = _digest(GENERATOR_VERSION, asdict(road_settings(config, count)))
        return Path(config.cache_dir) / f"roads-{key}"
    data = Path(config.data_dir)
    if not data.is_dir():
        raise InputError(f"data-dir: {data} is not a folder; give one that holds recorded drives")
    files = sorted(p for p in data.rglob("*") if p.is_file())
    seen = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    options = (
        config.data_kind, config.image_size, config.channels, config.num_silos,
        config.dirichlet, config.test_share, config.generated_seed,
        config.angle_scale, config.angle_limit, config.angle_positive,
    )  # fmt: skip
    return Path(config.cache_dir) / f"drives-{_digest(LAYOUT_VERSION, options, seen)}"


def discard(folder: Path) -> None:
    """Forget prepared silos, so that the next run prepares them again."""
    shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=128)
def open_silos(folder: Path, pooled: bool) -> tuple[Silo, ...]:
    """The silos of a prepared folder; pooled: all of them as one."""
    silos = tuple(open_silo(folder, name) for name in silo_names(folder))
    if not pooled:
        return silos
    return (Silo(POOLED_NAME, _joined([s.train for s in silos]), _joined([s.test for s in silos])),)


def _joined(parts: list[Frames]) -> Frames:
    return Frames(
        np.concatenate([p.images for p in parts]), np.concatenate([p.angles for p in parts])
    )


def _digest(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
