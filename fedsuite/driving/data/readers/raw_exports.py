"""Udacity's car exported message by message: camera.csv (timestamp, frame_id, filename, ...) with its pictures, and
steering.csv (timestamp, angle, ...), both in nanoseconds of one clock.

Angle: radians of the steering wheel, LEFT POSITIVE, brought to the times of the pictures (clocks.py). The camera is chosen
as in interpolated.csv (text_drives.py), which is read instead where it is there.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedsuite.driving.data.readers.clocks import at_times, check_clock, check_one_clock
from fedsuite.driving.data.readers.rows import BadRows
from fedsuite.driving.data.readers.tables import Row, body, read_rows
from fedsuite.driving.data.readers.text_drives import Chosen, UdacityReal
from fedsuite.errors import InputError

STEERING = "steering.csv"


class UdacityRaw(UdacityReal):
    """The raw export: angles are joined to the camera's table, which then is read as the interpolated one."""

    KIND, LOG = "udacity_raw", "camera.csv"

    def matches(self, folder: Path) -> bool:
        there = [(folder / name).exists() for name in (self.LOG, STEERING, UdacityReal.LOG)]
        return there == [True, True, False]

    def chosen(self, file: Path, rows: Sequence[Row], bad: BadRows) -> Chosen:
        shown, (column,) = body(file, rows, ("timestamp",), bad)
        other = file.with_name(STEERING)
        samples, (time, angle) = body(other, read_rows(other), ("timestamp", "angle"), BadRows())
        first = _whole(other, samples[0], time) if samples else 0
        frames, times = (
            np.array([(_whole(f, row, c) - first) / 1e9 for row in own])
            for f, own, c in ((file, shown, column), (other, samples, time))
        )
        check_clock(other, times)
        angles = at_times(frames, times, np.array([_number(other, row, angle) for row in samples]))
        check_one_clock(other, angles)
        joined = [
            Row(row.place, (*row.fields, repr(float(a))))
            for row, a in zip(shown, angles, strict=True)
        ]
        return super().chosen(file, [Row("", (*rows[0].fields, "angle")), *joined], bad)


def _whole(file: Path, row: Row, column: int) -> int:
    text = row.fields[column]
    if not text.isdecimal():
        raise InputError(
            f"{file}: {row.place}: timestamp {text!r}, expected nanoseconds; correct that row"
        )
    return int(text)


def _number(file: Path, row: Row, column: int) -> float:
    try:
        return float(row.fields[column])
    except ValueError:
        raise InputError(
            f"{file}: {row.place}: the steering angle {row.fields[column]!r} is no number; correct that row"
        ) from None
