"""Levels of disclosure: what a run has measured says which one it has."""

import pytest

from fedsuite.errors import InputError
from fedsuite.vln.report.outcome import TEXTS, privacy_level


@pytest.mark.parametrize(
    ("modules", "houses", "level"),
    [(3, 1, 1), (1, 1, 2), (2, 1, 2), (0, 1, 3), (3, 11, 0), (0, 2, 0)],
)
def test_levels_of_disclosure(modules: float, houses: float, level: int) -> None:
    assert privacy_level(modules, houses) == level and TEXTS["privacy"][level]


@pytest.mark.parametrize(("modules", "houses"), [(4, 1), (-1, 1), (1, 0), (float("nan"), 1)])
def test_impossible_measurements_are_refused(modules: float, houses: float) -> None:
    with pytest.raises(InputError, match="privacy level"):
        privacy_level(modules, houses)
