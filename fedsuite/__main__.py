"""The `fedsuite` command, which is `python -m fedsuite` too.

It lies here, not in `simulations`, so that it can say it where another folder of that name was found. Ctrl-C ends it
without a word also while Python still imports, which takes a second or more.
"""

import os
import signal
import sys
from importlib import import_module
from typing import Any

from fedsuite.beside import check_beside
from fedsuite.errors import InputError

EXIT_INPUT, EXIT_STOPPED = 2, 130


def main() -> None:
    """Entry point. Until its modules are there nothing has begun that would have to be ended in order."""
    # Else it is ignored, as after nohup.
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, _gone)
    try:
        check_beside()
    except InputError as error:
        print("error:", error, file=sys.stderr)
        raise SystemExit(EXIT_INPUT) from None
    cli = import_module("simulations.commands.cli")
    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


def _gone(*_: Any) -> None:
    os._exit(EXIT_STOPPED)


if __name__ == "__main__":
    main()
