"""Folders of a user's own that are called as our packages are: one line says so, wherever a run begins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedsuite.beside import PACKAGES, check_beside
from tests.harness import ROOT

COMMAND = "from fedsuite.__main__ import main; main()"  # what the installed program does
ENTRANCES = {
    "script": "from simulations import run",
    "server": "import simulations.server_app",
    "client": "import simulations.client_app",
}


def started(cwd: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Python runs a script that lies in `cwd`."""
    (cwd / "mine.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "mine.py"],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def own_folder(cwd: Path, name: str) -> Path:
    """A package of the user's."""
    (cwd / name).mkdir()
    (cwd / name / "__init__.py").touch()
    return cwd / name


def test_ours_are_where_they_belong() -> None:
    check_beside()


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
def test_the_command_says_it_in_one_line(tmp_path: Path, name: str) -> None:
    folder = own_folder(tmp_path, name)
    done = started(tmp_path, COMMAND)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {folder}: Python takes this for fedsuite's own package")
    assert done.stderr.count("\n") == 1 and "rename it, or start from another folder" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["strategies", "clients"])
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_so_do_scripts_and_nodes(tmp_path: Path, entrance: str, name: str) -> None:
    """As the last line; where `simulations` is the user's, nothing of ours is imported that could."""
    folder = own_folder(tmp_path, name)
    done = started(tmp_path, ENTRANCES[entrance])
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"fedsuite.errors.InputError: {folder}: Python takes this for")


@pytest.mark.slow
def test_folders_that_hold_only_data_are_fine(tmp_path: Path) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir()
    done = started(tmp_path, "from simulations import run; import clients.house; print(run)")
    assert done.returncode == 0, done.stderr
