"""Prepared silos that cannot be opened."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.data.frames import INDEX, SPLITS, left_out_of, open_silo, silo_names
from fedsuite.errors import InputError, RunFailed
from fedsuite.storage import mapped
from fedsuite.storage.files import write_json


def write_silos(folder: Path) -> Path:
    """Two frames for each split of one silo, and the index."""
    own = folder / "silo"
    own.mkdir()
    for split in SPLITS:
        np.save(own / f"{split}_images.npy", np.zeros((2, 1, 8, 8), np.uint8))
        np.save(own / f"{split}_angles.npy", np.zeros(2, np.float32))
    write_json(folder / INDEX, {"silos": ["silo"], "about": {}, "left-out": {}})
    return own


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda whole: whole[:6],
    "shorter": lambda whole: whole[:-1],
    "longer": lambda whole: whole + b"x",
    "in the middle": lambda whole: whole[:130] + b"x" + whole[130:],
    "other": lambda _: b"no array",
    "a header without an end": lambda whole: whole.replace(b"), }", b",  }"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("part", ["images", "angles"])
def test_damaged_arrays_are_one_line(tmp_path: Path, part: str, damage: str) -> None:
    file = write_silos(tmp_path) / f"test_{part}.npy"
    assert len(open_silo(tmp_path, "silo").test) == 2
    whole = file.read_bytes()
    file.write_bytes(DAMAGE[damage](whole))
    assert file.read_bytes() != whole
    told = rf"silo/test_{part}\.npy: truncated or no array file \(.*prepare the data again"
    with pytest.raises(InputError, match=told) as refused:
        open_silo(tmp_path, "silo")
    assert "\n" not in str(refused.value)


def test_arrays_that_do_not_go_together_are_one_line(tmp_path: Path) -> None:
    np.save(write_silos(tmp_path) / "test_angles.npy", np.zeros(3, np.float32))
    with pytest.raises(InputError, match=r"silo: test frames cannot be read \(.*prepare the data"):
        open_silo(tmp_path, "silo")


@pytest.mark.parametrize(
    "text",
    ["", "[" * 100_000, "[]", "{}", '{"silos": "silo"}', '{"silos": [1]}', '{"silos": [], "left-out": 1}'],
)  # fmt: skip
def test_a_damaged_index_is_one_line(tmp_path: Path, text: str) -> None:
    write_silos(tmp_path)
    assert (silo_names(tmp_path), left_out_of(tmp_path)) == (["silo"], {})
    (tmp_path / INDEX).write_text(text)
    for read in (silo_names, left_out_of):
        with pytest.raises(InputError, match=r"silos\.json: .*prepare the data again") as told:
            read(tmp_path)
        assert "\n" not in str(told.value)


def test_too_many_open_files_are_no_damage(tmp_path, monkeypatch) -> None:
    own = tmp_path / "silo"
    own.mkdir()
    for split in SPLITS:
        for part in ("images", "angles"):
            (own / f"{split}_{part}.npy").touch()

    def opened(file: Path, **_: str) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(mapped, "open_memmap", opened)
    with pytest.raises(
        RunFailed, match=r"train_images\.npy: Too many open files; let a process open more"
    ):
        open_silo(tmp_path, "silo")
