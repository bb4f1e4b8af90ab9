"""Files of view features, entry by entry: TSV (columns scan, viewpoint, width, height, vfov, base64 of float32 [36, F]) or
HDF5 (one [36, F] array per `<scan>_<viewpoint>`), any width F.
"""

import base64
import binascii
import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.errors import InputError, one_line
from fedsuite.storage.files import check_readable, read_json, write_json
from fedsuite.vln.data.graph import NUM_VIEWS

HDF5_SUFFIXES = (".hdf5", ".h5")
WIDEST = 65_536  # the largest F that data.feature-size takes
LOGITS = 1000  # of ImageNet, which released files have behind their features
ENCODERS = (512, 640, 768, 1024, 2048)  # widths of released encoders
RECORD = "views.json"  # of a prepared folder: the width of its file, and how much of it was kept


def kept_width(file: Path, width: int, wanted: int) -> int:
    """How many of a file's `width` values a view are features: all, or as many as `wanted` (0: nobody said) where the
    logits of ImageNet follow them; InputError where neither fits, or where nobody said and logits are likely.
    """
    if not wanted and width - LOGITS in ENCODERS:
        raise InputError(
            f"{file}: views of width {width}, which looks like {width - LOGITS} features and {LOGITS} logits; set "
            f"data.feature-size (--feature-size) to {width - LOGITS} to keep the features, or to {width} to keep all"
        )
    if wanted not in (0, width, width - LOGITS):
        right = f"{width - LOGITS} or {width}" if width - LOGITS in ENCODERS else str(width)
        raise InputError(
            f"{file}: views of width {width}, but data.feature-size (--feature-size) is {wanted}; give the matching feature "
            f"file, or set it to {right}"
        )
    return wanted or width


def write_record(folder: Path, width: int, kept: int) -> None:
    """Say in a prepared folder what was kept of its file."""
    write_json(folder / RECORD, {"feature-size": kept, "file-width": width})


def check_prepared(folder: Path, width: int, wanted: int) -> None:
    """InputError if views of `width` that lie prepared in `folder` are not what data.feature-size asks for, or if they
    hold logits that nobody asked for: those of a folder without a record, as earlier versions made it.
    """
    again = f'convert the features again with "fedsuite data prepare ... --feature-size {width - LOGITS}"'
    if wanted and wanted != width:
        cure = f"give the matching features or set data.feature-size={width}"
        raise InputError(
            f"data.features: width {width} in {folder}, but data.feature-size is {wanted}; "
            + (again if wanted == width - LOGITS else cure)
        )
    if not wanted and width - LOGITS in ENCODERS and _recorded(folder / RECORD) != width:
        raise InputError(
            f"data.features: width {width} in {folder}, which looks like {width - LOGITS} features and {LOGITS} logits; "
            f"{again}, or set data.feature-size={width} to train on all"
        )


def _recorded(file: Path) -> object:
    """The size that was asked for when a folder was prepared, None if it does not say."""
    if not file.exists():
        return None
    record = read_json(file, "a record of prepared views", "convert the features again")
    return record.get("feature-size") if isinstance(record, dict) else None


def read_tsv(file: Path, width: int = 0) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield (scan, viewpoint, [36, F] float32) of a TSV feature file.

    width: the F that is meant. Nothing in the file says whether its numbers are float32 or float64; those of F (or F and
    logits) float64 are converted, and without a width a file that looks like float64 is refused.
    """
    check_readable(file)
    csv.field_size_limit(sys.maxsize)
    kind: type[np.floating] | None = None
    # Bytes that are no text give lines that are no TSV, which is said below.
    with file.open(newline="", encoding="utf-8", errors="replace") as lines:
        for number, row in enumerate(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
            if len(row) != 6:
                raise InputError(
                    f"{file}: line {number} has {len(row)} columns instead of 6; the file is truncated or no "
                    "feature TSV, fetch it again"
                )
            try:
                data = base64.b64decode(row[5], validate=True)
            except (binascii.Error, ValueError):
                data = b""
            if len(data) == 0 or len(data) % (4 * NUM_VIEWS):
                raise InputError(
                    f"{file}: line {number} ({row[0]} {row[1]}) does not hold 36 x F float32 values; the file "
                    "is truncated or damaged, fetch it again"
                )
            if not width and kind is None and _looks_like_float64(data):
                half = len(data) // (8 * NUM_VIEWS)
                raise InputError(
                    f"{file}: line {number} ({row[0]} {row[1]}) looks like {half} float64 values a view, not {2 * half} "
                    "of float32; say which width is meant with data.feature-size (--feature-size)"
                )
            kind = kind or (np.float64 if _is_float64(data, width) else np.float32)
            with np.errstate(over="ignore"):  # becomes infinity, which is refused
                values = np.frombuffer(data, kind).astype(np.float32)
            yield row[0], row[1], values.reshape(NUM_VIEWS, -1)


def _is_float64(data: bytes, width: int) -> bool:
    """Whether these are `width` float64 a view, with or without logits; its looks decide where that is float32 with logits,
    too."""
    per_view = len(data) // NUM_VIEWS
    if per_view == 4 * (width + LOGITS):
        return per_view == 8 * width and _looks_like_float64(data)
    return per_view in (8 * width, 8 * (width + LOGITS))


def _looks_like_float64(data: bytes) -> bool:
    """Whether every other float32 is out of all proportion, as the lower halves of float64 are."""
    lower = np.abs(np.frombuffer(data, np.float32)[::2])
    lower = lower[lower != 0]
    usual = (lower > 1e-12) & (lower < 1e12)
    return usual.mean() < 0.5 if len(lower) else any(data)


def read_hdf5(file: Path, width: int = 0) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield (scan, viewpoint, [36, F] float32) of an HDF5 file keyed `<scan>_<viewpoint>`, which knows its types.

    Numbers of any one type, all in this file: what a link leads to may change unseen, and what was never written, or lies in
    a file that is gone, would be read as zeros.
    """
    try:
        import h5py
    except ModuleNotFoundError:
        raise InputError(f'{file}: reading HDF5 needs h5py; pip install "fedsuite[hdf5]"') from None
    check_readable(file)
    place, kind = "", None
    try:
        with h5py.File(file) as entries:
            for key in entries:
                place = f" {one_line(key)}" if isinstance(key, str) else f" {key!r}"
                fault = _fault(h5py, entries, key, kind)
                if fault:
                    raise InputError(
                        f"{file}:{place} {fault}; expected one [36, F] array of numbers per <scan>_<viewpoint>, F up to "
                        f"{WIDEST}, all in this file; convert the features again"
                    )
                entry, (scan, _, viewpoint) = entries[key], key.partition("_")
                kind = entry.id.get_type()
                with np.errstate(over="ignore"):
                    yield scan, viewpoint, np.asarray(entry[()], np.float32)
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{file}:{place} cannot be read as HDF5 ({one_line(str(error), 200)}); the file is truncated or damaged, fetch "
            "it again"
        ) from None


def _fault(h5py: Any, entries: Any, key: str | bytes, kind: Any) -> str:
    """What is wrong with an entry of an HDF5 file, as its header says, or ""; kind: HDF5's type of the entries before it."""
    if isinstance(key, bytes):
        return "is no text"
    link = entries.get(key, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        return f"is a link to another file ({one_line(link.filename)})"
    if isinstance(link, h5py.SoftLink) and entries.get(key) is None:
        return f"is a link to {one_line(link.path)}, which is not there"
    entry = entries[key]
    if not isinstance(entry, h5py.Dataset):
        return f"is a {type(entry).__name__.lower()}"
    if entry.is_virtual or entry.external:
        return "has its numbers in another file"
    return _fault_in_numbers(h5py, entry, kind)


def _fault_in_numbers(h5py: Any, entry: Any, kind: Any) -> str:
    shape: tuple[int, ...] = entry.shape or ()
    if entry.dtype.kind not in "fiu" or h5py.check_enum_dtype(entry.dtype):
        return f"holds {entry.dtype}"
    if kind not in (None, entry.id.get_type()):
        return f"holds numbers ({entry.dtype}) of another type than the entries before it"
    if len(shape) != 2 or shape[0] != NUM_VIEWS or not 0 < shape[1] <= WIDEST:
        return f"has shape {shape}"
    if entry.chunks:
        blocks = math.prod(-(-n // c) for n, c in zip(shape, entry.chunks, strict=True))
        written = entry.id.get_num_chunks() >= blocks
    else:
        written = entry.id.get_storage_size() >= entry.nbytes
    return "" if written else "was not written in full"
