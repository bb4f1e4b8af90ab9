"""What the Matterport3D Simulator hands out: live SimState and ViewPoint objects.

Source: Matterport3D Simulator (Anderson et al. 2018), batch API. The objects belong to the simulator: they are read-only,
cannot be made, copied or pickled by the user, and show the present also to those who kept them. A state is the same
object for the simulator's whole life; the ViewPoint one moves to becomes `location` and has its relative heading,
elevation and distance zeroed.
"""

import functools
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from fedsuite.vln.mattersim.buildings import House
from fedsuite.vln.mattersim.geometry import Candidates, Place, Relative

_HERE: Relative = (0.0, 0.0, 0.0)


class _Live:
    """An object that only the simulator makes."""

    __slots__ = ()

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError(f"MatterSim.{type(self).__name__}: No constructor defined!")

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        raise TypeError(f"cannot pickle 'MatterSim.{type(self).__name__}' object")


class ViewPoint(_Live):
    """A panorama as seen from the camera.

    viewpointId: image id; ix: position in the house's file, excluded panoramas counted; x, y, z: of
    its camera, east, north and up, m. Relative to the camera: rel_heading, to the right, rad, in
    [-pi, pi]; rel_elevation, above, rad; rel_distance, in space, m.
    """

    __slots__ = ("_place", "_relative")
    _place: Place
    _relative: Relative

    viewpointId = property(lambda self: self._place.viewpoint_id)
    ix = property(lambda self: self._place.ix)
    x = property(lambda self: self._place.x)
    y = property(lambda self: self._place.y)
    z = property(lambda self: self._place.z)
    rel_heading = property(lambda self: self._relative[0])
    rel_elevation = property(lambda self: self._relative[1])
    rel_distance = property(lambda self: self._relative[2])


def _viewpoint(place: Place, relative: Relative) -> ViewPoint:
    viewpoint = ViewPoint.__new__(ViewPoint)
    viewpoint._place = place
    viewpoint._relative = relative
    return viewpoint


@functools.cache
def _black(shape: tuple[int, ...], dtype: type[np.generic]) -> np.ndarray:
    pixels = np.zeros(shape, dtype)
    pixels.flags.writeable = False
    return pixels


@dataclass(init=False, repr=False, eq=False, slots=True)
class SimState(_Live):
    """One environment.

    scanId: name of the house, "" before the first episode; step: number of actions since the start of the episode;
    location: where the camera is, None before the first episode; heading: rad in [0, 2 pi]; elevation: rad; viewIndex:
    view 0..35 of the discretised camera, else 0. Unrendered: rgb, zeros [height, width, 3] uint8; depth, zeros
    [height, width, 1] uint16.
    """

    _candidates: Candidates
    _elevation_rad: float
    _heading_rad: float
    _house: House | None
    _location: ViewPoint | None
    _navigable: list[ViewPoint] | None  # live; made when first asked for
    _size: tuple[int, int]  # height, width in pixels
    _step: int
    _view: int

    step = property(lambda self: self._step)
    location = property(lambda self: self._location)
    heading = property(lambda self: self._heading_rad)
    elevation = property(lambda self: self._elevation_rad)
    viewIndex = property(lambda self: self._view)

    scanId = property(lambda self: self._house.scan if self._house else "")
    rgb = property(lambda self: _black((*self._size, 3), np.uint8))
    depth = property(lambda self: _black((*self._size, 1), np.uint16))

    @property
    def navigableLocations(self) -> list[ViewPoint]:
        """Where one can go, in a new list: the current location, then from the image centre on."""
        if self._navigable is None:
            here = [] if self._location is None else [self._location]
            self._navigable = here + [_viewpoint(*c) for c in self._candidates]
        return self._navigable.copy()

    def _count(self) -> int:
        """Length of navigableLocations."""
        return 0 if self._location is None else 1 + len(self._candidates)

    def _move(self, index: int) -> None:
        """Go to navigableLocations[index] and count a step."""
        if index:
            if self._navigable is None:
                self._location = _viewpoint(self._candidates[index - 1][0], _HERE)
            else:
                self._location = self._navigable[index]
                self._location._relative = _HERE
        self._step += 1

    def _start(self, house: House, place: Place) -> None:
        self._house, self._location, self._step = house, _viewpoint(place, _HERE), 0

    def _look(
        self, heading_rad: float, elevation_rad: float, view: int, candidates: Candidates
    ) -> None:
        """Show what is seen after the camera has been turned."""
        self._heading_rad, self._elevation_rad, self._view = heading_rad, elevation_rad, view
        self._candidates, self._navigable = candidates, None


def new_state(height: int, width: int) -> SimState:
    """The state of an environment before its first episode."""
    state = SimState.__new__(SimState)
    state._house = state._location = state._navigable = None
    state._candidates, state._size = (), (height, width)
    state._step = state._view = 0
    state._heading_rad = state._elevation_rad = 0.0
    return state
