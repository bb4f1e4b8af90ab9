"""Model state as named NumPy arrays: what travels, what is averaged, what is stored.

Names are the dotted names of `torch.nn.Module.state_dict()`. Arrays are float32 unless the module says otherwise.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import safetensors.numpy

if TYPE_CHECKING:
    import torch

Arrays = dict[str, np.ndarray]
Named = Mapping[str, np.ndarray]
Form = tuple[
    tuple[int, ...], str
]  # shape and type of an array, such as ((2, 3), "float32"); type "": any numbers
# No number that travels is larger in size; whole numbers are counts and ids, which grow with a run.
LARGEST, LARGEST_COUNT = 1e6, 1e12
_SUMMED = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


def module_arrays(module: "torch.nn.Module") -> Arrays:
    """Copies of all parameters and buffers of `module`, by name, in the module's order."""
    from fedsuite.device_arrays import host_arrays

    return host_arrays(module.state_dict())


def load_arrays(module: "torch.nn.Module", arrays: Mapping[str, np.ndarray]) -> None:
    """Copy `arrays` into `module`; every name of the module must be there, with its shape."""
    import torch

    from fedsuite.device_arrays import device_tensors

    state = module.state_dict()
    if state.keys() != arrays.keys():
        missing = sorted(state.keys() - arrays.keys())
        unknown = sorted(arrays.keys() - state.keys())
        raise ValueError(
            f"array names differ from the model's: missing {missing}, unknown {unknown}"
        )
    for name, target in state.items():
        if tuple(target.shape) != arrays[name].shape:
            raise ValueError(
                f"{name}: expected shape {tuple(target.shape)}, got {arrays[name].shape}"
            )
    there = next((target.device for target in state.values()), torch.device("cpu"))
    moved = {} if there.type == "cpu" else device_tensors(arrays, there)
    with torch.no_grad():
        for name, target in state.items():
            array = arrays[name]
            if moved:
                target.copy_(moved[name])
            else:  # torch warns of arrays that may not be written to, and copies them
                writeable = array.flags.writeable
                target.copy_(torch.from_numpy(array) if writeable else torch.tensor(array))


@dataclass(frozen=True)
class Share:
    """Some arrays of a model, by the beginnings of their names; ("",) all, () none. but: beginnings that are left out.

    A name is compared with a dot behind it, so that "head." is the array head and all below it; * stands for any characters.
    """

    prefixes: tuple[str, ...] = ("",)
    but: tuple[str, ...] = ()

    def covers(self, name: str) -> bool:
        if self.prefixes == ("",) and not self.but:
            return True
        return _begins(name, self.prefixes) and not _begins(name, self.but)

    def select(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        return {k: v for k, v in arrays.items() if self.covers(k)}


def _begins(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(f"{name}.", f"{pattern}*") for pattern in patterns)


def with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> Arrays:
    """The same arrays under `prefix` + name."""
    return {prefix + name: value for name, value in arrays.items()}


def under_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> Arrays:
    """The arrays whose name starts with `prefix`, with the prefix removed."""
    return {k.removeprefix(prefix): arrays[k] for k in arrays if k.startswith(prefix)}


def arrays_to_bytes(
    arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> bytes:
    """Safetensors bytes of named arrays of any memory layout."""
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return safetensors.numpy.save(plain, metadata)


def num_bytes(arrays: Iterable[np.ndarray]) -> int:
    """Payload size of the arrays, bytes."""
    return sum(a.nbytes for a in arrays)


def forms_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Form]:
    """Shape and type of every array."""
    return {name: (array.shape, _type(array.dtype)) for name, array in arrays.items()}


_type: Callable[[np.dtype], str] = cache(
    str
)  # a dtype's name takes it longer than many an array its check


def non_finite(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Names of the floating-point arrays that hold a NaN or an infinity."""
    return [k for k, a in arrays.items() if a.dtype.kind == "f" and not np.isfinite(a).all()]


def extremes(arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Of every array the number that is largest in size, NaN if there is one; arrays without elements have none."""
    ends = {k: (float(a.min()), float(a.max())) for k, a in arrays.items() if a.size}
    return {k: max(pair, key=abs) for k, pair in ends.items()}


def range_complaint(arrays: Mapping[str, np.ndarray]) -> str:
    """Which array holds NaN, infinity or too large a number, how large, and how many such arrays there are; "" if none."""
    looked = {k: a for k, a in arrays.items() if not _clearly_small(a)}
    limits = {k: LARGEST if a.dtype.kind == "f" else LARGEST_COUNT for k, a in looked.items()}
    bad = {k: x for k, x in extremes(looked).items() if not abs(x) <= limits[k]}
    for name, value in bad.items():
        large = f"{value:g}, more than {limits[name]:g} in size"
        found = large if math.isfinite(value) else "NaN or infinity"
        return f"array {name} holds {found} ({len(bad)} such arrays)"
    return ""


def _clearly_small(array: np.ndarray) -> bool:
    """Whether the sum of squares alone shows that no number is NaN or near the largest; it takes one pass over them."""
    if array.dtype not in _SUMMED or not array.flags.c_contiguous:
        return False
    flat = array.reshape(-1)
    return bool(flat.dot(flat) < (LARGEST / 10) ** 2)


def fingerprint(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and bytes, in name order."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        a = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{a.dtype.str}|{a.shape}|".encode())
        digest.update(a.data)  # without a copy
    return digest.hexdigest()


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
