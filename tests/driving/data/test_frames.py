"""Prepared silos that cannot be opened."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.data.frames import SPLITS, open_silo
from fedsuite.errors import InputError, RunFailed


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"no array"])
@pytest.mark.parametrize("part", ["images", "angles"])
def test_damaged_arrays_are_one_line(tmp_path, part, content) -> None:
    own = tmp_path / "silo"
    own.mkdir()
    for split in SPLITS:
        np.save(own / f"{split}_images.npy", np.zeros((2, 1, 8, 8), np.uint8))
        np.save(own / f"{split}_angles.npy", np.zeros(2, np.float32))
    assert len(open_silo(tmp_path, "silo").test) == 2
    (own / f"test_{part}.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"silo: test frames cannot be read \(.*prepare the data"):
        open_silo(tmp_path, "silo")


def test_too_many_open_files_are_no_damage(tmp_path, monkeypatch) -> None:
    own = tmp_path / "silo"
    own.mkdir()
    for split in SPLITS:
        for part in ("images", "angles"):
            (own / f"{split}_{part}.npy").touch()

    def load(file: Path, **_: str) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(np, "load", load)
    with pytest.raises(RunFailed, match=r"silo: Too many open files; let a process open more"):
        open_silo(tmp_path, "silo")
