"""Settings of this process that change no result: they make the same arithmetic faster, or let it open more files."""

import ctypes
import inspect
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, wraps
from typing import Any

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ONE_GIB = 1 << 30
MOST_FILES = 10_240  # macOS gives a process no more, whatever limit it names


@cache
def keep_freed_memory() -> bool:
    """Let glibc reuse freed blocks instead of giving each back to the system; False where there is no glibc.

    Training allocates and frees tensors of some MB thousands of times; by default each allocation maps fresh pages that
    the kernel has to clear, which can take longer than the arithmetic on them. Threads share the blocks of one another: a
    thread that ends would leave its own to nobody. Before the first tensor is made, torch can
    also be told to ask for pages of 2 MiB for large ones.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    asked = (_M_MMAP_THRESHOLD, _ONE_GIB), (_M_TRIM_THRESHOLD, _ONE_GIB), (_M_ARENA_MAX, 1)
    return all(libc.mallopt(*one) for one in asked)


@cache
def open_more_files() -> None:
    """As many as the system allows a process that asks, where there is such a limit: a client's data are two to four files,
    and macOS begins with 256, most Linux systems with 1,024."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@cache
def leave_the_compiler_out() -> None:
    """Let torch's optimizers work without importing torch's compiler, a second of a processor in every process that trains.

    They import it to tell it what not to compile. Until something else has imported it, nothing can be compiled, and what
    they do is what is written in them; from then on they are torch's own.
    """
    if "torch._dynamo" in sys.modules:
        return
    from torch.optim import SGD, Adam, Optimizer

    for method in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        setattr(Optimizer, method, _before_the_compiler(getattr(Optimizer, method)))
    for optimizer in (Adam, SGD):
        optimizer.step = _before_the_compiler(optimizer.step, _as_defaults_say)  # type: ignore[method-assign]


def _before_the_compiler(
    method: Callable[..., Any], around: Callable[[Any], AbstractContextManager[Any]] = nullcontext
) -> Callable[..., Any]:
    """An optimizer's method as it was written, or `method`, torch's form of it, where the compiler is loaded."""
    written = inspect.unwrap(method)

    @wraps(written)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo" in sys.modules:
            return method(self, *args, **kwargs)
        with around(self):
            return written(self, *args, **kwargs)

    return called


def _as_defaults_say(optimizer: Any) -> AbstractContextManager[Any]:
    """A step takes gradients of itself only where that was asked for."""
    import torch

    return torch.set_grad_enabled(optimizer.defaults["differentiable"])


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process's environment, while the context lasts."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})
