"""Images that tests write, so that every format is read from files of known content."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def _write(folder: Path, names: Sequence[str], size: tuple[int, int] = (32, 24)) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        values = np.full((size[1], size[0], 3), (10 * number) % 256, np.uint8)
        Image.fromarray(values).save(folder / name)
    return [folder / name for name in names]


@pytest.fixture
def write_images() -> Callable[..., list[Path]]:
    """`write_images(folder, names, size=(width, height))`: image i has grey level 10 i."""
    return _write
