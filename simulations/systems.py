"""Which system a run is of: a small explicit table, and the extension point.

`system = "fedvln"` names a row of the table; `system = "package.module:ATTRIBUTE"` names a System
of your own, in any module that Python can import (installed, or on PYTHONPATH). Nothing is imported
before it is asked for.
"""

import difflib
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from fedsuite.config import RunSettings, limits_of, read_config
from fedsuite.errors import InputError

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.client import NumPyClient

    from fedsuite.federation import RoundStrategy

BUILT_IN: Mapping[str, str] = {
    "fedvln": "simulations.fedvln_system:SYSTEM",
    "cdl": "simulations.cdl_system:SYSTEM",
    "fedrl": "simulations.fedrl_system:SYSTEM",
}
OWN_DEFAULT = "default"  # a run-config value that leaves the choice to the system
Progress = Callable[[str], None]
C = TypeVar("C", bound=RunSettings)


@dataclass(frozen=True)
class System(Generic[C]):
    """What the server app, the client app and the command line need to know of a system.

    validate: raise InputError for settings that cannot work; fast, starts nothing, writes nothing.
    prepare: convert data once; may take time, tells progress, does nothing when all is there.
    num_partitions: number of clients; called after prepare.
    make_strategy: the server's side; gets the run folder.
    make_client: the client of a node; reads context.run_config and
    context.node_config["partition-id"].
    closing: tables and plots at the end of a run.
    compare: tables and plots over the completed runs of an experiment of several; gets its folder and
    the settings by run, "variant" or "variant/seed-0", whose folder is the one of that name inside.
    It writes <folder>/results.md. None: a table of the last metrics.
    engine: where clients run if nobody says; "inprocess" suits protocols of many small messages.
    """

    config_class: type[C]
    validate: Callable[[C], None]
    prepare: Callable[[C, Progress], None]
    num_partitions: Callable[[C], int]
    make_strategy: Callable[[C, Path], "RoundStrategy"]
    make_client: Callable[["Context"], "NumPyClient"]
    closing: Callable[[C, Path], None]
    compare: Callable[[Path, Mapping[str, C]], None] | None = None
    engine: Literal["ray", "inprocess"] = "ray"


def load_system(name: str) -> System[Any]:
    """The System called `name`, or found at `module:attribute`; InputError if there is none."""
    module_name, colon, attribute = BUILT_IN.get(name, name).partition(":")
    if not (module_name and colon and attribute):
        near = difflib.get_close_matches(name, BUILT_IN, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "valid: " + ", ".join(BUILT_IN)
        raise InputError(
            f"system: unknown system {name!r}; {hint} (or module:ATTRIBUTE of your own)"
        )
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and not _is_part_of(error.name, module_name):
            raise
        raise InputError(
            f"system: {name!r} cannot be imported ({error}); install its package or set PYTHONPATH"
        ) from None
    if not isinstance(found, System):
        raise InputError(f"system: {name!r} is a {type(found).__name__}, expected a System")
    return found


def settings_of(run_config: Mapping[str, Any]) -> tuple[System[Any], RunSettings]:
    """System and settings of a Flower run-config; other systems' keys and the value "default" are left out."""
    return _settings_of(json.dumps(dict(run_config), sort_keys=True))


@lru_cache(maxsize=16)  # asked for with every message
def _settings_of(text: str) -> tuple[System[Any], RunSettings]:
    run_config = json.loads(text)
    system = load_system(str(run_config.get("system", RunSettings().system)))
    known = limits_of(system.config_class)
    own = {k: v for k, v in run_config.items() if k in known and v != OWN_DEFAULT}
    return system, read_config(system.config_class, own, "run-config")


def _is_part_of(missing: str | None, module_name: str) -> bool:
    """Whether the module that was not found is the system's own, not one that it needs."""
    return missing is not None and (module_name + ".").startswith(missing + ".")
