"""Attacks that need a run's settings and folder alone, as an audit calls them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedsuite.privacy.findings import Finding
from fedsuite.storage.progress import Progress
from simulations.audits.audited import Attack, Audited

# (settings, the run's folder, seed, progress, quick) -> findings.
Core = Callable[[Any, Path, int, Progress, bool], Iterator[Finding]]


def attack_of(core: Core) -> Attack:
    """The same, given what is audited."""

    def attack(audited: Audited) -> Iterator[Finding]:
        path = audited.folder.path
        return core(audited.config, path, audited.seed, audited.progress, audited.quick)

    return attack
