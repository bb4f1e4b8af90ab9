"""Log lines: a time before each, no colours but on a terminal, files that are rotated, no tracebacks of what is stopped."""

import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from simulations.deploy.log_lines import Rotation, log_lines, stamped
from simulations.deploy.programs import run_program
from tests.harness import WAIT_S

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
SAID = ["\x1b[92mINFO \x1b[0m:      connected", "\x1b[92mINFO \x1b[0m:      ", "", "two\twords"]
OWN_TIME = "2026-11-25T01:21:27.695Z INFO [uvicorn.access] 200"


def test_lines_have_times_and_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    with log_lines() as say:
        for line in [*SAID, OWN_TIME]:
            say(line)
    first, second, third = capsys.readouterr().out.splitlines()
    assert re.fullmatch(f"{TIME} INFO :      connected", first)
    assert re.fullmatch(f"{TIME} two words", second)
    assert third == OWN_TIME
    assert stamped(stamped("once")).count("Z ") == 1


def test_a_terminal_keeps_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with log_lines() as say:
        say(SAID[0])
    assert re.fullmatch(f"{TIME} " + re.escape(SAID[0]) + "\n", capsys.readouterr().out)


def test_a_file_is_rotated_and_so_many_are_kept(tmp_path: Path) -> None:
    """Files that the rotation did not make stay."""
    other = tmp_path / "node.log.mine"
    other.write_text("kept")
    file = tmp_path / "node.log"
    for day in range(1, 6):  # the age of a file decides
        file.write_text(f"day {day}\n")
        os.utime(file, (86_400 * day,) * 2)
        with log_lines(Rotation(file, hours=1, kept=2)) as say:
            say(SAID[0])
    os.utime(file, (time.time() - 7200,) * 2)
    with log_lines(Rotation(file, hours=3, kept=2)) as say:
        say(SAID[0])
    assert re.fullmatch(f"({TIME} INFO :      connected\n){{2}}", file.read_text())
    rotated = sorted(p for p in tmp_path.iterdir() if p not in (file, other))
    assert [p.read_text() for p in rotated] == ["day 4\n", "day 5\n"]
    assert other.read_text() == "kept"


PROGRAM = """
import signal, sys, time
def leave(*_):
    print("INFO :      going", flush=True)
    try:
        raise ConnectionError("refused")
    except ConnectionError:
        import traceback
        traceback.print_exc()
        sys.stderr.flush()
    print("INFO :      gone", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
if "{broken}":
    import traceback
    try:
        raise ValueError("before")
    except ValueError:
        traceback.print_exc()
        sys.stderr.flush()
print("ready", flush=True)
time.sleep(60)
"""


def test_what_is_stopped_prints_no_traceback_and_what_fails_does(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(broken="yes"))
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        if line == "ready":
            threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()

    main = threading.main_thread().ident
    assert main is not None
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_program([sys.executable, str(program)], dict(os.environ), tmp_path, hear)
    assert time.monotonic() - began < WAIT_S
    assert "ValueError: before" in said
    assert said[said.index("ready") + 1 :] == ["INFO :      going", "INFO :      gone"]
