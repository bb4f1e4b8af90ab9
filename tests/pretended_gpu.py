"""A GPU that is none: its tensors stand on another device by name, compute on the CPU, and meet those of the CPU no more
than a GPU's do.

    with pretended_gpu():
        run_inprocess(...)  # of a configuration with device = "cuda"

What a GPU refuses is refused: an operator with tensors of both devices (numbers without a dimension and copies aside), and
numpy of a tensor that is not on the CPU. Numbers, memory and speed of a GPU are not shown by it. The device is torch's
`meta`, whose tensors autograd takes without a driver; its own tensors, which have no numbers, are never made.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only

from benchmarks.pretended_graphs import PretendedGraphs
from fedsuite.settings import devices
from tests import gpu_kernels

DEVICE = torch.device("meta")
SYSTEMS = ("fedvln", "cdl", "fedrl")
_MEET = {
    "aten::_to_copy", "aten::copy_", "aten::_local_scalar_dense", "aten::_pack_padded_sequence",
}  # fmt: skip
_tensor, _fork_rng, _run = torch.tensor, torch.random.fork_rng, threading.Thread.run


def _is_there(device: Any) -> bool:
    return device is not None and torch.device(device).type == DEVICE.type


class Far(torch.Tensor):
    """near: the same tensor, on the CPU."""

    near: torch.Tensor
    is_cuda = property(lambda self: True)

    @staticmethod
    def __new__(cls, near: torch.Tensor) -> "Far":
        about: dict[str, Any] = {"strides": near.stride(), "storage_offset": near.storage_offset()}
        far = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, near.shape, dtype=near.dtype, device=DEVICE, **about
        )
        far.near = near
        return far

    def __init__(self, near: torch.Tensor) -> None:
        super().__init__()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _carried_out(func, args, kwargs or {})

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_index(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_index(key), value)

    def tolist(self) -> Any:
        return self.near.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert a tensor of a GPU to numpy; use .cpu() first")

    def __array__(self, *_: Any) -> Any:
        self.numpy()


def _index(key: Any) -> Any:
    """Lists of places as tensors, which torch would make on the device where no mode sees it."""
    if isinstance(key, tuple):
        return tuple(map(_index, key))
    return Far(_tensor(key)) if isinstance(key, list) else key


def _carried_out(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operator on the CPU's copies; what comes out is where a GPU would have it."""
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
    far = any(isinstance(x, Far) for x in tensors)
    asked = kwargs.get("device")
    near = [x for x in tensors if not isinstance(x, Far) and x.dim()]
    if far and near and func._schema.name not in _MEET:
        where = [(tuple(x.shape), str(x.device)) for x in tensors]
        raise RuntimeError(f"{func}: expected all tensors to be on the same device, got {where}")
    own = {**kwargs, "device": torch.device("cpu")} if _is_there(asked) else kwargs
    nearby = tree_map_only(Far, lambda x: x.near, (args, own))
    out = func(*nearby[0], **nearby[1])
    if func._schema.name == "aten::copy_":
        return args[0]
    if not (_is_there(asked) or (far and asked is None)):
        return out
    if func._schema.name == "aten::_to_copy" and out is nearby[0][0]:
        out = out.clone()
    if func._schema.name == "aten::_pack_padded_sequence":
        return Far(out[0]), out[1]
    return return_and_correct_aliasing(func, args, kwargs, tree_map_only(torch.Tensor, Far, out))


class _Mode(TorchDispatchMode):
    """Also what is made on the device from nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _carried_out(func, args, kwargs or {})


class _Generator(torch.Generator):
    """Draws on the CPU, of the device that was asked for."""

    far: bool

    def __new__(cls, device: Any = "cpu") -> "_Generator":
        made = super().__new__(cls)
        made.far = _is_there(device)
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE if self.far else torch.device("cpu")


def _of_numbers(data: Any, *, device: Any = None, **more: Any) -> torch.Tensor:
    made = _tensor(data, **more)
    return Far(made) if _is_there(device) else made


def _named(device: str, precision: str = "float32") -> str:
    return "cpu" if device == "cpu" else DEVICE.type


def _in_mode(thread: threading.Thread) -> None:
    with _Mode():
        _run(thread)


def _nothing(*_: Any) -> None: ...


# What asks the driver, and what torch hands over to no mode.
_OTHERS: dict[str, Any] = {
    "torch.cuda.mem_get_info": lambda: (1 << 34, 1 << 34),
    "torch.cuda.current_device": lambda: 0,
    "torch.cuda.manual_seed": _nothing,
    "fedsuite.vln.model.recording.CudaGraphs": PretendedGraphs,
    "torch.optim.optimizer._get_fused_kernels_supported_devices": lambda: ["cpu", DEVICE.type],
    "torch.random.fork_rng": lambda devices: _fork_rng(devices=[]),
    "torch.tensor": _of_numbers,
    "torch.Generator": _Generator,
    "threading.Thread.run": _in_mode,
}


@contextmanager
def pretended_gpu() -> Iterator[list[str]]:
    """`device = "cuda"` is this device meanwhile. Names of operators with kernels on a GPU alone, as they are called."""
    with ExitStack() as stack:
        for name in ("clients.torch_client", *(f"simulations.{s}.client" for s in SYSTEMS)):
            import_module(name)
        own = {devices.device_of: _named, devices.check_device: _nothing}
        for name, module in [*sys.modules.items()]:
            for known in ("device_of", "check_device"):
                if (other := own.get(getattr(module, known, None))) is not None:
                    stack.enter_context(patch(f"{name}.{known}", other))
        for name, other in _OTHERS.items():
            stack.enter_context(patch(name, other))
        kernels = stack.enter_context(gpu_kernels.on_the_cpu())
        stack.enter_context(_Mode())
        yield kernels
