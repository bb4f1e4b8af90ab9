"""Generated houses as Room-to-Room's files, for this and other programs (Anderson et al. 2018).

    <folder>/connectivity/   scans.txt and <scan>_connectivity.json
    <folder>/annotations/    R2R_train.json, R2R_val_seen.json, R2R_val_unseen.json
    <folder>/features.tsv    scan, viewpoint, 640, 480, 60, base64 of float32 [36, F]; or features.hdf5: <scan>_<viewpoint>

A run that is given these files as data.dir and data.features trains on the same bytes as one that generates the houses.
"""

import base64
import csv
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from fedsuite.errors import InputError
from fedsuite.storage.files import make_new_folder, telling
from fedsuite.storage.progress import Progress, silent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.graph import CAMERA_PIXELS, VERTICAL_FIELD_OF_VIEW_RAD, load_graph
from fedsuite.vln.data.sources import Sources, prepare_sources

Entry = tuple[str, str, np.ndarray]  # scan, viewpoint, [36, F] float32
COPIED = ("connectivity", "annotations")


def export_r2r(
    config: FedVLNConfig, folder: Path, features: str = "tsv", progress: Progress = silent
) -> Path:
    """Write the houses that `config` generates to the new `folder`; the file of features. features: tsv or hdf5.

    InputError: data.dir is set, there is something at `folder` already, or a package is missing.
    """
    if config.data.dir:
        raise InputError(
            f"data.dir: {config.data.dir} holds files already, and only generated houses are exported; leave it out"
        )
    file = folder / f"features.{features}"

    def fill(partial: Path) -> None:
        sources = prepare_sources(config, progress)
        with telling(partial):
            for name in COPIED:
                shutil.copytree(sources.data_dir / name, partial / name)
            WRITERS[features](partial / file.name, _views(sources, progress))

    make_new_folder(folder, fill, progress)
    return file


def _views(sources: Sources, progress: Progress) -> Iterator[Entry]:
    """The views of every panorama that is included, house by house."""
    scans = list(sources.manifest["panoramas"])
    for number, scan in enumerate(scans, 1):
        graph = load_graph(sources.connectivity_dir, scan)
        views = np.load(sources.views_dir / f"{scan}.npy", mmap_mode="r")
        for row in np.flatnonzero(graph.included).tolist():
            yield scan, graph.viewpoint_ids[row], views[row]
        progress("houses whose views are written", number, len(scans))


def _write_tsv(file: Path, entries: Iterator[Entry]) -> None:
    camera = [*CAMERA_PIXELS, round(np.degrees(VERTICAL_FIELD_OF_VIEW_RAD))]
    with file.open("w", newline="", encoding="utf-8") as lines:
        rows = csv.writer(lines, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
        for scan, viewpoint, values in entries:
            rows.writerow([scan, viewpoint, *camera, base64.b64encode(values.tobytes()).decode()])


def _write_hdf5(file: Path, entries: Iterator[Entry]) -> None:
    try:
        import h5py
    except ModuleNotFoundError:
        raise InputError(f'{file}: writing HDF5 needs h5py; pip install "fedsuite[hdf5]"') from None
    with h5py.File(file, "w") as written:
        for scan, viewpoint, values in entries:
            written[f"{scan}_{viewpoint}"] = values


WRITERS: Mapping[str, Callable[[Path, Iterator[Entry]], None]] = {
    "tsv": _write_tsv, "hdf5": _write_hdf5
}  # fmt: skip
