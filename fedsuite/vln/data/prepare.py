"""From what people have on disk to what clients open: one memory-mapped array and one episode file per house.

Reads view features (view_files.py) of any width F, and annotation files of R2R or RxR. Everything is checked here, before
any training.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.errors import InputError
from fedsuite.storage.files import path_name, sha256_of
from fedsuite.storage.progress import Progress, silent
from fedsuite.vln.data.annotations import SPLITS, check_items, detours
from fedsuite.vln.data.graph import NUM_VIEWS, NavGraph, load_graph, missing_scans
from fedsuite.vln.data.instructions import build_vocabulary, read_vocabulary
from fedsuite.vln.data.split_files import R2R, Reading, read_augmented, read_splits
from fedsuite.vln.data.view_files import (
    HDF5_SUFFIXES,
    LOGITS,
    kept_width,
    read_hdf5,
    read_tsv,
    write_record,
)
from fedsuite.vln.generator.parallel import mapped
from fedsuite.vln.message_keys import TEST

Episodes = dict[str, list[dict[str, Any]]]  # a house's items by split
MANY = 1000  # houses whose instructions several processes split off


def prepare_views(
    features_file: Path,
    connectivity_dir: Path,
    out_dir: Path,
    progress: Progress = silent,
    feature_size: int = 0,
) -> int:
    """Convert a feature file to `<out_dir>/<scan>.npy` [P, 36, F] float32 per house; returns F.

    Rows follow the connectivity file; excluded panoramas stay zero. A house is written when its last panorama has come.
    feature_size: see `kept_width` and `read_tsv`. For a folder that is there in full or not at all, see
    `fedsuite.storage.files.make_folder`.
    """
    if not features_file.is_file():
        raise InputError(f"{features_file}: no such feature file; give a .tsv or .hdf5 file")
    reader = read_hdf5 if features_file.suffix in HDF5_SUFFIXES else read_tsv
    out_dir.mkdir(parents=True, exist_ok=True)
    open_houses: dict[str, tuple[NavGraph, np.ndarray, np.ndarray]] = {}
    known: dict[tuple[str, str], str] = {}  # digests of what has come
    whole = width = done = 0
    for scan, viewpoint, values in reader(features_file, feature_size):
        if not whole:
            whole = values.shape[-1]
            width = kept_width(features_file, whole, feature_size)
            if width < whole:
                told = f"of {whole} values a view the first {width} are kept, {LOGITS} logits are left out"
                progress(f"{features_file}: {told}")
        if values.shape != (NUM_VIEWS, whole):
            raise InputError(
                f"{features_file}: {scan}_{viewpoint} has shape {values.shape}, expected ({NUM_VIEWS}, {whole}), "
                "the same in all entries; convert one kind of features at a time"
            )
        values = values[:, :width]
        if not np.isfinite(values).all():
            raise InputError(
                f"{features_file}: {scan}_{viewpoint} holds NaN or infinity; the file is damaged, fetch it again"
            )
        if scan not in open_houses:
            path_name(scan, f"{features_file}: a scan")
            if missing_scans(connectivity_dir, [scan]):
                continue
            graph = load_graph(connectivity_dir, scan)
            table = np.zeros((len(graph.viewpoint_ids), NUM_VIEWS, width), np.float32)
            open_houses[scan] = (graph, table, ~graph.included)
        graph, table, have = open_houses[scan]
        row = graph.index.get(viewpoint)
        if row is None:
            continue
        digest = sha256_of(values.tobytes())
        if known.setdefault((scan, viewpoint), digest) != digest:
            raise InputError(
                f"{features_file}: {scan}_{viewpoint} stands in it twice, with different values; leave one of them out, or "
                "fetch the file again"
            )
        if have[row]:
            continue
        table[row], have[row] = values, True
        if have.all():
            np.save(out_dir / f"{scan}.npy", table)
            open_houses[scan] = (graph, np.zeros((0, NUM_VIEWS, width), np.float32), have)
            done += 1
            progress("houses whose views are converted", done)
    _refuse_gaps(features_file, open_houses)
    if not done:
        raise InputError(
            f"{features_file}: no panorama of the scans in {connectivity_dir}; the two do not belong together"
        )
    write_record(out_dir, whole, width)
    progress("houses whose views are converted", done, done)
    return width


def _refuse_gaps(file: Path, houses: dict[str, tuple[NavGraph, np.ndarray, np.ndarray]]) -> None:
    for scan, (graph, _, have) in houses.items():
        if not have.all():
            first = graph.viewpoint_ids[int(np.flatnonzero(~have)[0])]
            raise InputError(
                f"{file}: {int((~have).sum())} panoramas of {scan} are missing (first: {first}); the file is "
                "truncated, fetch it again"
            )


def prepare_houses(
    data_dir: Path,
    out_dir: Path,
    min_word_count: int,
    progress: Progress = silent,
    reading: Reading = R2R,
    test: Path | None = None,
    vocabulary_file: Path | None = None,
    alone: bool = False,
    processes: int = 0,
) -> None:
    """Check the annotations and split them by house into `out_dir` (layout in dataset.py).

    reading: what they are; test: the leaderboard's split, where a run walks it; vocabulary_file: words to use, None = those
    of the annotated training instructions; alone: paths of any split will do; processes: see `mapped`.
    """
    connectivity = data_dir / "connectivity"
    for path in (connectivity, data_dir / "annotations"):
        if not path.is_dir():
            raise InputError(
                f"data.dir: {path} is not a folder; data.dir needs connectivity/ and annotations/"
            )
    files, splits = read_splits(data_dir, reading, test, progress)
    texts = [t for i in splits["train"] for t in i["instructions"]]  # without generated ones
    splits["train"] = [*splits["train"], *read_augmented(data_dir, reading, progress)]
    order = {s: list(dict.fromkeys(i["scan"] for i in items)) for s, items in splits.items()}
    _check_scans(connectivity, files, splits, order, alone)
    scans = list(dict.fromkeys(scan for names in order.values() for scan in names))
    own: dict[str, Episodes] = {scan: {} for scan in scans}
    for split, items in splits.items():
        for item in items:
            own[item["scan"]].setdefault(split, []).append(item)
    one = partial(_prepare_house, connectivity, files, out_dir)
    made = mapped(one, [*own.items()], processes or (0 if len(scans) > MANY else 1))
    panoramas, content, longer = {}, "", []
    for scan, (size, digest, its_detours) in zip(scans, made, strict=True):
        panoramas[scan] = size
        longer += its_detours
        if own[scan].keys() - {TEST}:
            content = sha256_of(f"{content} {scan} {digest}".encode())
        progress("houses whose instructions are split off", len(panoramas), len(scans))
    if longer:
        progress(
            f"{files['train']}: {len(longer)} of {len(splits['train'])} paths are not the shortest way to their end (first: "
            f"path_id {longer[0]}); the teacher walks the shortest way, whatever the instruction says"
        )
    given = vocabulary_file and read_vocabulary(vocabulary_file)
    vocabulary = given or build_vocabulary(texts, min_word_count)
    samples = {
        scan: {s: sum(len(i["instructions"]) for i in own[scan].get(s, ())) for s in splits}
        for scan in scans
    }
    (out_dir / "vocabulary.json").write_text(json.dumps(vocabulary.words), encoding="utf-8")
    manifest = {"splits": order, "samples": samples, "panoramas": panoramas}
    manifest |= {"vocabulary": len(vocabulary), "content": content}
    (out_dir / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _check_scans(
    connectivity: Path,
    files: Mapping[str, Path],
    splits: Mapping[str, Sequence[dict[str, Any]]],
    order: Mapping[str, Sequence[str]],
    alone: bool,
) -> None:
    """InputError where a scan has no graph, none has training paths, or a seen house is none; order: scans by split."""
    for split, names in order.items():
        for scan in names:
            path_name(scan, f"{files[split]}: a scan")
    scans = list(dict.fromkeys(scan for names in order.values() for scan in names))
    if absent := missing_scans(connectivity, scans):
        first = ((s, i) for s, items in splits.items() for i in items if i["scan"] == absent[0])
        where = next(i.get("augmented", files[s].name) for s, i in first)
        raise InputError(
            f"{connectivity}: {len(absent)} scans of the annotations have no connectivity file (first: {absent[0]}), "
            f"it stands in {where}; add <scan>_connectivity.json{without_test(absent[0], order)}"
        )
    if not (scans if alone else splits["train"]):
        raise InputError(
            f"{files['train']}: no paths; training needs at least one house with paths"
        )
    if stray := [s for s in order["val_seen"] if s not in order["train"]]:
        raise InputError(
            f"{files['val_seen']}: {stray[0]} is no training house; val_seen needs seen houses"
        )


def _prepare_house(
    connectivity: Path, files: Mapping[str, Path], out_dir: Path, house: tuple[str, Episodes]
) -> tuple[int, str, list[int | str]]:
    """Check a house's paths against its graph and write its episodes.json; how many panoramas it has, a digest of graph
    and paths, those of the leaderboard's split left out, and the training paths that are no shortest ways."""
    scan, own = house
    graph = load_graph(connectivity, scan)
    if pair := graph.no_way_back():
        raise InputError(
            f"{connectivity / f'{scan}_connectivity.json'}: {pair[1]} is reached from {pair[0]} but has no way back, so "
            "walks that end there have no distance to their goal; make the edges between them two-way, or exclude one"
        )
    for split, items in own.items():
        check_items(files[split], items, {scan: graph})
    (out_dir / scan).mkdir(parents=True)
    (out_dir / scan / "episodes.json").write_text(json.dumps(own), encoding="utf-8")
    learnt = json.dumps({split: items for split, items in own.items() if split != TEST})
    nav = (connectivity / f"{scan}_connectivity.json").read_bytes()
    longer = detours(own.get("train", ()), graph)
    return len(graph.viewpoint_ids), sha256_of(nav + learnt.encode()), longer


def without_test(scan: str, splits: Mapping[str, Sequence[str]]) -> str:
    """The second cure where something of `scan` is missing; splits: scans by split."""
    if scan not in splits.get(TEST, ()) or any(scan in splits[s] for s in SPLITS):
        return ""
    return f", or move R2R_{TEST}.json out of annotations/ to submit without it"


def digest_of(*parts: object) -> str:
    """Short name for a cached conversion of settings and files: by name, and by path, size and modification time of what
    a link leads to."""
    text = []
    for part in parts:
        text.append(str(part))
        if isinstance(part, Path):
            try:
                stat = part.stat()
            except OSError as error:
                raise InputError(f"{part}: cannot be read ({error.strerror}); mend it") from None
            text[-1] = f"{part.name}|{part.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
    return sha256_of("\n".join(text).encode())[:16]
