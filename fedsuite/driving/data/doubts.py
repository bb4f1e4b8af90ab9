"""What is told of a drive's angles before anything is trained on them: what had to be assumed, and what looks wrong.

Nothing is changed here. Each line says what was found, on what evidence, and which key of drives.toml settles it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fedsuite.driving.data.readers import Drive, ReadOptions
from fedsuite.driving.data.readers.angles import IN_DEGREES, RADIANS
from fedsuite.driving.data.readers.rows import FEW

ENOUGH = 20  # frames from which on "never" says something
OFF_ZERO = (
    0.2  # a median beyond it, of angles to one side alone, makes 0 an unlikely straight ahead
)
WIDEST_RAD = 1.0  # 57 degrees: wheels of cars turn 30 to 45
CENTRED = (0.35, 0.65)  # where the median of PWM lies whose centre is 0.5


def doubts(path: Path, drive: Drive, options: ReadOptions) -> Iterator[str]:
    """Lines on what hardly any recording is."""
    angles, count = drive.angles, len(drive)
    raw = angles / options.angle_scale
    if np.ptp(angles) == 0:
        yield f"{path}: all {count} angles are equal; were their decimals lost?"
        return
    if np.abs(raw - np.rint(raw)).max() <= 1e-6 * np.abs(raw).max():
        yield f"{path}: all {count} angles are whole numbers; were their decimals lost?"
        return
    one_side = angles.min() >= 0 or angles.max() <= 0
    if count >= ENOUGH and one_side and np.median(np.abs(raw)) > OFF_ZERO:
        side = "left" if angles.max() > 0 else "right"
        ends = f"{float(angles.min()):.3g} to {float(angles.max()):.3g}"
        yield f"{path}: all {count} angles are to the {side} ({ends}); {_centre(raw)}"
    largest = float(np.abs(angles).max())
    told = options.unit or options.own_scale
    if drive.unit == RADIANS.name and not told and largest > WIDEST_RAD:
        yield (
            f"{path}: angles reach {largest:.3g} radians, {largest * IN_DEGREES[drive.unit]:.0f} degrees, more than the "
            'wheels of a car turn; if the file has degrees, say angle-unit = "degrees" in drives.toml'
        )


def _centre(raw: np.ndarray) -> str:
    numbers = np.abs(raw)
    if numbers.max() <= 1 and CENTRED[0] <= float(np.median(numbers)) <= CENTRED[1]:
        return 'if 0.5 is straight ahead in its files, say angle-unit = "pwm" in drives.toml'
    return "is 0 straight ahead in its files?"


def assumptions(drives: Sequence[Drive]) -> Iterator[str]:
    """One line for all drives whose files say neither unit nor sign and which were read alike."""
    alike: dict[tuple[str, ...], list[Drive]] = {}
    for drive in (d for d in drives if d.assumed):
        alike.setdefault((drive.kind, drive.unit, drive.sign, *drive.assumed), []).append(drive)
    for (kind, unit, sign, *keys), own in alike.items():
        names = ", ".join(d.name for d in own[:FEW])
        more = f" and {len(own) - FEW} more" if len(own) > FEW else ""
        angles = np.concatenate([d.angles for d in own])
        ends = ""
        if unit in IN_DEGREES:
            low, high = (float(end) * IN_DEGREES[unit] for end in (angles.min(), angles.max()))
            ends = f" ({low:.3g} to {high:.3g} degrees)"
        yield (
            f"{names}{more}: files of kind {kind} do not say the unit or sign of angles; taken for {unit}{ends}, {sign}; "
            f"{' and '.join(keys)} in drives.toml settle this"
        )
