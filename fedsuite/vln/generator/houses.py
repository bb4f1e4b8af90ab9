"""Whole generated houses in the formats of Room-to-Room: a data set that needs no download.

House k depends on (seed, k) alone: more houses leave the earlier ones, and their order as clients, as they were. Every
eighth training house is hardly annotated, as a few are in R2R (Anderson et al. 2018). Results on these houses say nothing
about real ones.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fedsuite.errors import InputError
from fedsuite.randomness import rng_for
from fedsuite.storage.progress import Progress, silent
from fedsuite.vln.generator.house_plan import House, draw_house
from fedsuite.vln.generator.language import Instruction, describe
from fedsuite.vln.generator.parallel import mapped
from fedsuite.vln.generator.routes import Route, draw_paths
from fedsuite.vln.generator.views import house_views

UNSEEN_FIRST = 10_000
PATHS_PER_ID_BLOCK = 20_000
SMALL_EVERY, SMALL_AT = 8, 6
SPLITS = ("train", "val_seen", "val_unseen")
Entry = dict[str, object]  # a path's record in an annotation file


@dataclass(frozen=True)
class HouseSettings:
    """paths_per_house (train) and unseen_paths (val_unseen) are typical numbers; houses differ by about 20 %.

    style_strength scales how much each house looks its own way, view_noise the noise of every single view.
    """

    seed: int = 0
    num_seen: int = 16
    num_unseen: int = 6
    paths_per_house: int = 60
    val_seen_paths: int = 8
    unseen_paths: int = 40
    feature_size: int = 64
    style_strength: float = 1.0
    view_noise: float = 0.3

    def __post_init__(self) -> None:
        limits = {
            "seed": (0, 2**63), "num_seen": (1, UNSEEN_FIRST), "num_unseen": (0, UNSEEN_FIRST),
            "paths_per_house": (1, PATHS_PER_ID_BLOCK // 2), "val_seen_paths": (0, PATHS_PER_ID_BLOCK // 4),
            "unseen_paths": (1, PATHS_PER_ID_BLOCK // 2), "feature_size": (8, 4096),
            "style_strength": (0, 10), "view_noise": (0, 10),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError(
                    f"{name}: expected {low} to {high}, got {value}; choose a value in this range"
                )


@dataclass(frozen=True)
class AnnotatedPath:
    """One path with its instructions; entry() is its R2R record."""

    route: Route
    split: str
    path_id: int
    instructions: tuple[Instruction, ...]

    def entry(self) -> Entry:
        house, path = self.route.house, self.route.path
        return {
            "distance": round(float(house.shortest[0][path[0], path[-1]]), 2),
            "scan": house.scan,
            "path_id": self.path_id,
            "path": [house.viewpoint_ids[i] for i in path],
            "heading": self.route.heading_rad,
            "instructions": [i.text for i in self.instructions],
        }


def house_numbers(settings: HouseSettings) -> list[int]:
    """Numbers of the seen houses, then of the unseen ones (which start at UNSEEN_FIRST)."""
    return [*range(settings.num_seen), *range(UNSEEN_FIRST, UNSEEN_FIRST + settings.num_unseen)]


def annotate_house(settings: HouseSettings, number: int, house: House) -> list[AnnotatedPath]:
    """All annotated paths of a house, in no particular order."""
    rng = rng_for(settings.seed, "generated-house-paths", 0, number)
    spread = float(rng.uniform(0.8, 1.2))
    if number >= UNSEEN_FIRST:
        counts = {"val_unseen": max(1, round(settings.unseen_paths * spread))}
    elif number % SMALL_EVERY == SMALL_AT:
        train = min(int(rng.integers(4, 11)), settings.paths_per_house)
        counts = {"train": train, "val_seen": min(2, settings.val_seen_paths)}
    else:
        train = max(1, round(settings.paths_per_house * spread))
        counts = {"train": train, "val_seen": settings.val_seen_paths}
    paths = draw_paths(house, rng, sum(counts.values()))
    splits = [split for split, count in counts.items() for _ in range(count)]
    order = rng.permutation(len(paths))
    words = rng_for(settings.seed, "generated-house-words", 0, number)
    annotated: list[AnnotatedPath] = []
    for k, split in zip(order.tolist(), splits, strict=False):
        route = Route(house, paths[k], round(float(rng.uniform(0.001, 2 * np.pi - 0.001)), 3))
        path_id = number * PATHS_PER_ID_BLOCK + len(annotated)
        annotated.append(AnnotatedPath(route, split, path_id, tuple(describe(route, words))))
    return annotated


def connectivity_json(house: House) -> str:
    """The house's `<scan>_connectivity.json`."""
    rows = []
    for i, (x, y, z) in enumerate(house.position_m.tolist()):
        c, s = round(float(np.cos(house.yaw_rad[i])), 6), round(float(np.sin(house.yaw_rad[i])), 6)
        rows.append({
            "image_id": house.viewpoint_ids[i],
            "pose": [c, 0, -s, x, s, 0, c, y, 0, -1, 0, z, 0, 0, 0, 1],
            "included": bool(house.included[i]),
            "visible": house.visible[i].tolist(),
            "unobstructed": house.unobstructed[i].tolist(),
            "height": float(house.height_m[i]),
        })  # fmt: skip
    return json.dumps(rows, separators=(",", ":"))


def write_houses(
    settings: HouseSettings, folder: Path, progress: Progress = silent, processes: int = 0
) -> None:
    """Write all houses to connectivity/, annotations/ and views/ in `folder`, scans.txt last: with it all is complete.

    processes: see `mapped`; the files do not depend on it.
    """
    for name in ("connectivity", "annotations", "views"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    listed: dict[str, list[tuple[float, Entry]]] = {split: [] for split in SPLITS}
    numbers, scans = house_numbers(settings), []
    made = mapped(partial(write_house, settings, folder), numbers, processes)
    for position, (scan, paths) in enumerate(made):
        # Houses are mixed, but first appear in the order of their numbers.
        met: set[str] = set()
        for split, key, entry in paths:
            listed[split].append((key if split in met else position - 1e6, entry))
            met.add(split)
        scans.append(scan)
        progress("generated houses", position + 1, len(numbers))
    for split, entries in listed.items():
        entries.sort(key=lambda e: e[0])
        text = json.dumps([e for _, e in entries], indent=1)
        (folder / "annotations" / f"R2R_{split}.json").write_text(text + "\n", encoding="utf-8")
    (folder / "connectivity" / "scans.txt").write_text("\n".join(scans) + "\n", encoding="utf-8")


def write_house(
    settings: HouseSettings, folder: Path, number: int
) -> tuple[str, list[tuple[str, float, Entry]]]:
    """Write graph and views of one house; its scan, and of every path the split, a key to mix houses by, and the record."""
    house = draw_house(settings.seed, number)
    file = folder / "connectivity" / f"{house.scan}_connectivity.json"
    file.write_text(connectivity_json(house), encoding="utf-8")
    rng = rng_for(settings.seed, "generated-house-views", 0, number)
    looks = settings.feature_size, settings.style_strength, settings.view_noise
    np.save(folder / "views" / f"{house.scan}.npy", house_views(house, rng, *looks))
    rng = rng_for(settings.seed, "generated-house-order", 0, number)
    paths = annotate_house(settings, number, house)
    return house.scan, [(path.split, float(rng.random()), path.entry()) for path in paths]
