"""The errors that users meet, told apart from bugs."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input: a file, a configuration key or a value that the user can put right.

    The message is one line that names the file or key, what was expected, what came, and the cure.
    The command line prints it without a traceback and exits with code 2.
    """


class RunFailed(RuntimeError):
    """A run that started but could not go on (too few usable replies, a lost worker, a deadline)."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """What may have been meant by an unknown name, as the end of a complaint."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else "valid: " + ", ".join(names)
