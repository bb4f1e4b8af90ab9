"""RGB to the channels of the frames."""

import numpy as np

from fedsuite.driving.rendering.light import GREY


def to_channels(rgb: np.ndarray, channels: int) -> np.ndarray:
    """First axis RGB to first axis C: unchanged for 3, luma for 1."""
    return rgb if channels == 3 else np.tensordot(np.array(GREY), rgb, axes=1)[None]
