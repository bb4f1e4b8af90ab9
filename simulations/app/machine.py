"""Settings of this process that make the same arithmetic faster; they change no result."""

import ctypes
import os
import platform
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_ONE_GIB = 1 << 30


@cache
def keep_freed_memory() -> bool:
    """Let glibc reuse freed blocks instead of giving each back to the system; False where there is no glibc.

    Training allocates and frees tensors of some MB thousands of times; by default each allocation maps fresh pages that
    the kernel has to clear, which can take longer than the arithmetic on them. Before the first tensor is made, torch can
    also be told to ask for pages of 2 MiB for large ones.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    return bool(
        libc.mallopt(_M_MMAP_THRESHOLD, _ONE_GIB) and libc.mallopt(_M_TRIM_THRESHOLD, _ONE_GIB)
    )
