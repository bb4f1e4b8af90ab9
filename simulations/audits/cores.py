"""Attacks that need a run's settings and folder alone, as an audit calls them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.privacy.findings import Finding
from fedsuite.storage.progress import Progress
from simulations.audits.audited import Audited

# (settings, the run's folder, seed, progress, quick) -> findings.
Core = Callable[[Any, Path, int, Progress, bool], Iterator[Finding]]


@dataclass(frozen=True)
class CoreAttack:
    """The same, given what is audited; it reads no settings of attacks."""

    core: Core

    def __call__(self, audited: Audited) -> Iterator[Finding]:
        path = audited.folder.path
        return self.core(audited.config, path, audited.seed, audited.progress, audited.quick)
