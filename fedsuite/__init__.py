"""fedsuite: federated embodied learning on Flower. This is what a program of one's own imports.

    from fedsuite import report, run

    played = run("fedvln/three-houses", seed=1)
    report(played, "page.html")

Every name is imported when it is first asked for, so that `import fedsuite` takes no time. What is not listed here may
move between versions. The modules below this package are the cores: they know neither Flower nor Ray.
"""

from importlib import import_module
from typing import Any

from fedsuite.beside import check_beside

__version__ = "0.1.0"

# By module; __init__.pyi says the same to type checkers.
_PUBLIC = {
    "simulations.app.in_python": ("report", "run"),
    "simulations.check_system": ("check_system",),
    "simulations.systems": ("Node", "System"),
    "simulations.torch_system": ("torch_system",),
    "strategies.fedavg": ("FedAvg",),
    "strategies.wrapping": ("Wrapped", "around"),
    "clients.torch_client": ("TorchClient",),
    "fedsuite.arrays": ("Arrays", "Share"),
    "fedsuite.averaging.merging": ("MergeRule", "Merged", "server_step"),
    "fedsuite.averaging.settings": ("FedAvgSettings",),
    "fedsuite.averaging.step": ("Step",),
    "fedsuite.settings.metrics": ("Metric",),
    "fedsuite.averaging.exchange": (
        "Codec",
        "Exchange",
    ),
    "fedsuite.averaging.local_method": (
        "Left",
        "LocalMethod",
        "Visit",
    ),
    "fedsuite.checking": (
        "check_client",
        "check_environment",
        "check_strategy",
        "check_topology",
    ),
    "fedsuite.driving.data.torch_frames": ("SteeringFrames",),
    "fedsuite.errors": ("InputError", "RunFailed"),
    "fedsuite.federation": (
        "ClientInfo",
        "Reply",
        "RoundResult",
        "RoundStrategy",
        "Selection",
        "ServerState",
        "Task",
        "UnderWay",
    ),
    "fedsuite.fedrl.text2action.torch_texts": ("LabelledTexts",),
    "fedsuite.history": ("Run", "Runs", "load_run", "load_runs"),
    "fedsuite.randomness": ("rng_for", "torch_generator_for"),
    "fedsuite.roster.members": ("Member", "Roster", "roster_of"),
    "fedsuite.settings.config": ("RunSettings", "section", "setting"),
    "fedsuite.vln.data.torch_instructions": ("Instructions",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = [*_MODULE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fedsuite' has no attribute {name!r}")
    check_beside()  # before anything of ours is looked for in a folder of somebody else
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
