"""Which versions of packages this process has, by their metadata on disk."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def version_of(package: str) -> str:
    """Its version, or "not installed"; read once, for what a process has loaded stays as it is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
