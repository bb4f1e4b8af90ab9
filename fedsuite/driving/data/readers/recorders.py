"""Programs that are known by the tables they write, under whatever name: which unit their angles have, and which sign.

A table of kind csv fixes neither. Where its columns are those of a known program, that program's convention is taken and
told; a name that merely looks like one is told, too. drives.toml has the last word.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fedsuite.driving.data.readers.angles import FRACTION, Unit
from fedsuite.driving.data.readers.drive import RIGHT, base_name

SHOT = re.compile(r"center_\d{4}(_\d+){6}\.\w+")  # a picture of Udacity's simulator
BESIDE = ("left", "right", "throttle", "brake")  # other columns of its log
SIMULATOR, CARLA = "Udacity's simulator", "CARLA"


@dataclass(frozen=True)
class Recorder:
    """unit and sign of its angles; evidence: what it is known by; sure: whether that is enough to go by."""

    name: str
    evidence: str
    sure: bool = True
    unit: Unit = FRACTION
    positive: str = RIGHT

    def note(self, file: object) -> str:
        """What people are told of it."""
        its = f"{self.unit.name}, {self.positive} positive"
        if self.sure:
            return (
                f"{file}: {self.evidence}, as in logs of {self.name}: angles are taken for {its}; if they are not, say "
                "angle-unit and positive in drives.toml"
            )
        return (
            f"{file}: {self.evidence}, looks like a log of {self.name}, whose angles are {its}; if they are here, say "
            f'angle-unit = "normalised" and positive = "{self.positive}" in drives.toml'
        )


def recorder_of(
    header: Sequence[str], image: str, angle: str, pictures: Sequence[str]
) -> Recorder | None:
    """The program that wrote a table with this header; image, angle: the names of the columns that are read."""
    if angle == "steer":
        return Recorder(CARLA, "the column steer")
    beside = [name for name in header if name in BESIDE]
    shots = bool(pictures) and all(SHOT.fullmatch(base_name(name)) for name in pictures)
    if beside and image.startswith(("center", "centre")):
        columns = ", ".join((image, angle, *beside))
        return Recorder(SIMULATOR, f"the columns {columns}", angle.startswith("steering"))
    if shots:
        evidence = f"pictures called {base_name(pictures[0])}"
        return Recorder(SIMULATOR, evidence, angle.startswith("steering"))
    return None
