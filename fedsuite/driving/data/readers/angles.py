"""From the numbers in a drive's files to angles: unit, sign, scale, and how large they may be.

    angle = +-1 x (pi / 180 if the file has degrees) x angle_scale x number, LEFT POSITIVE
    angle = +-2 x angle_scale x (number - 0.5), if the file has PWM: 0 to 1, where 0.5 is straight ahead

A limit is there to notice labels in another unit than was thought. Each unit has its own, unless the user gives one:

    fraction of full lock           1
    radians                         pi
    radians of the steering wheel   4 pi, two turns to either side: full lock of any car
"""

import math
from dataclasses import dataclass

from fedsuite.driving.data.readers.drive import RIGHT, ReadOptions


@dataclass(frozen=True)
class Unit:
    """What the numbers of a format are, and the largest of them that is believed."""

    name: str
    limit: float


FRACTION = Unit("fraction of full lock", 1.0)
RADIANS = Unit("radians", math.pi)
WHEEL = Unit("radians of the steering wheel", 4 * math.pi)
DEGREE = math.pi / 180
IN_DEGREES = {unit.name: 1 / DEGREE for unit in (RADIANS, WHEEL)}  # degrees of an angle of 1
NAMED = {  # in drives.toml
    "radians": RADIANS, "degrees": RADIANS, "normalised": FRACTION, "pwm": FRACTION
}  # fmt: skip
FACTORS, CENTRES = {"degrees": DEGREE, "pwm": 2.0}, {"pwm": 0.5}

ONE_UNIT = "bring all drives to one unit by angle-unit and angle-scale (radians at full lock) in the drives.toml beside each"
"""What to do where drives have several units, or full locks."""


def lock_of(kind: str, unit: str) -> str:
    """Whose full lock angles are shares of: drives are of one unit where this is equal; "" where they are no shares.

    Two cars' locks differ. A format that many cars write does not say which: its drives are taken for those of one car.
    """
    return f"of a car of {kind}" if unit == FRACTION.name else ""


@dataclass(frozen=True)
class Law:
    """angle = factor x (number - centre), at most `limit` in size; unit and sign in words; cure: what to change of all
    this."""

    factor: float
    limit: float
    unit: str
    sign: str
    cure: str
    centre: float = 0.0


def law_of(unit: Unit, positive: str, options: ReadOptions) -> Law:
    """The law of a drive whose format has `unit` and turns `positive`, unless drives.toml says otherwise.

    A drive that drives.toml gives a scale of its own is in radians then, which is how drives of several units get together.
    """
    known = NAMED.get(options.unit, unit)
    largest = unit.limit if known is RADIANS and unit is WHEEL else known.limit
    positive = options.own_positive or positive
    turned = (positive == RIGHT) != options.flip_sign
    factor = FACTORS.get(options.unit, 1.0)
    sign = f"{positive} positive in the source" + (", negated" if positive == RIGHT else "")
    cure = "data.angle-scale or data.angle-limit (of one drive: angle-unit in drives.toml)"
    if options.place:
        cure = f"angle-unit, angle-scale or angle-limit in {options.place}"
    return Law(
        factor=(-1 if turned else 1) * factor * options.angle_scale,
        limit=options.angle_limit or largest * max(1.0, options.angle_scale),
        unit=(RADIANS if options.own_scale else known).name,
        sign=sign + (", turned round by drives.toml" if options.flip_sign else ""),
        cure=f"set {cure}",
        centre=CENTRES.get(options.unit, 0.0),
    )


def assumed(options: ReadOptions) -> tuple[str, ...]:
    """Which keys of drives.toml would say what the files of a format do not, and are not there."""
    told = {
        "angle-unit": options.unit or options.own_scale,
        "positive": options.own_positive or options.flip_sign,
    }
    return tuple(key for key, value in told.items() if not value)
