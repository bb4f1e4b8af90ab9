"""The `fedsuite` command, which is `python -m fedsuite` too.

It lies here, not in `simulations`, so that it can say it where another folder of that name was found.
"""

import sys
from importlib import import_module

from fedsuite.beside import check_beside
from fedsuite.errors import InputError

EXIT_INPUT = 2


def main() -> None:
    """Entry point."""
    try:
        check_beside()
    except InputError as error:
        print("error:", error, file=sys.stderr)
        raise SystemExit(EXIT_INPUT) from None
    import_module("simulations.cli").main()


if __name__ == "__main__":
    main()
