"""Terminals and logs in an encoding that lacks some characters: nothing ends there with an error, and files stay UTF-8."""

import io
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from fedsuite.errors import InputError, RunFailed, understood
from fedsuite.storage.escaping import PlainConsole, replace_what_stdout_lacks
from simulations.experiments.progress import RunDisplay
from tests.harness import ROOT
from tests.written_runs import client_row, round_row, write_run

TOML = """system = "fedrl"
results-dir = "für 猫"
"""


def printed(encoding: str, *lines: str) -> str:
    out = io.TextIOWrapper(io.BytesIO(), encoding, newline="")
    console = PlainConsole(file=out, width=60)
    for line in lines:
        console.print(line)
    out.seek(0)
    return out.read()


@pytest.mark.parametrize(
    ("encoding", "told"),
    [
        ("utf-8", "━╌█▁✓ 3 ± 1 für 猫…\n"),
        ("iso8859-1", "#-#_+ 3 ± 1 für ?.\n"),
        ("ascii", "#-#_+ 3 ~ 1 f?r ?.\n"),
    ],
)
def test_a_console(encoding: str, told: str) -> None:
    assert printed(encoding, "━╌█▁✓ 3 ± 1 für 猫…") == told


def test_the_line_of_a_run() -> None:
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    with RunDisplay(PlainConsole(file=out, force_terminal=True, width=100)) as display:
        display.show({"round": 2, "kind": "ready", "clients": 3, "rounds": 4, "seconds": 0.1})
    out.seek(0)
    assert "############------------" in out.read()
    with RunDisplay(Console(file=io.StringIO(), force_terminal=True)) as display:
        assert "╌" in str(display.line())


def told(folder: Path, encoding: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """`fedsuite WORDS` in a process whose streams are in this encoding."""
    own = {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "simulations.commands.cli", *words],
        cwd=folder, env={**os.environ, **own}, capture_output=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_commands(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TOML, encoding="utf-8")
    done = told(tmp_path, "ascii", "config", "mine.toml")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads(done.stdout.decode("utf-8"))["results-dir"].endswith("/für 猫")
    rows = [round_row(0, **{"val_unseen.sr": 0.1}), client_row(1, 0, "猫", "train")]
    run = write_run(tmp_path / "für", "fedvln", [*rows, round_row(1, **{"val_unseen.sr": 0.2})])
    for words in (["runs", "."], ["show", run.name], ["watch", run.name]):
        done = told(tmp_path, "ascii", *words)
        assert done.returncode == 0 and b"f?r" in done.stdout, done.stderr
    done = told(tmp_path, "ascii", "show", "猫")
    assert done.returncode == 2 and done.stderr.startswith(rb"error: \u732b: no such"), done.stderr


def test_a_name_that_no_file_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(encoding: str) -> InputError | RunFailed | None:
        return understood(UnicodeEncodeError(encoding, "data/猫", 5, 6, "ordinal not in range"))

    assert of("utf-8") is None and of("ascii") is None
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ANSI_X3.4-1968")
    error = of("ascii")
    assert isinstance(error, InputError) and str(error) == (
        r"'data/\u732b': no file can have this name on a machine whose encoding is ascii; choose another one, or set "
        "LC_ALL=C.UTF-8"
    )
    assert of("utf-8") is None


def test_a_process_prints_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Flower's words of a lost node, in the log of a run's server."""
    out = io.TextIOWrapper(io.BytesIO(), "iso8859-1")
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(UnicodeEncodeError):
        print("lost — für eine Weile", flush=True)
    replace_what_stdout_lacks()
    print("lost — für eine Weile", flush=True)
    out.seek(0)
    assert out.read() == "lost ? für eine Weile\n"
