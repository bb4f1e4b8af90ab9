"""What a node runs on, as it tells the server beside who it is: which differences keep it out of a run, and which are told.

The keys: roster (digest), version (of fedsuite), flwr, torch, numpy, python, cpu (its model), gpu (its name, or none).
Flower itself lets nodes of any version connect; a run needs one minor version of it, for messages and the
programs that carry them belong together. All else changes the last digits of what is computed, and versions of torch may
draw other actions and masks of dropout: a run is none the worse, but not to be repeated to the byte.
"""

import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import fedsuite
from fedsuite.errors import one_line
from fedsuite.storage.installed import has_no_gpu, version_of

FACTS = ("roster", "version", "flwr")
PROGRAMS = ("torch", "numpy", "python")
MACHINE = ("cpu", "gpu")
TOLD = (*FACTS, *PROGRAMS, *MACHINE)
SHOWN = 3  # names of nodes that have the same


@cache
def of_here() -> Mapping[str, str]:
    """Versions and processors of this machine."""
    found = {name: version_of(name) for name in ("torch", "numpy")}
    return found | {"python": platform.python_version(), "cpu": _processor(), "gpu": _gpu()}


def _gpu() -> str:
    """Its name, or none."""
    if has_no_gpu():
        return "none"
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"


def facts(roster: str) -> dict[str, str]:
    """What all that take part must have in common; roster: its digest."""
    return {"roster": roster, "version": fedsuite.__version__, "flwr": version_of("flwr")}


def keeping_out(here: Mapping[str, object], there: Mapping[str, object]) -> str:
    """The fact of `here` that a node with `there` must share and does not; "" where it may take part."""
    unlike = [k for k in FACTS if k in here and _shared(k, here[k]) != _shared(k, there.get(k))]
    return unlike[-1] if unlike else ""


def minor_of(release: str) -> str:
    """1.41 of 1.41.0."""
    return ".".join(release.split(".")[:2])


def told_by(said: Mapping[str, object]) -> dict[str, str]:
    """What a node's answer says of its programs and its machine, fit to be shown; without its roster."""
    named = [("fedsuite" if k == "version" else k, k) for k in TOLD if k != "roster"]
    return {name: one_line(str(said[key]), 80) for name, key in named if key in said}


def differences(nodes: Mapping[str, Mapping[str, str]]) -> str:
    """A line on what is not the same at all nodes (by name, what each has told); "" where all are alike."""
    parts = []
    for key in ("flwr", *PROGRAMS, *MACHINE):
        owners: dict[str, list[str]] = {}
        for name, told in nodes.items():
            owners.setdefault(told.get(key, "not told"), []).append(name)
        if len(owners) > 1:
            each = (f"{value} ({_listed(names)})" for value, names in owners.items())
            parts.append(f"{key} {', '.join(each)}")
    return "; ".join(parts)


def _shared(key: str, value: object) -> object:
    return minor_of(value) if key == "flwr" and isinstance(value, str) else value


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _processor() -> str:
    """The model of the processor and how many cores this process may use."""
    names = [platform.processor(), platform.machine()]
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = (
            line.partition(":")
            for line in info.read_text(encoding="utf-8", errors="replace").splitlines()
        )
        names = [v.strip() for k, _, v in lines if k.strip() == "model name"][:1] + names
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return one_line(f"{next(filter(None, names), 'unknown')}, {cores} cores", 80)
