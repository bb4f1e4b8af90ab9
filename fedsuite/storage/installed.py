"""What this machine has, found without loading it: versions of packages by their metadata, GPUs by their devices."""

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# Files in /dev of the GPUs that torch knows.
DEVICES = ("nvidia*", "nvhost*", "nvmap", "kfd", "dxg")


@cache
def version_of(package: str) -> str:
    """Its version, or "not installed"; read once, for what a process has loaded stays as it is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def has_no_gpu() -> bool:
    """Whether it is certain that torch would see none: it takes seconds to load, and need not be asked then."""
    return sys.platform == "linux" and not any(any(Path("/dev").glob(n)) for n in DEVICES)
