"""Arrays from where tensors are, and to there.

From a GPU and to it they go as one piece through page-locked memory of the host, which torch keeps for the next: into other
memory a model of 10 million numbers takes ten times as long, as the driver copies it twice and every page of it is new.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from fedsuite.arrays import Arrays

_LINE = 64  # bytes: where a tensor may begin


def host_arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    """Copies, all of one device."""
    if torch.cuda.is_available() and any(t.is_cuda for t in tensors.values()):
        return from_device(tensors)
    return {name: t.detach().to("cpu", copy=True).numpy() for name, t in tensors.items()}


def device_tensors(
    arrays: Mapping[str, np.ndarray], device: torch.device | str
) -> dict[str, Tensor]:
    """Copies, on this device."""
    if torch.cuda.is_available() and torch.device(device).type == "cuda":
        return to_device(arrays, device)
    return {name: torch.tensor(array, device=device) for name, array in arrays.items()}


def from_device(tensors: Mapping[str, Tensor], pinned: bool = True) -> Arrays:
    """Views of one piece of memory. pinned: page-locked, which a host without a GPU has none of."""
    places, size = _places(t.numel() * t.element_size() for t in tensors.values())
    room = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    found: Arrays = {}
    for (name, tensor), place in zip(tensors.items(), places, strict=True):
        part = room[place].view(tensor.dtype).view(tensor.shape)
        part.copy_(tensor.detach(), non_blocking=True)
        found[name] = part.numpy()
    if pinned:
        torch.cuda.current_stream().synchronize()
    return found


def to_device(
    arrays: Mapping[str, np.ndarray], device: torch.device | str, pinned: bool = True
) -> dict[str, Tensor]:
    """Views of one piece of the device's memory."""
    places, size = _places(array.nbytes for array in arrays.values())
    room = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    forms = {}
    for (name, array), place in zip(arrays.items(), places, strict=True):
        dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
        np.copyto(room[place].view(dtype).view(array.shape).numpy(), array)
        forms[name] = place, dtype, array.shape
    there = room.to(device, non_blocking=True)
    return {name: there[place].view(d).view(shape) for name, (place, d, shape) in forms.items()}


def _places(sizes: Iterable[int]) -> tuple[list[slice], int]:
    """Where each of so many bytes lies, and how many there are in all."""
    places, end = [], 0
    for size in sizes:
        begin = -(-end // _LINE) * _LINE
        end = begin + size
        places.append(slice(begin, end))
    return places, end
