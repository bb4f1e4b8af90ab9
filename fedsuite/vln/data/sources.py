"""Where a run's houses come from: the project's generator or files on disk, converted once and kept in the cache.

data.dir empty   houses are generated into <cache-dir>/generated-<digest>
features a file  it is converted into <cache-dir>/views-<digest>; a folder is used as it is
always           instructions are checked and split by house into <cache-dir>/houses-<digest>

A digest is that of all files read and of the settings that matter; connectivity files decide which row is which panorama.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.errors import InputError
from fedsuite.storage.files import make_folder
from fedsuite.storage.mapped import map_array
from fedsuite.storage.progress import Progress, silent
from fedsuite.storage.read_once import read_once
from fedsuite.vln.config import DataSettings, FedVLNConfig
from fedsuite.vln.data.dataset import read_manifest
from fedsuite.vln.data.graph import NUM_VIEWS, load_graph
from fedsuite.vln.data.prepare import digest_of, prepare_houses, prepare_views, without_test
from fedsuite.vln.data.split_files import (
    Reading,
    absent,
    annotation_files,
    augmented_files,
    test_file,
)
from fedsuite.vln.data.view_files import HDF5_SUFFIXES, check_prepared
from fedsuite.vln.generator.houses import HouseSettings, write_houses
from fedsuite.vln.message_keys import TEST

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

    @property
    def test_scans(self) -> list[str]:
        """Houses of the leaderboard's split alone, where the run submits walks of it."""
        known = {*self.training_scans, *self.unseen_scans}
        return [s for s in self.manifest["splits"].get(TEST, ()) if s not in known]


def submitted_test(config: FedVLNConfig) -> tuple[Path | None, str]:
    """The leaderboard's split that the run is to walk; or None, and why a submission goes without it."""
    own, so = config.data, "the submission is for the validation splits only"
    if not config.evaluation.submission:
        return None, ""
    if not own.dir:
        return None, f"evaluation.submission: generated houses have no test split; {so}"
    file = test_file(Path(own.dir))
    if config.stage == "pre-explore":
        return None, f"evaluation.submission: houses of {file.name} do not practise; {so}"
    if not file.is_file():
        return None, f"evaluation.submission: {file} is not there; {so}"
    return file, ""


def places_of(config: FedVLNConfig) -> Places:
    """Where everything of a run lies or will lie; of data files only sizes and times are read."""
    own, cache = config.data, Path(config.data.cache_dir)
    for complaint in _complaints(own):
        raise InputError(complaint)
    given = [Path(own.vocabulary)] if own.vocabulary else []
    if not own.dir:
        settings = HouseSettings(
            seed=config.data_seed,
            num_seen=own.generated_seen_houses,
            num_unseen=own.generated_unseen_houses,
            paths_per_house=own.generated_paths_per_house,
            feature_size=own.generated_feature_size,
        )
        name = digest_of(GENERATOR_VERSION, settings)
        data = cache / f"generated-{name}"
        key = digest_of(LAYOUT_VERSION, name, own.min_word_count, *given)
        return Places(data, cache / f"houses-{key}", data / "views", settings)
    data, features = Path(own.dir), Path(own.features)
    graphs = sorted((data / "connectivity").glob("*_connectivity.json"))
    test, reading = submitted_test(config)[0], Reading.of(own)
    files = [*annotation_files(data, own.dataset).values(), *([test] if test else [])]
    files += augmented_files(data, reading.augmented)
    kind = reading.digested()
    key = digest_of(LAYOUT_VERSION, *files, *graphs, own.min_word_count, *kind, *given)
    views = features
    if features.is_file():
        cut = own.feature_size and f"first {own.feature_size}"
        views = cache / f"views-{digest_of(LAYOUT_VERSION, features, *graphs, cut)}"
    return Places(data, cache / f"houses-{key}", views, None)


def _complaints(own: DataSettings) -> Iterator[str]:
    """What is wrong with the files named."""
    data, features = Path(own.dir), Path(own.features)
    if own.vocabulary and not Path(own.vocabulary).is_file():
        yield f"data.vocabulary: {own.vocabulary} is no file; give a train_vocab.txt or a run's vocabulary.json"
    if not own.dir:
        if own.dataset != "r2r":
            yield (
                f"data.dir: empty, but data.dataset is {own.dataset}; generated houses are annotated as R2R, give a "
                "folder with connectivity/ and annotations/"
            )
        return
    if not data.is_dir():
        yield f"data.dir: {data} is not a folder; give one with connectivity/ and annotations/"
    if not own.features:
        yield "data.features: empty, but data.dir is set; give a .tsv or .hdf5 file or a prepared folder"
    if not features.exists():
        yield f"data.features: {features} does not exist; give a .tsv or .hdf5 file or a prepared folder"
    if features.is_file() and features.suffix not in (".tsv", *HDF5_SUFFIXES):
        yield f"data.features: {features} is no .tsv, .hdf5 or .h5 file; convert it to one of these"
    yield from absent(data, Reading.of(own))


def prepare_sources(
    config: FedVLNConfig, progress: Progress = silent, alone: bool = False
) -> Sources:
    """Generate, convert and check all that a run reads, before anything is trained; alone: one client's own alone."""
    places, own = places_of(config), config.data
    test, without = submitted_test(config)
    vocabulary = Path(own.vocabulary) if own.vocabulary else None
    for line in (without, _words_line(own)):
        if line:
            progress(line)
    kind = own.min_word_count, progress, Reading.of(own), test, vocabulary
    features = Path(own.features), places.connectivity_dir
    steps: dict[Path, Callable[[Path], object]] = {
        places.houses_dir: lambda to: prepare_houses(places.data_dir, to, *kind, alone),
        places.views_dir: lambda to: prepare_views(*features, to, progress, own.feature_size),
    }
    if (houses := places.generated) is not None:
        steps = {places.data_dir: lambda to: write_houses(houses, to, progress)} | steps
    for folder, fill in steps.items():
        if not folder.is_dir():
            make_folder(folder, fill, progress)
    sources = open_sources(config)
    _check_values(sources, Path(own.cache_dir), progress)
    return sources


def _words_line(own: DataSettings) -> str:
    """What a given vocabulary leaves unused."""
    if not own.vocabulary:
        return ""
    return f"the words are those of {own.vocabulary}; data.min-word-count is not used"


def _check_values(sources: Sources, cache: Path, progress: Progress) -> None:
    """Refuse views that are not finite; what has passed is remembered in the cache."""
    scans = sources.manifest["panoramas"]
    files = {scan: sources.views_dir / f"{scan}.npy" for scan in scans}
    passed = cache / f"finite-{digest_of(*files.values())}"
    if passed.exists():
        return
    for number, (scan, file) in enumerate(files.items(), 1):
        bad = ~np.isfinite(np.load(file, mmap_mode="r")).all((1, 2))
        if bad.any():
            viewpoint = load_graph(sources.connectivity_dir, scan).viewpoint_ids[int(bad.argmax())]
            raise InputError(
                f"{file}: the views of {scan}, viewpoint {viewpoint}, hold NaN or infinity; convert the features again"
            )
        progress("houses whose views are checked", number, len(files))
    passed.touch()


def _opened_files(config: FedVLNConfig) -> list[Path]:
    """The name of a prepared folder tells what it was made of; views may lie in a folder of the user's own."""
    places = places_of(config)
    return [places.houses_dir, *sorted(places.views_dir.glob("*.npy"))]


@read_once(_opened_files, kept=4)
def open_sources(config: FedVLNConfig) -> Sources:
    """The prepared folders of a run, with every house's view file checked by its header."""
    places = places_of(config)
    manifest = read_manifest(places.houses_dir)
    scans = list(dict.fromkeys(s for names in manifest["splits"].values() for s in names))
    splits, panoramas = manifest["splits"], manifest["panoramas"]
    for scan in scans:
        if not (file := places.views_dir / f"{scan}.npy").is_file():
            cure = f"convert them again{without_test(scan, splits)}"
            raise InputError(f"{file}: no such file; the features lack house {scan}, {cure}")
    widths = {s: _width(places.views_dir / f"{s}.npy", panoramas[s]) for s in scans}
    width = widths[scans[0]]
    for scan, other in widths.items():
        if other != width:
            raise InputError(
                f"data.features: {places.views_dir / scan}.npy has width {other}, {scans[0]}.npy has {width}; convert "
                "all houses from one feature file"
            )
    wanted = config.data.feature_size or (width if places.generated else 0)
    check_prepared(places.views_dir, width, wanted)
    return Sources(**vars(places), manifest=manifest, feature_size=width)


def _width(file: Path, panoramas: int) -> int:
    views = map_array(file, "convert the features again")
    if views.ndim != 3 or views.shape[:2] != (panoramas, NUM_VIEWS) or views.dtype != np.float32:
        raise InputError(
            f"{file}: expected float32 [{panoramas}, {NUM_VIEWS}, F], got {views.dtype} {list(views.shape)}; convert "
            "the features again"
        )
    return int(views.shape[2])
