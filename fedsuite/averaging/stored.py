"""Replies that wait on disk: named arrays, of which single ones and parts of them are read when they are asked for."""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from fedsuite.arrays import Arrays, Named


class Stored(Named):
    """Arrays in a file that has their numbers one after another; each is read when it is asked for, and none is kept.

    places: by name the first byte of an array, its shape and its type.
    """

    def __init__(
        self, file: Path, places: Mapping[str, tuple[int, tuple[int, ...], np.dtype]]
    ) -> None:
        self.file, self.places = file, places

    @classmethod
    def write(cls, file: Path, arrays: Named) -> "Stored":
        """The same arrays, now in this file; an OSError names its folder."""
        places, at = {}, 0
        try:
            with file.open("wb") as out:
                for name, array in arrays.items():
                    places[name] = (at, array.shape, array.dtype)
                    at += out.write(np.ascontiguousarray(array).data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(file.parent)) from error
        return cls(file, places)

    def __getitem__(self, name: str) -> np.ndarray:
        _, shape, _ = self.places[name]
        return self.part(name, 0, math.prod(shape)).reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __or__(self, others: Named) -> Arrays:
        return {**self, **others}

    def part(self, name: str, first: int, last: int) -> np.ndarray:
        """Numbers first .. last - 1 of an array in C order."""
        at, _, kind = self.places[name]
        return np.fromfile(self.file, kind, last - first, offset=at + first * kind.itemsize)


def part_of(arrays: Named, name: str, first: int, last: int) -> np.ndarray:
    """Numbers first .. last - 1 of an array in C order; of a stored one no others are read."""
    if isinstance(arrays, Stored):
        return arrays.part(name, first, last)
    return arrays[name].reshape(-1)[first:last]


def picked(arrays: Named, names: Iterable[str]) -> Named:
    """The arrays of these names, in this order; stored ones stay where they are."""
    if isinstance(arrays, Stored):
        return Stored(arrays.file, {name: arrays.places[name] for name in names})
    return {name: arrays[name] for name in names}


def stored_like(source: Named, made: Arrays) -> Named:
    """What was made of `source`: beside its file if it is a stored one, in memory if it is not."""
    if isinstance(source, Stored):
        return Stored.write(source.file.with_stem(f"{source.file.stem}-made"), made)
    return made
