"""Flower's SuperLink with a SuperExec that outlives errors of the SuperLink.

    python -m simulations.deploy.superexec PROGRAM ARGUMENT ...

PROGRAM is `flower-superlink`, or the `flower-superexec` that it starts, which asks it every 2 s for runs to begin. After one
error 500 the latter ends in Flower (1.41, 1.42): every later run is pending for good, and nobody says so. Here it has
the patience of `trying_again`. Where another version cannot be given it, that is said, and both run as Flower made them.
"""

import importlib
import runpy
import sys
from pathlib import Path

from simulations.deploy.polling import ANOTHER
from simulations.deploy.programs import SUPEREXEC
from simulations.deploy.trying_again import EXEC_LOOP, try_again
from simulations.engines.flower import command_path

STARTER, COMMAND = "flwr.superlink.cli.flower_superlink", "_get_superexec_command"
_AS_MODULE = [sys.executable, "-m", "simulations.deploy.superexec"]


def start_this_superexec() -> bool:
    """Have the SuperLink of this process start its SuperExec by this module; whether it has a command to replace."""
    starter = importlib.import_module(STARTER)
    make = getattr(starter, COMMAND, None)
    if make is None:
        return False

    def command(*given: object, **named: object) -> list[str]:
        program, *arguments = make(*given, **named)
        own = [*_AS_MODULE, command_path(SUPEREXEC)] if program == SUPEREXEC else [program]
        return [*own, *arguments]

    setattr(starter, COMMAND, command)
    return True


def main(arguments: list[str]) -> None:
    """Run a program of Python in this process, as if it had been started by itself."""
    is_exec = Path(arguments[0]).name == SUPEREXEC
    if not (try_again(EXEC_LOOP) if is_exec else start_this_superexec()):
        print(f"{ANOTHER}SuperExec cannot be made to ask again after an error 500", flush=True)
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
