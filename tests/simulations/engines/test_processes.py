import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

from simulations.engines import processes
from simulations.engines.nodes.following import Tail
from simulations.engines.processes import (
    MARK,
    SETTLED_S,
    Family,
    Process,
    can_follow,
    living_processes,
    wait_until,
)

pytestmark = pytest.mark.skipif(not can_follow(), reason="processes can be followed on Linux only")

# A child that starts a grandchild in a session of its own; both ignore the request to end.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, __file__, "leaf"], start_new_session=True)
print("up", flush=True)
time.sleep(60)
"""


def test_a_whole_family_is_found_and_ended_and_nobody_else(tmp_path: Path) -> None:
    script = tmp_path / "stubborn.py"
    script.write_text(STUBBORN)
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    family = Family()
    child = subprocess.Popen(
        [sys.executable, str(script)], env=family.environment({}), stdout=subprocess.PIPE
    )
    try:
        # A forked process has its parent's arguments until it has begun its own program.
        assert wait_until(lambda: len(family.update()) == 2 and family.find("leaf") is not None, 60)
        assert family.find("stubborn.py leaf") is None  # arguments are separated by NUL
        leaf = family.find("leaf")
        assert leaf is not None and leaf != child.pid
        child.kill()  # the grandchild is an orphan now
        child.wait()
        assert family.update() == [leaf]
        family.end()
        assert family.update() == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        child.kill()


# Forks; the child begins a program of its own, with the mark, when it is told to.
FORKING = """
import os, sys
child = os.fork()
if not child:
    sys.stdin.readline()
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"], {sys.argv[1]: sys.argv[2]})
print(child, flush=True)
os.waitpid(child, 0)
"""


def test_a_process_that_had_not_begun_its_program_is_found_later() -> None:
    family = Family()
    launcher = subprocess.Popen(
        [sys.executable, "-c", FORKING, MARK, family.mark],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert launcher.stdin is not None and launcher.stdout is not None
    child = int(launcher.stdout.readline())
    try:
        assert child in [p.pid for p in living_processes()] and family.update() == []
        launcher.stdin.write("begin\n")
        launcher.stdin.flush()
        assert wait_until(lambda: family.update() == [child], 60)
    finally:
        family.end()
        launcher.kill()
        launcher.communicate()


def test_the_environment_of_an_old_stranger_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    family, read = Family(), []
    monkeypatch.setattr(processes, "_read", lambda pid, name: read.append(pid) or "")
    monkeypatch.setattr(Process, "age_s", SETTLED_S + 1)
    monkeypatch.setattr(processes, "living_processes", lambda: [Process(2, 0, 1)])
    assert (family.update(), family.update(), read) == ([], [], [2])


def test_ages_are_seconds() -> None:
    before = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        time.sleep(1.0)
        [own] = [p for p in living_processes() if p.pid == child.pid]
        # Starts are told in hundredths of a second.
        assert 0.9 < own.age_s < time.monotonic() - before + 0.1
    finally:
        child.kill()
        child.wait()


LAUNCHER = """
import subprocess, sys, time
from pathlib import Path
from simulations.engines.guard import Guard
from simulations.engines.processes import Family
family = Family()
guard = Guard(family, Path(sys.argv[2]))
sleep = [sys.executable, sys.argv[1]]
subprocess.Popen(sleep, start_new_session=True, env=family.environment({}))
print(family.mark, flush=True)
time.sleep(60)
"""


def test_the_guard_clears_away_after_a_killed_launcher(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    home = tmp_path / "fs-home"
    home.mkdir()
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(tmp_path / "stubborn.py"), str(home)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert launcher.stdout is not None
    family = Family(launcher.stdout.readline().strip())
    assert wait_until(lambda: len(family.update()) == 2, 60)
    launcher.kill()
    launcher.communicate()
    assert wait_until(lambda: family.update() == [] and not home.exists(), 60)


def test_tail_follows_appending_and_replacing(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    tail = Tail(path)
    assert tail.rows() == []
    path.write_text('{"a": 1}\n{"a": 2}\n{"a"')
    assert tail.rows() == [{"a": 1}, {"a": 2}]
    assert tail.rows() == []
    with path.open("a") as file:
        file.write(": 3}\n")
    assert tail.rows() == [{"a": 3}]
    other = tmp_path / "other"
    other.write_text(json.dumps({"b": 1}) + "\n")
    time.sleep(0.01)
    os.replace(other, path)
    assert tail.rows() == [{"b": 1}]


def test_tail_of_a_file_that_is_replaced_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "t.jsonl", tmp_path / "other"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    other.write_text('{"b": 1}\n{"b": 2}\n{"b": 3}\n')
    opened = Path.open

    def open_and_replace(self: Path, mode: str) -> IO[Any]:
        file = opened(self, mode)
        if other.exists():
            os.replace(other, self)
        return file

    monkeypatch.setattr(Path, "open", open_and_replace)
    tail = Tail(path)
    assert tail.rows() == [{"a": 1}, {"a": 2}]
    assert tail.rows() == [{"b": 1}, {"b": 2}, {"b": 3}]


def test_tail_of_a_file_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    tail = Tail(path)
    assert len(tail.rows()) == 2
    path.write_text('{"a": 3}\n')  # the same inode
    assert tail.rows() == [{"a": 3}]
