"""A configuration of one's own: every key of a system as a comment with its default and meaning, or a shipped one's copy."""

import textwrap
from itertools import groupby
from pathlib import Path

from fedsuite.errors import InputError, refused
from fedsuite.settings.config import RunSettings
from fedsuite.settings.values import shown
from fedsuite.storage.files import path_name
from simulations.app.key_rows import key_rows
from simulations.shipped import config_file, shipped_names

WIDTH = 98
UNBROKEN = textwrap.TextWrapper(WIDTH, break_on_hyphens=False, break_long_words=False)
NEVER_WRITTEN = ("system", "resume")  # stands above; an option of the command line


def write_config(name: str, system: str, like: str) -> Path:
    """Write NAME.toml, new; InputError if something is there, or the name is a shipped one's."""
    if system and like:
        raise InputError("give --system, or --like with a configuration to copy; not both")
    file = Path(name if name.endswith(".toml") else f"{name}.toml")
    path_name(file.name.removesuffix(".toml"), f"{name!r}: the file's name", plain=True)
    if file.as_posix().removesuffix(".toml") in shipped_names():
        raise InputError(
            f"{name}: a shipped configuration is called so; choose another name, and --like {name} for a copy"
        )
    text = config_file(Path(like)).read_text(encoding="utf-8") if like else template(system)
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise InputError(
            f"{file}: is there already, nothing in it was touched; give a new name"
        ) from None
    except OSError as error:
        raise refused(error, file) from None
    return file


def template(system: str) -> str:
    """A TOML with every key of the system as a comment; it plays as it is, all keys at their defaults."""
    name = system or RunSettings().system
    lines = [
        f"# A configuration of {name}. Every key stands here at its default, behind a # of its own;",
        "# take that away and set another value. Section headings stay.",
        f"system = {shown(name)}",
    ]
    rows = [row for row in key_rows(name) if row.key not in NEVER_WRITTEN]
    for section, inside in groupby(rows, lambda row: row.section):
        lines += ["", f"[{section}]"] if section else []
        for row in inside:
            lines += [""] if lines[-1] != f"[{section}]" else []
            lines += [f"# {line}" for line in UNBROKEN.wrap(row.meaning)]
            lines += [f"#{row.key.rpartition('.')[2]} = {shown(row.default)}"]
    return "\n".join(lines) + "\n"
