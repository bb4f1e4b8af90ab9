"""Where a run's silos come from: the project's roads or recorded drives, written once and kept in the cache.

data.dir empty   roads are generated into <cache-dir>/roads-<digest>
data.dir given   its drives are converted into <cache-dir>/drives-<digest>
"""

import hashlib
import json
import shutil
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.drives import find_drives, prepare_drives
from fedsuite.driving.data.frames import Frames, Silo, is_finished, open_silo, silo_names
from fedsuite.driving.data.readers import ReadOptions
from fedsuite.driving.data.roads import RoadSettings, generate_silos
from fedsuite.driving.plan import Plan, make_plan
from fedsuite.errors import InputError
from fedsuite.progress import Progress, silent
from fedsuite.roster import Member, Roster

GENERATOR_VERSION = 1  # raise it when generated roads change, so that cached ones are made anew
LAYOUT_VERSION = 1  # the same for converted drives
POOLED_NAME = "all-silos"


def data_plan(config: CDLConfig) -> Plan:
    """The plan where the data are: without num-silos, recorded drives are one silo each."""
    drives = 0
    if config.data.dir and not config.data.num_silos:
        drives = len(find_drives(Path(config.data.dir), config.data.kind))
    return make_plan(config, drives)


def make_roster(config: CDLConfig, progress: Progress = silent) -> Roster:
    """Generate or convert the silos, and say who holds which: every member's silos and their frames."""
    plan = data_plan(config)
    silos = open_silos(
        prepare_sources(config, plan.num_data_silos, progress), config.federation.pooled
    )
    members = []
    for held in plan.silos_of:
        own = [silos[i] for i in held]
        name = own[0].name if len(own) == 1 else f"{own[0].name}..{own[-1].name}"
        frames = [len(s.train) for s in own]
        details = {"silos": list(held), "names": [s.name for s in own], "frames": frames}
        members.append(Member(name, "silo", sum(frames), details))
    return Roster(tuple(members), {"silos": plan.num_data_silos})


def prepare_sources(config: CDLConfig, count: int, progress: Progress = silent) -> Path:
    """Generate or convert the frames of `count` silos; the folder that holds them."""
    folder = silos_folder(config, count)
    if is_finished(folder):
        return folder
    if config.data.dir:
        prepare_drives(
            folder,
            Path(config.data.dir),
            kind=config.data.kind,
            size_px=config.data.image_size,
            channels=config.data.channels,
            num_silos=config.data.num_silos,
            dirichlet=config.data.dirichlet,
            test_share=config.data.test_share,
            seed=config.data.generated_seed,
            progress=progress,
            read=ReadOptions(
                angle_scale=config.data.angle_scale,
                angle_limit=config.data.angle_limit,
                positive=config.data.angle_positive,
            ),
        )
    else:
        generate_silos(folder, road_settings(config, count), progress)
    return folder


def road_settings(config: CDLConfig, count: int) -> RoadSettings:
    """The generator's part of the configuration."""
    choices: Any = config.data  # its texts are checked to be among RoadSettings' choices
    return RoadSettings(
        character=choices.road_character,
        num_silos=count,
        train_frames=config.data.train_frames,
        test_frames=config.data.test_frames,
        sizes=choices.silo_sizes,
        size_px=config.data.image_size,
        channels=config.data.channels,
        label_skew=config.data.label_skew,
        appearance_skew=config.data.appearance_skew,
        concept_skew=config.data.concept_skew,
        label_noise=config.data.label_noise,
        seed=config.data.generated_seed,
    )


def silos_folder(config: CDLConfig, count: int) -> Path:
    """Where the silos of this configuration lie; nothing is read but sizes and times of the drives' files."""
    if not config.data.dir:
        key = _digest(GENERATOR_VERSION, asdict(road_settings(config, count)))
        return Path(config.data.cache_dir) / f"roads-{key}"
    data = Path(config.data.dir)
    if not data.is_dir():
        raise InputError(f"data.dir: {data} is not a folder; give one that holds recorded drives")
    files = sorted(p for p in data.rglob("*") if p.is_file())
    seen = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    options = (
        config.data.kind, config.data.image_size, config.data.channels, config.data.num_silos,
        config.data.dirichlet, config.data.test_share, config.data.generated_seed,
        config.data.angle_scale, config.data.angle_limit, config.data.angle_positive,
    )  # fmt: skip
    return Path(config.data.cache_dir) / f"drives-{_digest(LAYOUT_VERSION, options, seen)}"


def discard(folder: Path) -> None:
    """Forget prepared silos, so that the next run prepares them again."""
    shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=128)
def open_silos(folder: Path, pooled: bool) -> tuple[Silo, ...]:
    """The silos of a prepared folder; pooled: all of them as one."""
    if pooled:
        return (open_own(folder, POOLED_NAME),)
    return tuple(open_own(folder, name) for name in silo_names(folder))


def open_own(folder: Path, name: str) -> Silo:
    """One silo and nothing of others; the pooled one is all of them."""
    if name != POOLED_NAME:
        return open_silo(folder, name)
    silos = open_silos(folder, False)
    return Silo(name, _joined([s.train for s in silos]), _joined([s.test for s in silos]))


def _joined(parts: list[Frames]) -> Frames:
    return Frames(
        np.concatenate([p.images for p in parts]), np.concatenate([p.angles for p in parts])
    )


def _digest(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
