"""Where a run's houses come from: the project's generator or files on disk, converted once and kept in the cache.

data.dir empty   houses are generated into <cache-dir>/generated-<digest>
features a file  it is converted into <cache-dir>/views-<digest>; a folder is used as it is
always           instructions are checked and split by house into <cache-dir>/houses-<digest>
"""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.errors import InputError
from fedsuite.progress import Progress, silent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.annotations import annotation_files
from fedsuite.vln.data.graph import NUM_VIEWS
from fedsuite.vln.data.prepare import (
    HDF5_SUFFIXES,
    digest_of,
    prepare_houses,
    prepare_views,
)
from fedsuite.vln.generator.houses import HouseSettings, write_houses

GENERATOR_VERSION = 1  # raise it when generated houses change, so that cached ones are made anew
LAYOUT_VERSION = 1  # the same for prepared folders


@dataclass(frozen=True)
class Places:
    """Folders of one run. generated: how the houses were made, None for recorded ones."""

    data_dir: Path
    houses_dir: Path
    views_dir: Path
    generated: HouseSettings | None = None

    @property
    def connectivity_dir(self) -> Path:
        """Nav graphs."""
        return self.data_dir / "connectivity"


@dataclass(frozen=True)
class Sources(Places):
    """What lies there. manifest: what `prepare_houses` wrote; feature_size: F."""

    manifest: dict[str, Any] = field(default_factory=dict)
    feature_size: int = 0

    @property
    def training_scans(self) -> list[str]:
        """Training houses in order of first appearance: the order of the clients."""
        return list(self.manifest["splits"]["train"])

    @property
    def unseen_scans(self) -> list[str]:
        """Validation houses that nobody trains in."""
        return [s for s in self.manifest["splits"]["val_unseen"] if s not in self.training_scans]


def places_of(config: FedVLNConfig) -> Places:
    """Where everything of a run lies or will lie; of data files only sizes and times are read."""
    cache = Path(config.data.cache_dir)
    if not config.data.dir:
        if config.data.dataset != "r2r":
            raise InputError(
                f"data.dir: empty, but data.dataset is {config.data.dataset}; generated houses are annotated as R2R, give a "
                "folder with connectivity/ and annotations/"
            )
        settings = HouseSettings(
            seed=config.data.houses_seed(config.seed),
            num_seen=config.data.generated_seen_houses,
            num_unseen=config.data.generated_unseen_houses,
            paths_per_house=config.data.generated_paths_per_house,
            feature_size=config.data.generated_feature_size,
        )
        name = digest_of(GENERATOR_VERSION, settings)
        data, generated = cache / f"generated-{name}", settings
        key = digest_of(LAYOUT_VERSION, name, config.data.min_word_count)
        return Places(data, cache / f"houses-{key}", data / "views", generated)
    data = Path(config.data.dir)
    _refuse_missing(data, config)
    files = list(annotation_files(data, config.data.dataset).values())
    if absent := [f for f in files if not f.is_file()]:
        names = ", ".join(f.name for f in files)
        raise InputError(f"{absent[0]}: no such file; data.dir needs {names} in annotations/")
    # R2R is English alone: its language says nothing, and must not make another folder.
    kind = (
        [config.data.dataset, config.data.language]
        if config.data.dataset == "rxr"
        else [config.data.dataset]
    )
    key = digest_of(LAYOUT_VERSION, *files, config.data.min_word_count, *kind)
    features = Path(config.data.features)
    views = features
    if features.is_file():
        views = cache / f"views-{digest_of(LAYOUT_VERSION, features, data.resolve())}"
    return Places(data, cache / f"houses-{key}", views, None)


def _refuse_missing(data: Path, config: FedVLNConfig) -> None:
    if not data.is_dir():
        raise InputError(
            f"data.dir: {data} is not a folder; give one with connectivity/ and annotations/"
        )
    if not config.data.features:
        raise InputError(
            "data.features: empty, but data.dir is set; give a .tsv or .hdf5 file or a prepared folder"
        )
    features = Path(config.data.features)
    if not features.exists():
        raise InputError(
            f"data.features: {features} does not exist; give a .tsv or .hdf5 file or a prepared folder"
        )
    if features.is_file() and features.suffix not in (".tsv", *HDF5_SUFFIXES):
        raise InputError(
            f"data.features: {features} is no .tsv, .hdf5 or .h5 file; convert it to one of these"
        )


def prepare_sources(config: FedVLNConfig, progress: Progress = silent) -> Sources:
    """Generate, convert and check all that a run reads; InputError before anything is trained."""
    places = places_of(config)
    if places.generated is not None and not (places.data_dir / "annotations").is_dir():
        partial = places.data_dir.with_name(places.data_dir.name + ".partial")
        write_houses(places.generated, partial, progress)
        partial.rename(places.data_dir)
    if not (places.houses_dir / "manifest.json").is_file():
        prepare_houses(
            places.data_dir,
            places.houses_dir,
            config.data.min_word_count,
            progress,
            config.data.dataset,
            config.data.language,
        )
    if not places.views_dir.is_dir():
        prepare_views(
            Path(config.data.features), places.connectivity_dir, places.views_dir, progress
        )
    return open_sources(config)


@lru_cache(maxsize=4)
def open_sources(config: FedVLNConfig) -> Sources:
    """The prepared folders of a run, with every house's view file checked by its header."""
    places = places_of(config)
    manifest = json.loads((places.houses_dir / "manifest.json").read_text())
    scans = list(dict.fromkeys(s for names in manifest["splits"].values() for s in names))
    widths = {s: _width(places.views_dir, s, manifest["panoramas"][s]) for s in scans}
    width = widths[scans[0]]
    for scan, other in widths.items():
        if other != width:
            raise InputError(
                f"data.features: {places.views_dir / scan}.npy has width {other}, {scans[0]}.npy has {width}; convert "
                "all houses from one feature file"
            )
    if config.data.feature_size and config.data.feature_size != width:
        raise InputError(
            f"data.features: width {width} in {config.data.features or places.views_dir}, but data.feature-size is "
            f"{config.data.feature_size}; give the matching feature file or set data.feature-size={width}"
        )
    return Sources(
        places.data_dir, places.houses_dir, places.views_dir, places.generated, manifest, width
    )


def _width(views_dir: Path, scan: str, panoramas: int) -> int:
    file = views_dir / f"{scan}.npy"
    try:
        views = np.load(file, mmap_mode="r")
    except FileNotFoundError:
        raise InputError(
            f"{file}: no such file; the features lack house {scan}, convert them again"
        ) from None
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{file}: truncated or no array file ({error}); convert the features again"
        ) from None
    if views.ndim != 3 or views.shape[:2] != (panoramas, NUM_VIEWS) or views.dtype != np.float32:
        raise InputError(
            f"{file}: expected float32 [{panoramas}, {NUM_VIEWS}, F], got {views.dtype} {list(views.shape)}; convert "
            "the features again"
        )
    return int(views.shape[2])
