"""Three small silos of frames whose angle can be seen."""

import pytest

from fedsuite.driving.data.frames import Silo
from tests.bar_frames import bar_frames


@pytest.fixture
def silos() -> tuple[Silo, ...]:
    """Three silos of unequal size."""
    return tuple(
        Silo(f"silo-{i:02d}", bar_frames(i, 10 + 3 * i), bar_frames(100 + i, 6)) for i in range(3)
    )
