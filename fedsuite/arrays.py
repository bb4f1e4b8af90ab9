"""Model state as named NumPy arrays: what travels, what is averaged, what is stored.

Names are the dotted names of `torch.nn.Module.state_dict()`. Arrays are float32 unless the module says otherwise.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

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
    return host_arrays(module.state_dict())


def load_arrays(module: "torch.nn.Module", arrays: Named) -> None:
    """Copy `arrays` into `module`; every name of the module must be there, with its shape."""
    import torch

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
    moved: Mapping[str, torch.Tensor] = {}
    if any(target.is_cuda for target in state.values()):
        moved = device_tensors(arrays, next(iter(state.values())).device)
    with torch.no_grad():
        for name, target in state.items():
            array = arrays[name]
            # torch warns of arrays that may not be written to, and copies them.
            plain = torch.from_numpy if array.flags.writeable else torch.tensor
            target.copy_(moved[name] if moved else plain(array))


class _Loaded:
    """What a module was given, and its versions after that, which every write raises."""

    def __init__(self, module: "torch.nn.Module", arrays: Named) -> None:
        self.given = {name: ref(array) for name, array in arrays.items()}
        self.versions = _versions(module)

    def still(self, module: "torch.nn.Module", arrays: Named) -> bool:
        """Whether it is these very arrays that it has."""
        same = self.given.keys() == arrays.keys()
        return (
            same
            and all(one() is arrays[name] for name, one in self.given.items())
            and self.versions == _versions(module)
        )


_LOADED: "WeakKeyDictionary[torch.nn.Module, _Loaded]" = WeakKeyDictionary()


def load_arrays_once(module: "torch.nn.Module", arrays: Named) -> None:
    """`load_arrays`, of arrays that nobody writes to: nothing is done where the module was last given these very arrays here
    and nothing has changed it since."""
    before = _LOADED.get(module)
    if before is None or not before.still(module, arrays):
        load_arrays(module, arrays)
        _LOADED[module] = _Loaded(module, arrays)


def _versions(module: "torch.nn.Module") -> list[int]:
    return [tensor._version for tensor in module.state_dict().values()]


def host_arrays(tensors: Mapping[str, "torch.Tensor"], piece: bool | None = None) -> Arrays:
    """Copies of tensors of one device. piece: as views of one piece of memory, by default where they come from a GPU: it is
    page-locked, and torch keeps it for the next; other memory is new every time, and the driver copies twice."""
    import torch

    locked = torch.cuda.is_available() and any(t.is_cuda for t in tensors.values())
    if not (locked if piece is None else piece):
        return {name: t.detach().to("cpu", copy=True).numpy() for name, t in tensors.items()}
    places, size = _places([t.numel() * t.element_size() for t in tensors.values()])
    room, found = torch.empty(size, dtype=torch.uint8, pin_memory=locked), Arrays()
    for (name, tensor), place in zip(tensors.items(), places, strict=True):
        part = room[place].view(tensor.dtype).view(tensor.shape)
        found[name] = part.copy_(tensor.detach(), non_blocking=True).numpy()
    if locked:
        torch.cuda.current_stream().synchronize()
    return found


def device_tensors(
    arrays: Named, device: "torch.device | str", piece: bool | None = None
) -> "dict[str, torch.Tensor]":
    """Copies on a device, as `host_arrays` brings them."""
    import torch

    locked = torch.cuda.is_available() and torch.device(device).type == "cuda"
    if not (locked if piece is None else piece):
        return {name: torch.tensor(array, device=device) for name, array in arrays.items()}
    places, size = _places([array.nbytes for array in arrays.values()])
    room = torch.empty(size, dtype=torch.uint8, pin_memory=locked)
    types = {k: torch.from_numpy(np.empty(0, a.dtype)).dtype for k, a in arrays.items()}
    for (name, array), place in zip(arrays.items(), places, strict=True):
        np.copyto(room[place].view(types[name]).view(array.shape).numpy(), array)
    there, each = room.to(device, non_blocking=True), zip(arrays.items(), places, strict=True)
    return {name: there[p].view(types[name]).view(a.shape) for (name, a), p in each}


def _places(sizes: Sequence[int]) -> tuple[list[slice], int]:
    """Where each of so many bytes lies, 64 apart, and how many there are in all."""
    starts = [0, *accumulate(-(-size // 64) * 64 for size in sizes)]
    return [slice(begin, begin + n) for begin, n in zip(starts, sizes, strict=False)], starts[-1]


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
        cause = ", as after training that diverged" * (looked[name].dtype.kind == "f")
        return f"array {name} holds {found}{cause} ({len(bad)} such arrays)"
    return ""


def _clearly_small(array: np.ndarray) -> bool:
    """Whether the sum of squares alone shows that no number is NaN or near the largest; it takes one pass over them."""
    if array.dtype not in _SUMMED or not array.flags.c_contiguous:
        return False
    flat = array.reshape(-1)
    with np.errstate(over="ignore"):  # what is too large is said in words
        return bool(flat.dot(flat) < (LARGEST / 10) ** 2)


def fingerprint(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and bytes, in name order."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        a = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{a.dtype.str}|{a.shape}|".encode())
        digest.update(a.data)  # without a copy
    return digest.hexdigest()
