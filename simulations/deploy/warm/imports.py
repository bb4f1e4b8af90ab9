"""Imported modules of our packages, for a child that would import these very files, and for no other.

An app bundle may bring its own copy of the packages, which goes before the installed ones; and an installation may be
replaced while the server runs. In both cases the child imports anew, as a new process does.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGES = ("fedsuite", "strategies", "clients", "simulations")


@dataclass(frozen=True, eq=False)
class Kept(MetaPathFinder, Loader):
    """modules: by name; written: when each one's file was written, by path."""

    modules: Mapping[str, ModuleType]
    written: Mapping[str, int]

    @classmethod
    def now(cls) -> "Kept":
        """All that is imported of our packages."""
        own = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in PACKAGES}
        files = [path for m in own.values() if (path := _file_of(m.__spec__))]
        return cls(own, {path: os.stat(path).st_mtime_ns for path in files})

    def offer(self) -> None:
        """From now on they count as not imported; the first import of one decides whether all of them are handed out."""
        for name in self.modules:
            del sys.modules[name]
        if all(_written(path) == stamp for path, stamp in self.written.items()):
            sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.modules:
            return None
        sys.meta_path.remove(self)
        if any(_file_of(_found(p)) != _file_of(self.modules[p].__spec__) for p in PACKAGES):
            return _found(name, path)
        sys.modules.update(self.modules)
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It ran in the server."""


def _found(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
    """What this process would import."""
    for finder in sys.meta_path:
        if spec := finder.find_spec(name, path, None):
            return spec
    return None


def _file_of(spec: ModuleSpec | None) -> str:
    return os.path.realpath(spec.origin) if spec and spec.origin and spec.has_location else ""


def _written(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1
