"""Where a run's houses come from: the project's generator or files on disk, converted once and kept in the cache.

data-dir empty   houses are generated into <cache-dir>/generated-<digest>
features a file  it is converted into <cache-dir>/views-<digest>; a folder is used as it is
always           instructions are checked and split by house into <cache-dir>/houses-<digest>
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.errors import InputError
from fedsuite.vln.annotations import annotation_files
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.graph import NUM_VIEWS
from fedsuite.vln.houses import HouseSettings, write_houses
from fedsuite.vln.prepare import (
    HDF5_SUFFIXES,
    digest_of,
    prepare_houses,
    prepare_views,
)

GENERATOR_VERSION = 1  # raise it when generated houses change, so that cached ones are made anew
LAYOUT_VERSION = 1  # the same for prepared folders
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Sources:
    """Folders of one run. manifest: what `prepare_houses` wrote; feature_size: F."""

    connectivity_dir: Path
    houses_dir: Path
    views_dir: Path
    manifest: dict[str, Any]
    feature_size: int

    @property
    def training_scans(self) -> list[str]:
        """Training houses in order of first appearance: the order of the clients."""
        return list(self.manifest["splits"]["train"])

    @property
    def vocabulary_size(self) -> int:
        """V."""
        return int(self.manifest["vocabulary"])

    @property
    def unseen_scans(self) -> list[str]:
        """Validation houses that nobody trains in."""
        return [s for s in self.manifest["splits"]["val_unseen"] if s not in self.training_scans]


@dataclass(frozen=True)
class _Places:
    data_dir: Path
    houses_dir: Path
    views_dir: Path
    generated: HouseSettings | None


def _places(config: FedVLNConfig) -> _Places:
    cache = Path(config.cache_dir)
    if not config.data_dir:
        if config.dataset != "r2r":
            raise InputError(
                f"data-dir: empty, but dataset is {config.dataset}; generated houses are annotated as R2R, give a folder "
                "with connectivity/ and annotations/"
            )
        settings = HouseSettings(
            seed=config.houses_seed,
            num_seen=config.generated_seen_houses,
            num_unseen=config.generated_unseen_houses,
            paths_per_house=config.generated_paths_per_house,
            feature_size=config.generated_feature_size,
        )
        name = digest_of(GENERATOR_VERSION, settings)
        data, generated = cache / f"generated-{name}", settings
        key = digest_of(LAYOUT_VERSION, name, config.min_word_count)
        return _Places(data, cache / f"houses-{key}", data / "views", generated)
    data = Path(config.data_dir)
    _refuse_missing(data, config)
    files = list(annotation_files(data, config.dataset).values())
    if absent := [f for f in files if not f.is_file()]:
        names = ", ".join(f.name for f in files)
        raise InputError(f"{absent[0]}: no such file; data-dir needs {names} in annotations/")
    # R2R is English alone: its language says nothing, and must not make another folder.
    kind = [config.dataset, config.language] if config.dataset == "rxr" else [config.dataset]
    key = digest_of(LAYOUT_VERSION, *files, config.min_word_count, *kind)
    features = Path(config.features)
    views = features
    if features.is_file():
        views = cache / f"views-{digest_of(LAYOUT_VERSION, features, data.resolve())}"
    return _Places(data, cache / f"houses-{key}", views, None)


def _refuse_missing(data: Path, config: FedVLNConfig) -> None:
    if not data.is_dir():
        raise InputError(
            f"data-dir: {data} is not a folder; give one with connectivity/ and annotations/"
        )
    if not config.features:
        raise InputError(
            "features: empty, but data-dir is set; give a .tsv or .hdf5 file or a prepared folder"
        )
    features = Path(config.features)
    if not features.exists():
        raise InputError(
            f"features: {features} does not exist; give a .tsv or .hdf5 file or a prepared folder"
        )
    if features.is_file() and features.suffix not in (".tsv", *HDF5_SUFFIXES):
        raise InputError(
            f"features: {features} is no .tsv, .hdf5 or .h5 file; convert it to one of these"
        )


def prepare_sources(config: FedVLNConfig, progress: Progress = lambda _: None) -> Sources:
    """Generate, convert and check all that a run reads; InputError before anything is trained."""
    places = _places(config)
    if places.generated is not None and not (places.data_dir / "annotations").is_dir():
        partial = places.data_dir.with_name(places.data_dir.name + ".partial")
        write_houses(places.generated, partial, lambda scan: progress(f"generated house {scan}"))
        partial.rename(places.data_dir)
    if not (places.houses_dir / "manifest.json").is_file():
        prepare_houses(
            places.data_dir,
            places.houses_dir,
            config.min_word_count,
            progress,
            config.dataset,
            config.language,
        )
    if not places.views_dir.is_dir():
        prepare_views(
            Path(config.features), places.data_dir / "connectivity", places.views_dir, progress
        )
    return open_sources(config)


@lru_cache(maxsize=4)
def open_sources(config: FedVLNConfig) -> Sources:
    """The prepared folders of a run, with every house's view file checked by its header."""
    places = _places(config)
    manifest = json.loads((places.houses_dir / "manifest.json").read_text())
    scans = list(dict.fromkeys(s for names in manifest["splits"].values() for s in names))
    widths = {s: _width(places.views_dir, s, manifest["panoramas"][s]) for s in scans}
    width = widths[scans[0]]
    for scan, other in widths.items():
        if other != width:
            raise InputError(
                f"features: {places.views_dir / scan}.npy has width {other}, {scans[0]}.npy has {width}; convert "
                "all houses from one feature file"
            )
    if config.feature_size and config.feature_size != width:
        raise InputError(
            f"features: width {width} in {config.features or places.views_dir}, but feature-size is "
            f"{config.feature_size}; give the matching feature file or set feature-size={width}"
        )
    return Sources(
        places.data_dir / "connectivity", places.houses_dir, places.views_dir, manifest, width
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
