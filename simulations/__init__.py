"""The Flower app, its engines, the command line, one TOML per experiment; `from simulations import run` plays one."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulations.in_python import run as run


def __getattr__(name: str) -> Any:
    """`run`, imported when it is asked for: Flower's processes have no use for it."""
    if name == "run":
        from simulations.in_python import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
