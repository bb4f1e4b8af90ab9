"""The errors that users meet, told apart from bugs."""

import codecs
import difflib
import errno
import os
import re
import sys
from collections.abc import Collection, Iterable
from importlib.util import find_spec
from typing import TypeGuard

_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*)?")  # of terminals: colours, titles


class InputError(ValueError):
    """Bad input: a file, a configuration key or a value that the user can put right.

    The message is one line that names the file or key, what was expected, what came, and the cure. The exit code is 2.
    """


class RunFailed(RuntimeError):
    """A run that started but could not go on (too few usable replies, a lost worker, a deadline)."""


SIMULATION = ("dp_accounting", "gymnasium", "jinja2", "matplotlib", "pandas", "pyarrow", "ray")
"""What the extra `simulation` of pyproject.toml installs: an installation for a node alone is without it."""
_WITH_ANY_ENGINE = tuple(name for name in SIMULATION if name != "ray")


def check_installed(names: Collection[str] = _WITH_ANY_ENGINE) -> None:
    """InputError, which names the extra, if one of these packages of the extra `simulation` is not installed.

    names: by default all but Ray, which its own engine asks for.
    """
    for name in names:
        if find_spec(name) is None:
            raise _not_installed(name)


def _uninstalled(error: ModuleNotFoundError) -> InputError | None:
    name = (error.name or "").partition(".")[0]
    return _not_installed(name) if name in SIMULATION and find_spec(name) is None else None


def _not_installed(name: str) -> InputError:
    return InputError(
        f"{name}: not installed, as on a machine that is a node alone; pip install 'fedsuite[simulation]'"
    )


_MANY = (errno.EMFILE, errno.ENFILE)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM, *_MANY)


def refused(error: OSError, file: object = "") -> InputError | RunFailed:
    """What to say where the operating system refused to read or write `file`: the error's own, if it is not given.

    RunFailed where the disk is full or broken, or too many files are open; InputError where another path or other rights
    are the cure.
    """
    where, reason = one_line(str(file or error.filename or "a file")), error.strerror or str(error)
    if error.errno in _FULL:
        cure = "let a process open more (ulimit -n)" if error.errno in _MANY else "make room"
        return RunFailed(f"{where}: {reason}; {cure}, then continue with --resume")
    return InputError(f"{where}: {reason}; see to the path and its rights, or choose another one")


def is_short(error: BaseException) -> TypeGuard[OSError]:
    """Whether the machine had no more room, memory or open files to give, which says nothing about the file itself."""
    return isinstance(error, OSError) and error.errno in _FULL


def is_refusal(error: OSError) -> bool:
    """Whether it is about a file or a full disk; others (of a network, say) are no matter of paths and rights."""
    return error.filename is not None or is_short(error)


def short_of_memory(error: BaseException) -> bool:
    """Whether Python, NumPy or torch got no memory."""
    words = ("out of memory", "can't allocate memory", "not enough memory", "Unable to allocate")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(w in str(error) for w in words)
    )


def understood(error: BaseException) -> InputError | RunFailed | None:
    """What to say of an error that no programmer has to look at: bad input, a full disk, no memory; None of others."""
    if isinstance(error, (InputError, RunFailed)):
        return error
    if isinstance(error, ModuleNotFoundError):
        return _uninstalled(error)
    if isinstance(error, OSError):
        if not _is_somewhere():
            return InputError("the folder that this was started in is gone; change to another one")
        return refused(error) if is_refusal(error) else None
    if isinstance(error, UnicodeEncodeError) and _names_a_file(error):
        return InputError(
            f"{one_line(ascii(error.object))}: no file can have this name on a machine whose encoding is {error.encoding}; "
            "choose another one, or set LC_ALL=C.UTF-8"
        )
    if short_of_memory(error):
        return RunFailed(
            f"not enough memory ({error}); lower the sizes or batch sizes, or use a larger machine"
        )
    return None


def _is_somewhere() -> bool:
    """Whether the folder that this process works in is still there."""
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def _names_a_file(error: UnicodeEncodeError) -> bool:
    """Whether what could not be encoded was for a file system whose names are not in UTF-8."""
    here = codecs.lookup(sys.getfilesystemencoding()).name
    return here != "utf-8" and codecs.lookup(error.encoding).name == here


def one_line(text: str, most: int = 500) -> str:
    """Text from elsewhere, fit to be shown: without escape sequences, blanks for control characters, cut to `most`."""
    plain = _ESCAPE.sub("", text[: 10 * most])
    line = "".join(c if c.isprintable() else " " for c in plain).rstrip()
    return line if len(text) <= 10 * most and len(line) <= most else f"{line[:most]} (cut)"


def suggestion(name: str, known: Iterable[str]) -> str:
    """What may have been meant by an unknown name, as the end of a complaint."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else "valid: " + ", ".join(names)


def one_of(where: str, value: str, known: Iterable[str]) -> None:
    """InputError, opened by `where`, if the value is not among the known ones."""
    names = list(known)
    if value not in names:
        raise InputError(
            f"{where}: expected one of those there are, got {one_line(value)!r}; {suggestion(value, names)}"
        )


def unknown_key(key: str, known: Collection[str]) -> str:
    """What to say of a key that is not among the known ones: what it may have been meant to be."""
    sections = {k.rpartition(".")[0] for k in known} - {""}
    head, _, last = key.replace("_", "-").rpartition(".")
    if key in sections:
        return f"{key} is a section, not a value; its keys: {_listed(known, key)}"
    if head in known:
        return f"{head} is a value, not a section"
    if head and head not in sections:
        near = difflib.get_close_matches(head, sections, n=1)
        hint = f"did you mean [{near[0]}]?" if near else f"valid: {_listed(known, '')}"
        return f"unknown section [{head}]; {hint}"
    names = {k.rpartition(".")[2]: k for k in known} | ({} if head else {k: k for k in known})
    near = difflib.get_close_matches(last, names, n=1)
    here = [k for k in known if k.rpartition(".")[::2] == (head, *near)]
    meant = [k for k in known if k.rpartition(".")[2] == last] or here or [names[n] for n in near]
    if meant:
        return f"unknown key {key!r}; did you mean {' or '.join(map(repr, meant))}?"
    return f"unknown key {key!r}; valid keys: {_listed(known, head)}"


def _listed(known: Collection[str], section: str) -> str:
    """The keys of a section; of the top level ("") its sections as well."""
    own = sorted(k for k in known if k.rpartition(".")[0] == section)
    inner = {k.rpartition(".")[0] for k in known} - {""} if not section else set()
    return ", ".join([*own, *(f"[{name}]" for name in sorted(inner))])
