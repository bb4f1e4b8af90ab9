"""The Flower app, its engines, the command line, one TOML per experiment; `from simulations import run` plays one."""

from typing import TYPE_CHECKING, Any

from fedsuite.beside import check_beside

if TYPE_CHECKING:
    from simulations.app.in_python import run as run

check_beside()  # before anything of ours is looked for in a folder of somebody else


def __getattr__(name: str) -> Any:
    """`run`, imported when it is asked for: Flower's processes have no use for it."""
    if name == "run":
        from simulations.app.in_python import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
