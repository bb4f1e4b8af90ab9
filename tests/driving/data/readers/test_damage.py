"""Damaged files of drives are one line that names the file; whatever the damage, nothing else comes out."""

import io
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.config import DataSettings
from fedsuite.driving.data.fleet import read_drives
from fedsuite.driving.data.readers import FrameFormat, pictures
from fedsuite.errors import InputError
from tests.driving.data.readers.test_layouts import LAYOUTS, release, synonyms


def refusal(folder: Path, file: str) -> str:
    """The one line that a drive is refused with, which names the file."""
    with pytest.raises(InputError) as caught:
        for drive in read_drives(DataSettings(dir=str(folder))):
            list(pictures(drive, np.ones(len(drive), bool), FrameFormat(40)))
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(folder / file))
    return message


TEXT = "image,angle\n0.bmp,0.5\n1.bmp,0.25\n2.bmp,0\n"
TEXTS = {
    "NUL": (TEXT.replace("1.bmp", "1\0.bmp").encode(), "line 3 holds a NUL byte"),
    "UTF-16": (TEXT.encode("utf-16"), "cannot be read as text"),
    "UTF-16 without a mark": (TEXT.encode("utf-16-le"), "line 1 holds a NUL byte"),
    "Latin-1": (TEXT.replace("1.bmp", "\xe9.bmp").encode("latin-1"), "save it as UTF-8"),
    "nothing": (b"", "first line starts with nothing"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "cannot be read as text"),
    "one long line": (b"image,angle\n" + b'"' + b"x" * 200_000, "is no CSV"),
    "a name too long": (TEXT.replace("1.bmp", "y" * 5000).encode(), "1 of 3 images are missing"),
    "a folder too long": (TEXT.replace("1.bmp", "y" * 5000 + "/none.bmp").encode(), "are missing"),
    "a whole number too long": (TEXT.replace("0.25", "9" * 400).encode(), "the steering angle is inf"),
}  # fmt: skip


@pytest.mark.parametrize("damage", TEXTS)
def test_texts(tmp_path: Path, damage: str) -> None:
    content, said = TEXTS[damage]
    synonyms(tmp_path / "run")
    (tmp_path / "run" / "labels.csv").write_bytes(content)
    message = refusal(tmp_path / "run", "labels.csv")
    assert said in message


def member(shape: object, count: int, dtype: str = "<f8") -> bytes:
    """An .npy of `count` zeros whose header says `shape`."""
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)  # type: ignore[arg-type]
    return file.getvalue() + bytes(np.dtype(dtype).itemsize * count)


LIES = {
    "more labels than there are": {"ground_truths": member((10,), 3)},
    "fewer": {"ground_truths": member((2,), 3)},
    "a negative number": {"ground_truths": member((-1,), 3)},
    "more than any memory": {"ground_truths": member((2**62,), 3)},
    "too many to count": {"ground_truths": member((2**70,), 3)},
    "no numbers": {"ground_truths": member(("a",), 3)},
    "frames that are not there": {"imgs": member((3, 1, 200, 200), 40_000, "<f4")},
    "more frames": {"imgs": member((2**40, 1, 200, 200), 40_000, "<f4")},
    "another kind of header": {"imgs": b"\x93NUMPY\x09\x00\x10\x00" + bytes(16)},
    "brackets": {"imgs": b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000},
    "no header": {"ground_truths": b""},
    "half a header": {"ground_truths": member((3,), 3)[:30]},
    "names of no length": {"imgs": None, "file_names": member((3,), 0, "<U0")},
    "names that are no names": {"imgs": None, "file_names": member((3,), 3, "<U900")},
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_headers_that_lie(tmp_path: Path, lie: str) -> None:
    release(tmp_path / "run")
    file = tmp_path / "run" / "0.npz"
    with zipfile.ZipFile(file) as archive:
        parts = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (parts | LIES[lie]).items():
            if content is not None:
                archive.writestr(f"{name}.npy", content)
    assert refusal(tmp_path / "run", "0.npz")


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
def test_whatever_happens_to_a_file(tmp_path: Path, layout) -> None:
    """Cut, overwritten and swapped bytes: the drive is read, or refused in one line about something in its folder."""
    layout(tmp_path / "run")
    files = sorted(p for p in (tmp_path / "run").rglob("*") if p.is_file())
    draw = random.Random(layout.__name__)
    refused = 0
    for turn in range(60):
        file = files[turn % len(files)]
        whole = file.read_bytes()
        place, kind = draw.randrange(len(whole)), draw.randrange(3)
        noise = draw.randbytes(draw.choice([1, 3, 40]))
        start, end = whole[:place], whole[place:]
        damaged = (start, start + noise + end, start + noise + end[len(noise) :])[kind]
        file.write_bytes(damaged)
        try:
            for drive in read_drives(DataSettings(dir=str(tmp_path / "run"))):
                list(pictures(drive, np.ones(len(drive), bool), FrameFormat(40)))
        except InputError as error:
            refused += 1
            assert "\n" not in str(error) and str(error).startswith(str(tmp_path / "run"))
        file.write_bytes(whole)
    assert refused > 10
