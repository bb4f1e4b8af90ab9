"""fedsuite: federated embodied learning on Flower. This is what a program of one's own imports.

    from fedsuite import report, run

    played = run("fedvln/three-houses", seed=1)
    report(played, "page.html")

Every name is imported when it is first asked for, so that `import fedsuite` takes no time. What is not listed here may
move between versions. The modules below this package are the cores: they know neither Flower nor Ray.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedsuite.beside import check_beside

__version__ = "0.1.0"

# By module; the imports below are for type checkers, and a test compares the two.
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
    "fedsuite.history": ("Run", "Runs", "load_run", "load_runs"),
    "fedsuite.randomness": ("rng_for", "torch_generator_for"),
    "fedsuite.roster.members": ("Member", "Roster", "roster_of"),
    "fedsuite.settings.config": ("RunSettings", "section", "setting"),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = [*_MODULE_OF]  # noqa: PLE0604

if TYPE_CHECKING:
    from clients.torch_client import TorchClient as TorchClient
    from fedsuite.arrays import Arrays as Arrays
    from fedsuite.arrays import Share as Share
    from fedsuite.averaging.exchange import Codec as Codec
    from fedsuite.averaging.exchange import Exchange as Exchange
    from fedsuite.averaging.local_method import Left as Left
    from fedsuite.averaging.local_method import LocalMethod as LocalMethod
    from fedsuite.averaging.local_method import Visit as Visit
    from fedsuite.averaging.merging import Merged as Merged
    from fedsuite.averaging.merging import MergeRule as MergeRule
    from fedsuite.averaging.merging import server_step as server_step
    from fedsuite.averaging.settings import FedAvgSettings as FedAvgSettings
    from fedsuite.averaging.step import Step as Step
    from fedsuite.checking import check_client as check_client
    from fedsuite.checking import check_environment as check_environment
    from fedsuite.checking import check_strategy as check_strategy
    from fedsuite.checking import check_topology as check_topology
    from fedsuite.errors import InputError as InputError
    from fedsuite.errors import RunFailed as RunFailed
    from fedsuite.federation import ClientInfo as ClientInfo
    from fedsuite.federation import Reply as Reply
    from fedsuite.federation import RoundResult as RoundResult
    from fedsuite.federation import RoundStrategy as RoundStrategy
    from fedsuite.federation import Selection as Selection
    from fedsuite.federation import ServerState as ServerState
    from fedsuite.federation import Task as Task
    from fedsuite.federation import UnderWay as UnderWay
    from fedsuite.history import Run as Run
    from fedsuite.history import Runs as Runs
    from fedsuite.history import load_run as load_run
    from fedsuite.history import load_runs as load_runs
    from fedsuite.randomness import rng_for as rng_for
    from fedsuite.randomness import torch_generator_for as torch_generator_for
    from fedsuite.roster.members import Member as Member
    from fedsuite.roster.members import Roster as Roster
    from fedsuite.roster.members import roster_of as roster_of
    from fedsuite.settings.config import RunSettings as RunSettings
    from fedsuite.settings.config import section as section
    from fedsuite.settings.config import setting as setting
    from fedsuite.settings.metrics import Metric as Metric
    from simulations.app.in_python import report as report
    from simulations.app.in_python import run as run
    from simulations.check_system import check_system as check_system
    from simulations.systems import Node as Node
    from simulations.systems import System as System
    from simulations.torch_system import torch_system as torch_system
    from strategies.fedavg import FedAvg as FedAvg
    from strategies.wrapping import Wrapped as Wrapped
    from strategies.wrapping import around as around

else:

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'fedsuite' has no attribute {name!r}")
        check_beside()  # before anything of ours is looked for in a folder of somebody else
        return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
