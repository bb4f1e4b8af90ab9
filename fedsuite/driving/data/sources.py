"""Where a run's silos come from: the project's roads or recorded drives, written once and kept in the cache.

data.dir empty   roads are generated into <cache-dir>/roads-<digest>
data.dir given   its drives are converted into <cache-dir>/drives-<digest>
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedsuite.driving.config import CDLConfig, DataSettings
from fedsuite.driving.data.drives import about_drives, prepare_drives
from fedsuite.driving.data.fleet import read_drives
from fedsuite.driving.data.frames import (
    LEFT_OUT,
    Frames,
    Silo,
    is_finished,
    left_out_of,
    open_silo,
    silo_names,
)
from fedsuite.driving.data.readers import Drive
from fedsuite.driving.data.readers.angles import ONE_UNIT, lock_of
from fedsuite.driving.data.rendering.settings import RoadSettings
from fedsuite.driving.data.roads import generate_silos
from fedsuite.driving.plan import clients_of, make_plan
from fedsuite.errors import InputError
from fedsuite.roster.members import CONTENT, Member, Roster
from fedsuite.roster.node_report import Part
from fedsuite.settings.config import with_keys
from fedsuite.storage.files import in_turn, sha256_of
from fedsuite.storage.progress import Progress, silent

GENERATOR_VERSION = 1  # raise it when generated roads change, so that cached ones are made anew
LAYOUT_VERSION = 2  # the same for converted drives
POOLED_NAME = "all-silos"
RENAMED = {  # settings of the generator that have another name here
    "character": "road_character", "sizes": "silo_sizes", "size_px": "image_size", "seed": "generated_seed"
}  # fmt: skip


def make_roster(config: CDLConfig, progress: Progress = silent) -> Roster:
    """Generate or convert the silos, and say who holds which: every member's silos and their frames."""
    drives = read_drives(config.drawn_data, progress)
    # Held-out drives are no silos.
    names = () if config.data.num_silos else tuple(d.name for d in drives if not d.held_out)
    plan = make_plan(config, len(names), names)
    folder = prepare_sources(config.drawn_data, plan.num_data_silos, drives, progress)
    there = [POOLED_NAME] if config.federation.pooled else silo_names(folder)
    members = []
    for held in plan.silos_of:
        own = [there[i] for i in held]
        name = own[0] if len(own) == 1 else f"{own[0]}..{own[-1]}"
        frames = [len(open_own(folder, silo).train) for silo in own]
        details = {"silos": list(held), "names": own, "frames": frames}
        members.append(Member(name, "silo", sum(frames), details))
    facts: dict[str, object] = {"silos": plan.num_data_silos, "folder": folder.name}
    if content := _content(config, folder, bool(drives)):
        facts[CONTENT] = content
    roster = Roster(tuple(members), facts | _facts_of(drives, left_out_of(folder), progress))
    if config.sabotage.partitions:
        config.sabotage.check_among(clients_of(config, roster))
    return roster


def _content(config: CDLConfig, folder: Path, recorded: bool) -> dict[str, str]:
    """Digests of what a run reads of the user's own: angles of drives (not pictures, which are many), and the network."""
    found = {}
    if recorded:
        silos = (open_silo(folder, name) for name in silo_names(folder))
        angles = (part.angles for silo in silos for part in (silo.train, silo.test))
        found["the drives' angles"] = sha256_of(
            b"".join(sha256_of(a.tobytes()).encode() for a in angles)
        )
    if file := config.federation.underlay_file:
        found["federation.underlay-file"] = sha256_of(Path(file).read_bytes())
    return found


def _facts_of(
    drives: Sequence[Drive], left_out: Mapping[str, int], progress: Progress
) -> dict[str, object]:
    """What a run should know of its drives: unit, largest angle believed, rows left out by drive."""
    if not drives:
        return {}
    if left_out:
        told = ", ".join(f"{name} {count}" for name, count in left_out.items())
        progress(f"rows of drives that are left out: {told}")
    limit = max(drive.limit for drive in drives)
    known = {"source": "drives", "unit": drives[0].unit, "angle-limit": limit}
    return known | ({LEFT_OUT: dict(left_out)} if left_out else {})


def with_limit(config: CDLConfig, roster: Roster) -> CDLConfig:
    """The settings with the limit of the angles that the roster's drives have, unless there is one."""
    limit = roster.facts.get("angle-limit")
    if config.data.angle_limit or not limit:
        return config
    return with_keys(config, {"data.angle-limit": float(limit)})


def prepare_sources(
    data: DataSettings, count: int, drives: Sequence[Drive] = (), progress: Progress = silent
) -> Path:
    """Convert the drives, or generate the frames of `count` silos; the folder that holds them.

    Of processes that want the same silos one makes them, and the others wait.
    """
    folder = silos_folder(data, count, drives)
    if is_finished(folder):
        return folder
    with in_turn(folder, progress):
        if drives:
            prepare_drives(folder, drives, data, progress)
        else:
            generate_silos(folder, road_settings(data, count), progress)
    return folder


def road_settings(data: DataSettings, count: int) -> RoadSettings:
    """The generator's part of the settings: those of the same name, and some of another."""
    own = {f.name: getattr(data, RENAMED.get(f.name, f.name)) for f in fields(RoadSettings)}
    return RoadSettings(**own | {"num_silos": count})


def roster_folder(data: DataSettings, roster: Roster) -> Path:
    """Where the silos of a roster lie; drives are read only where it does not say."""
    name, count = roster.facts.get("folder"), int(roster.facts["silos"])
    return Path(data.cache_dir) / name if name else silos_folder(data, count, read_drives(data))


def part_of(config: CDLConfig, name: str, words: bool, progress: Progress) -> Part:
    """What the roster needs to know of the silo `name`, converted and checked; words: of no meaning here."""
    drives = read_drives(config.drawn_data, progress)
    if not drives:  # every node generates all roads
        whole = make_roster(config, progress)
        return Part("cdl", whole.members[whole.partition_of(name)], whole.facts)
    folder = prepare_sources(config.drawn_data, 0, drives, progress)
    if name not in silo_names(folder):
        raise InputError(
            f"data.dir: {config.data.dir}, which holds {', '.join(silo_names(folder))}; expected a folder with the drive "
            f"{name}, which is what the node's file says it is"
        )
    frames = len(open_silo(folder, name).train)
    facts = _facts_of(drives, left_out_of(folder), progress)
    largest = {"angle-limit": float(str(facts["angle-limit"]))}
    shared = {key: facts[key] for key in ("source", "unit")}
    member = Member(name, "silo", frames, {"names": [name], "frames": [frames]})
    return Part(
        "cdl", member, shared, largest, numbered="silos", counted="silos",
        alike={"full lock": lock_of(drives[0].kind, drives[0].unit)},
        cures={"unit": ONE_UNIT, "full lock": ONE_UNIT},
    )  # fmt: skip


def prepare_own(data: DataSettings, roster: Roster, member: Member) -> Path:
    """Where a member has prepared what lies with it alone; InputError where that is not what the roster says."""
    folder = prepare_sources(data, roster.fact("silos", int), read_drives(data))
    there = silo_names(folder)
    for name, frames in zip(member.names("names"), member.listed("frames", int), strict=True):
        if name not in (*there, POOLED_NAME):
            raise InputError(
                f"data.dir: the roster has {name} at {member.name}, but {data.dir or 'the generated data'} holds "
                f"{', '.join(there)}; name the folder of the drive so, or have the roster made anew"
            )
        if (count := len(open_own(folder, name).train)) != frames:
            raise InputError(
                f"data.dir: {name} has {count} training frames here, {frames} on the roster; give it the run's data.* "
                "keys and the data it was made with, or have it made anew"
            )
    return folder


def silos_folder(data: DataSettings, count: int, drives: Sequence[Drive] = ()) -> Path:
    """Where the silos of these drives, or else of generated roads, lie."""
    if drives:
        name = f"drives-{_digest(LAYOUT_VERSION, about_drives(drives, data))}"
    else:
        name = f"roads-{_digest(GENERATOR_VERSION, asdict(road_settings(data, count)))}"
    return Path(data.cache_dir) / name


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
