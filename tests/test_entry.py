"""Ctrl-C before the command line has been imported: exit code 130, and not a word."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from simulations.app.app_config import PYPROJECT
from simulations.commands import cli
from tests.harness import ROOT, exit_code_of

SLOW = "import time\nprint('importing', flush=True)\ntime.sleep(100)\n"


def interrupted(folder: Path, module: str, **popen: object) -> tuple[int, str]:
    """Exit code and errors of a command that is stopped while it imports `typer`."""
    (folder / "typer.py").write_text(SLOW)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    process = subprocess.Popen(
        [sys.executable, "-c", f"from {module} import main; main()", "runs"],
        env=environment, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen,
    )  # type: ignore[call-overload]  # fmt: skip
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=1 if popen else 60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return 0, "goes on"
    return process.returncode, err


def script() -> str:
    """The module of the console script."""
    scripts = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, function = scripts["fedsuite"].partition(":")
    assert function == "main"
    return module


def test_ctrl_c_while_python_imports(tmp_path: Path) -> None:
    assert interrupted(tmp_path, script()) == (130, "")
    code, err = interrupted(tmp_path, "simulations.commands.cli")
    assert code != 130 and "Traceback" in err  # so the script must not be this


def test_ctrl_c_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As after nohup, or in the background of a script."""

    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    assert interrupted(tmp_path, script(), preexec_fn=ignore) == (0, "goes on")


def test_ctrl_c_before_a_command_has_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_command", stopped)
    assert exit_code_of(cli.main) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_the_script_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", script(), "keys", "fedrl"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "num-rounds" in done.stdout, done.stderr
