"""Settings of the Matterport3D Simulator: the part of its interface that comes before initialize().

Source: Matterport3D Simulator (Anderson et al. 2018), batch API. As there, settings are silently ignored once
initialised, except resolution, field of view and elevation limits, which act from the next episode or action. Those that
concern images are checked and have no effect.
"""

import math
import time
from collections.abc import Callable
from typing import Any

from fedsuite.vln.mattersim import arguments
from fedsuite.vln.mattersim.arguments import flag
from fedsuite.vln.mattersim.geometry import cos_half_field_of_view


def _setter(method: str, check: Callable[[str, Any], Any], kept_as: str = "") -> Any:
    """A method of one argument, which is checked and kept, the latter until the simulator is initialised."""

    def set_value(self: "Settings", value: Any, /) -> None:
        checked = check(method, value)
        if kept_as and not self._initialized:
            setattr(self, kept_as, checked)
            self._update_field_of_view()

    return set_value


class Settings:
    """All setters and clocks; defaults are the original's, not the 640 x 480, 60 deg of R2R."""

    def __init__(self) -> None:
        self._initialized = False
        self._rendering = True
        self._discretized, self._restricted = False, True
        self._width, self._height, self._vertical_fov_rad = 320, 240, 0.8
        self._lowest_rad, self._highest_rad = -0.94, 0.94
        self._folder, self._batch_size, self._seed = "./connectivity", 1, 1
        self._update_field_of_view()
        self.resetTimers()

    setNavGraphPath = _setter("setNavGraphPath", arguments.text, "_folder")  # of connectivity files
    setRenderingEnabled = _setter("setRenderingEnabled", flag, "_rendering")  # to be False
    setBatchSize = _setter("setBatchSize", arguments.count, "_batch_size")  # number of environments
    setSeed = _setter(
        "setSeed", arguments.integer, "_seed"
    )  # the process's first simulator decides
    # Whether the camera has 36 views instead of any direction, and whether only neighbours inside the horizontal field of
    # view are navigable.
    setDiscretizedViewingAngles = _setter("setDiscretizedViewingAngles", flag, "_discretized")
    setRestrictedNavigation = _setter("setRestrictedNavigation", flag, "_restricted")
    # Of no consequence without rendering.
    setDatasetPath = _setter("setDatasetPath", arguments.text)
    setPreloadingEnabled = _setter("setPreloadingEnabled", flag)
    setDepthEnabled = _setter("setDepthEnabled", flag)
    setCacheSize = _setter("setCacheSize", arguments.count)

    def setCameraResolution(self, width: int, height: int, /) -> None:
        """Image size in pixels; its aspect ratio sets the horizontal field of view."""
        width_px = arguments.integer("setCameraResolution", width)
        height_px = arguments.integer("setCameraResolution", height)
        self._width, self._height = width_px, height_px
        self._update_field_of_view()

    def setCameraVFOV(self, vfov: float, /) -> None:
        """Vertical field of view, rad."""
        self._vertical_fov_rad = arguments.real("setCameraVFOV", vfov)
        self._update_field_of_view()

    def setElevationLimits(self, minimum: float, maximum: float, /) -> bool:
        """Limits of the continuous camera, rad; False, and no change, unless -pi/2 < minimum < 0 < maximum < pi/2."""
        low = arguments.real("setElevationLimits", minimum)
        high = arguments.real("setElevationLimits", maximum)
        valid = -math.pi / 2 < low < 0 < high < math.pi / 2
        if valid:
            self._lowest_rad, self._highest_rad = low, high
        return valid

    def _update_field_of_view(self) -> None:
        cosine = cos_half_field_of_view(self._vertical_fov_rad, self._width, self._height)
        self._cos_half_fov = cosine if self._restricted else None

    def resetTimers(self) -> None:
        """Restart the clocks of timingInfo()."""
        self._wall_start_s, self._process_start_s = time.perf_counter(), time.process_time()

    def timingInfo(self) -> str:
        """Time since resetTimers(); nothing is ever rendered."""
        wall_ms = 1000 * (time.perf_counter() - self._wall_start_s)
        process_ms = 1000 * (time.process_time() - self._process_start_s)
        return (
            "Preloading images: 0 minutes\nRendered 0 frames\n"
            f"Wall time: {wall_ms:.0f} ms, (0 fps)\nProcess time: {process_ms:.0f} ms, (0 fps)\n"
            "\tImage loading: 0 ms\n\tRendering: 0 ms\n\tReading rendered image: 0 ms\n"
        )
