"""What it means to refuse bad input: one line that names the culprit, exit code 2, and nothing written."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Call = Callable[..., tuple[int, str, str]]
SYSTEMS = ("fedvln", "cdl", "fedrl")
LONGEST_LINE = 2100


def said(answer: tuple[int, str, str], code: int = 2) -> str:
    """The one line that a failed command leaves, whole and fit for a terminal."""
    found, out, err = answer
    assert found == code, (found, out, err)
    assert err.startswith("error: ") and err.endswith("\n") and err.count("\n") == 1, err
    assert err[:-1].isprintable() and len(err) < LONGEST_LINE, err
    assert "Traceback" not in out + err
    return err


def names_of(folder: Path) -> list[str]:
    """Everything that lies in a folder, however deep."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def literal(value: Any) -> str:
    """A value as TOML has it."""
    return json.dumps(value, ensure_ascii=False)


def toml(system: str, keys: Mapping[str, Any]) -> str:
    """A file of a system with these keys."""
    return f'system = "{system}"\n' + "".join(f"{k} = {literal(v)}\n" for k, v in keys.items())


def refused(call: Call, folder: Path, text: str | bytes, *arguments: str) -> str:
    """Run this TOML; the line that refuses it, after which the folder is as before."""
    (folder / "x.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    before = names_of(folder)
    line = said(call("run", "x.toml", *arguments))
    assert names_of(folder) == before
    return line
