"""Model state as named NumPy arrays: what travels, what is averaged, what is stored.

Names are the dotted names of `torch.nn.Module.state_dict()`. Arrays are float32 unless the module says otherwise.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import safetensors.numpy

if TYPE_CHECKING:
    import torch

Arrays = dict[str, np.ndarray]
Form = tuple[
    tuple[int, ...], str
]  # shape and type of an array, such as ((2, 3), "float32"); type "": any numbers
# No number that travels is larger in size; whole numbers are counts and ids, which grow with a run.
LARGEST, LARGEST_COUNT = 1e6, 1e12


def module_arrays(module: "torch.nn.Module") -> Arrays:
    """Copies of all parameters and buffers of `module`, by name, in the module's order."""
    return {k: v.detach().cpu().numpy().copy() for k, v in module.state_dict().items()}


def load_arrays(module: "torch.nn.Module", arrays: Mapping[str, np.ndarray]) -> None:
    """Copy `arrays` into `module`; every name of the module must be there, with its shape."""
    import torch

    state = module.state_dict()
    missing, unknown = sorted(state.keys() - arrays.keys()), sorted(arrays.keys() - state.keys())
    if missing or unknown:
        raise ValueError(
            f"array names differ from the model's: missing {missing}, unknown {unknown}"
        )
    with torch.no_grad():
        for name, target in state.items():
            if tuple(target.shape) != arrays[name].shape:
                raise ValueError(
                    f"{name}: expected shape {tuple(target.shape)}, got {arrays[name].shape}"
                )
            target.copy_(torch.tensor(arrays[name]))


@dataclass(frozen=True)
class Share:
    """Some arrays of a model, by the beginnings of their names; ("",) all, () none. but: beginnings that are left out.

    A name is compared with a dot behind it, so that "head." is the array head and all below it; * stands for any characters.
    """

    prefixes: tuple[str, ...] = ("",)
    but: tuple[str, ...] = ()

    def covers(self, name: str) -> bool:
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
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


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
    limits = {k: LARGEST if a.dtype.kind == "f" else LARGEST_COUNT for k, a in arrays.items()}
    bad = {k: x for k, x in extremes(arrays).items() if not abs(x) <= limits[k]}
    for name, value in bad.items():
        large = f"{value:g}, more than {limits[name]:g} in size"
        found = large if math.isfinite(value) else "NaN or infinity"
        return f"array {name} holds {found} ({len(bad)} such arrays)"
    return ""


def fingerprint(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and bytes, in name order."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        a = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{a.dtype.str}|{a.shape}|".encode())
        digest.update(a.data)  # without a copy
    return digest.hexdigest()
