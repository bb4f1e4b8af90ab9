"""A roster of silos: each has a number of its own, a name and a count of frames."""

from typing import Any

import pytest

from fedsuite.driving.plan_checks import check_roster
from fedsuite.errors import InputError
from fedsuite.roster.members import Member, Roster


def roster(**changes: Any) -> Roster:
    """Of three silos at two members; changes: details of the second."""
    one = {"silos": [0], "names": ["oak"], "frames": [9]}
    two = {"silos": [2, 1], "names": ["elm", "ash"], "frames": [9, 5]}
    return Roster((Member("oak", "silo", 9, one), Member("both", "silo", 14, {**two, **changes})))


def test_silos_may_come_in_any_order() -> None:
    check_roster(roster(), 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"silos": [0, 1]}, "silos must be 0 to 2, each of one member"),
        ({"silos": [1, 3]}, "silos must be 0 to 2, each of one member"),
        ({"silos": [1]}, "both: silos, names and frames are not equally many"),
        ({"frames": []}, "both: silos, names and frames are not equally many"),
        ({"names": ["elm", "ash", "yew"]}, "both: silos, names and frames are not equally many"),
    ],
)
def test_silos_that_are_not_numbered_named_and_counted(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        check_roster(roster(**changes), 3)
    assert str(caught.value) == f"roster: {said}; have it made anew where the data are"


def test_silos_that_the_roster_lacks() -> None:
    with pytest.raises(InputError, match="silos must be 0 to 3"):
        check_roster(roster(), 4)
