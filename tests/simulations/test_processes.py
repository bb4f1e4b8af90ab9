import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulations.engines.processes import Family, can_follow, end_with_parent, wait_until
from simulations.engines.tail import Tail

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
        assert wait_until(lambda: len(family.update()) == 2, 10)
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


def test_a_child_ends_with_its_killed_parent(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "from simulations.engines.processes import end_with_parent\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "child = subprocess.Popen(sleep, start_new_session=True, preexec_fn=end_with_parent())\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    family = Family()
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env=family.environment({}),
        cwd=Path(__file__).parents[2],
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert child in family.update()
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert wait_until(lambda: family.update() == [], 5)
    assert end_with_parent() is not None


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
