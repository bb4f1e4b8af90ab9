"""`from fedsuite import ...`: what is listed is there, costs nothing until asked for, and type checkers know it."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fedsuite
from tests.harness import ROOT

STUB = ROOT / "fedsuite" / "__init__.pyi"
MYPY = """
[mypy]
follow_imports = skip
[mypy-fedsuite,fedsuite.history.*,fedsuite.randomness,simulations.app.in_python,numpy.*]
follow_imports = normal
"""
NAMES = {name: module for module, names in fedsuite._PUBLIC.items() for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_is_the_modules_own(name: str) -> None:
    assert getattr(fedsuite, name) is getattr(import_module(NAMES[name]), name)
    assert name in fedsuite.__all__ and name in dir(fedsuite)


def test_type_checkers_see_what_is_there() -> None:
    """The stub's imports, `name as name` so that they count as public, are those of the table."""
    imports = [n for n in ast.parse(STUB.read_text()).body if isinstance(n, ast.ImportFrom)]
    seen = {a.asname: n.module for n in imports for a in n.names if a.asname == a.name}
    assert seen == NAMES and len(imports) == len(NAMES)


def test_an_unknown_name_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="runn"):
        _ = fedsuite.runn  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        from fedsuite import runn  # type: ignore[attr-defined]  # noqa: F401


def test_importing_it_imports_nothing_else() -> None:
    code = (
        "import sys, fedsuite; print(sorted({'torch', 'flwr', 'ray', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_users_mypy_sees_types(tmp_path: Path) -> None:
    """Of our own modules those are read whose types the program meets: the others take half a minute, in `make lint`."""
    program = """
from fedsuite import Run, Runs, rng_for, run

played: Run | Runs = run("cdl/quickstart", seed=1)
number: int = rng_for(0, "a")
wrong: str = run("cdl/quickstart")
from fedsuite import nothing_of_this_name
"""
    file, settings = tmp_path / "mine.py", tmp_path / "mypy.ini"
    file.write_text(program)
    settings.write_text(MYPY)
    options = ["--config-file", str(settings), "--cache-dir", str(tmp_path / "known"), "--strict"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"mine\.py:(\d+): error: .*\[([\w-]+)\]", done.stdout)
    assert found == [("5", "assignment"), ("6", "assignment"), ("7", "attr-defined")], done.stdout
