"""Angles that were recorded at times of their own, brought to the times of the frames.

Both times are seconds of one clock. The angle of a frame lies on the straight line between the two samples around it; where
these are more than GAP_S apart, or the frame is further than that from the first or last sample, there is none.
"""

from pathlib import Path

import numpy as np

from fedsuite.errors import InputError

GAP_S = 0.1
LEAST_SHARE = 0.9  # of the frames, that must have an angle: else the clocks are not one


def at_times(frames: np.ndarray, samples: np.ndarray, values: np.ndarray) -> np.ndarray:
    """float64 [n] values at the times `frames` [n], NaN where there is none; `samples` [m] strictly ascend."""
    right = np.clip(np.searchsorted(samples, frames), 1, len(samples) - 1)
    near = np.minimum(np.abs(samples[right] - frames), np.abs(samples[right - 1] - frames)) <= GAP_S
    inside = (samples[0] <= frames) & (frames <= samples[-1])
    known = np.where(inside, samples[right] - samples[right - 1] <= GAP_S, near)
    return np.where(known, np.interp(frames, samples, values), np.nan)


def check_clock(file: Path, times: np.ndarray) -> None:
    """InputError unless times, which stand in `file`, are numbers that ascend strictly, two at least."""
    odd, back = np.flatnonzero(~np.isfinite(times)), np.flatnonzero(~(np.diff(times) > 0))
    if len(odd):
        where = f"row {odd[0]} is {times[odd[0]]}"
    elif len(back):
        where = f"row {back[0] + 1} is not after row {back[0]}"
    elif len(times) < 2:
        where = "no two of them"
    else:
        return
    raise InputError(f"{file}: times must ascend, {where}; sort it, or fetch it again")


def check_one_clock(file: Path, angles: np.ndarray) -> None:
    """InputError where hardly a frame has an angle; file: that of the samples."""
    share = float(np.isfinite(angles).mean())
    if share < LEAST_SHARE:
        raise InputError(
            f"{file}: {share:.0%} of the frames lie within {GAP_S} s of its times, {LEAST_SHARE:.0%} are needed; bring both "
            "to one clock, or remove this drive"
        )
