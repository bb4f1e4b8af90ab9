"""The configurations that come with the package, by name: fedvln/quickstart is simulations/fedvln/quickstart.toml.

A shipped TOML opens with comments: what it is, in one line, then `Time:` (as measured, in docs/) and `Needs:`.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from fedsuite.errors import InputError

FOLDER = Path(__file__).parents[1]
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Shipped:
    """A configuration, and what the head of its file says."""

    name: str
    what: str
    time: str
    needs: str

    @property
    def system(self) -> str:
        return self.name.partition("/")[0]

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}.toml"


@cache
def shipped_names() -> tuple[str, ...]:
    """SYSTEM/NAME of every configuration that comes along, sorted."""
    return tuple(sorted(f"{p.parent.name}/{p.stem}" for p in FOLDER.glob("*/*.toml")))


def shipped(system: str = "") -> list[Shipped]:
    """What comes along, of one system or all; InputError if the system has nothing here."""
    systems = list(dict.fromkeys(name.partition("/")[0] for name in shipped_names()))
    if system and system not in systems:
        raise InputError(
            f"configs: no configurations of {system!r} come along; expected one of {', '.join(systems)}"
        )
    names = (name for name in shipped_names() if system in ("", name.partition("/")[0]))
    return [head_of(name, FOLDER / f"{name}.toml") for name in names]


def head_of(name: str, file: Path) -> Shipped:
    """The first three comment lines of a shipped file; ValueError if they have another form."""
    lines = [line.removeprefix("#").strip() for line in comments_of(file)]
    what, time, needs = (*lines, "", "", "")[:3]
    parted = [line.partition(": ") for line in (time, needs)]
    if not what.endswith((".", "?")) or [label for label, _, _ in parted] != ["Time", "Needs"]:
        raise ValueError(f"{file}: expected comments # what it is. # Time: # Needs:, got {lines}")
    return Shipped(name, what, parted[0][2], parted[1][2])


def comments_of(file: Path) -> Iterator[str]:
    """The comment lines that a file opens with."""
    text = file.read_text(encoding="utf-8")
    return takewhile(lambda line: line.startswith("#"), text.splitlines())


def config_file(given: Path) -> Path:
    """The file that is meant: a path that exists, else a shipped configuration, with or without .toml.

    InputError with the nearest names if there is neither.
    """
    name = given.as_posix().removesuffix(".toml")
    if name in shipped_names() and not given.is_file():
        return FOLDER / f"{name}.toml"
    try:
        there = given.exists()
    except OSError:  # a name that no file can have; whoever reads it says why
        there = True
    if there:
        return given
    near = difflib.get_close_matches(name, shipped_names(), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else ""
    listed = "`fedsuite configs` lists the configurations that come along"
    raise InputError(f"{given}: no such file; {' '.join(filter(None, (hint, listed)))}")
