"""Archives in the layout of the CDL release (Do et al. 2024): <root>/<experiment>/<network>/train/{0..N-1}.npz.

Two kinds: `file_names` (paths relative to <root>, which is searched upwards from the archive) and `ground_truths` [n];
or `imgs` [n, 1, 200, 200] float32, grey, already cropped, values 0..255, and `ground_truths` [n]. The release documents
neither sign nor unit: ReadOptions.positive says the sign, the unit is taken for radians.

`imgs` is read frame by frame (160 kB each): a whole archive may be larger than the memory.
"""

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image

from fedsuite.driving.data.readers.angles import RADIANS, assumed, law_of
from fedsuite.driving.data.readers.drive import (
    Drive,
    FrameFormat,
    ReadOptions,
    first_of,
    name_of,
    visible,
)
from fedsuite.driving.data.readers.pictures import sized
from fedsuite.driving.data.readers.rows import BadRows, kept_frames
from fedsuite.errors import InputError, one_line
from fedsuite.storage.files import check_readable

KIND = "npz"
FRAME = (1, 200, 200)
LEVELS_UP = 4
Header = tuple[tuple[int, ...], np.dtype[np.generic]]


def matches(folder: Path) -> bool:
    return folder.suffix == ".npz" if folder.is_file() else bool(visible(folder, "*.npz"))


def read(folder: Path, options: ReadOptions) -> Drive:
    """One archive: an .npz file, or a folder that holds exactly one."""
    file = folder if folder.is_file() else first_of(visible(folder, "*.npz"), ".npz file", folder)
    values, names, (size, dtype) = _labels(file)
    if names is None and (
        size != (len(values), *FRAME) or (dtype.kind != "f" and dtype != np.uint8)
    ):
        raise InputError(
            f"{file}: imgs must be float32 ({len(values)}, 1, 200, 200), one frame per ground_truths, "
            f"got {dtype} {size}; save cropped grey frames, channel first"
        )
    part = "ground_truths" if names is None else "file_names"
    places = [f"{part}[{i}]" for i in range(len(values))]
    paths = None if names is None else _files(file, names, len(values))
    law, bad = law_of(RADIANS, options.positive, options), BadRows(options.drop)
    angles, kept = kept_frames(file, places, values.tolist(), law, bad, paths)
    return Drive(
        name_of(file), KIND, angles, law.unit, law.sign,
        tuple(paths[i] for i in kept.tolist()) if paths else (), None if paths else Archive(file),
        None if paths else kept, limit=law.limit, left_out= len(bad.told),
        notes=bad.notes(file),        assumed=assumed(options),
    )  # fmt: skip


@dataclass(frozen=True)
class Archive:
    """The frames of `imgs`, which are cropped already."""

    file: Path

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.file,)

    @property
    def about(self) -> str:
        return ""

    def stream(self, places: Sequence[int], form: FrameFormat) -> Iterator[tuple[int, np.ndarray]]:
        wanted = frozenset(places)
        for place, grey in enumerate(stream_imgs(self.file)):
            if place in wanted:
                frame = sized(Image.fromarray(grey), form.size_px)
                yield place, np.repeat(frame, form.channels, axis=0)


def stream_imgs(file: Path) -> Iterator[np.ndarray]:
    """uint8 [200, 200], rounded, of every frame in order; InputError at a value that is no grey level."""
    with _open(file) as archive, archive.open("imgs.npy") as member:
        shape, dtype = read_header(member)
        size = int(np.prod(FRAME)) * dtype.itemsize
        for row in range(shape[0]):
            data = member.read(size)
            if len(data) != size:
                raise InputError(f"{file}: imgs ends before frame {row}; fetch the archive again")
            frame = np.frombuffer(data, dtype).reshape(FRAME[1:])
            # NaN fails both comparisons.
            if not ((frame >= 0) & (frame <= 255)).all():
                raise InputError(
                    f"{file}: imgs[{row}] holds NaN or values outside 0..255; store grey levels 0..255"
                )
            yield np.rint(frame).astype(np.uint8)


def _labels(file: Path) -> tuple[np.ndarray, list[str] | None, Header]:
    """ground_truths, file_names or None, shape and dtype of imgs (empty without)."""
    with _open(file) as archive:
        members = set(archive.namelist())
        have_files, have_imgs = "file_names.npy" in members, "imgs.npy" in members
        if "ground_truths.npy" not in members or have_files == have_imgs:
            found = ", ".join(sorted(m.removesuffix(".npy") for m in members)) or "nothing"
            raise InputError(
                f"{file}: expected ground_truths and one of file_names and imgs, found {found}; save those arrays"
            )
        values = _array(archive, file, "ground_truths")
        if values.ndim != 1 or values.dtype.kind not in "fiu":
            raise InputError(
                f"{file}: ground_truths must be numbers [n], got {values.dtype} {values.shape}; save one angle a frame"
            )
        if have_imgs:
            with archive.open("imgs.npy") as member:
                return values, None, read_header(member)
        names = _array(archive, file, "file_names")
        if names.ndim != 1 or names.dtype.kind != "U":
            raise InputError(
                f"{file}: file_names must be texts [n], got {names.dtype} {names.shape}; save an array of str"
            )
        return values, [str(name).replace("\\", "/") for name in names], ((), np.dtype(np.float32))


def _files(file: Path, names: list[str], count: int) -> list[Path]:
    if len(names) != count:
        raise InputError(
            f"{file}: {len(names)} file_names but {count} ground_truths; save one of each a frame"
        )
    ancestors = list(file.resolve().parents)[: LEVELS_UP + 1]
    root = next((a for name in names for a in ancestors if _is_file(a / name)), None)
    if root is None and count:
        raise InputError(
            f"{file}: none of {len(names)} images exists (first: {names[0]}) under {ancestors[0]} or {LEVELS_UP} folders "
            "above; put the images where file_names says"
        )
    return [(root or file) / name for name in names]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False


@contextmanager
def _open(file: Path) -> Iterator[zipfile.ZipFile]:
    """The archive; a damaged one is an InputError wherever that shows."""
    check_readable(file)
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except InputError:
        raise
    except Exception as error:  # lying headers and damaged members raise whatever they like
        reason = one_line(str(error), 200) or type(error).__name__
        raise InputError(
            f"{file}: cannot be read as .npz ({reason}); fetch the archive again"
        ) from None


def _array(archive: zipfile.ZipFile, file: Path, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as member:
        shape, dtype = read_header(member)
        if dtype.hasobject:
            raise InputError(
                f"{file}: {name} holds Python objects, which are not loaded; save texts as str, angles as float32"
            )
        size = math.prod(shape) * dtype.itemsize
        data = member.read(size + 1)
        if min(shape, default=0) < 0 or len(data) != size:
            raise ValueError(f"{name} has another length than its header {shape} says")
        return np.frombuffer(data, dtype).reshape(shape)


def read_header(member: IO[bytes]) -> Header:
    """Shape and dtype of an .npy member, which is then at its first number."""
    version = np.lib.format.read_magic(member)
    reader = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in reader:
        raise ValueError(f".npy version {version}")
    shape, fortran, dtype = reader[version](member)
    if fortran and len(shape) > 1:
        raise ValueError("array in Fortran order")
    return shape, dtype
