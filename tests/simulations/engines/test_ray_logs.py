"""Why a simulation failed, from what Flower and Ray leave."""

from pathlib import Path

from simulations.engines.ray.logs import FLOWER_LOG, RAY_LOGS, cause, keep_logs

TIMED_OUT = "Exception: The current node timed out during startup."
SAID = f"""ValueError: one that was caught earlier
ERROR :     An exception was raised
Traceback (most recent call last):
  File "node.py", line 423, in __init__
    raise Exception(
{TIMED_OUT}

The above exception was the direct cause of the following exception:

RuntimeError: Simulation Runtime crashed.
RuntimeError: An error was encountered. Ending simulation.
"""


def ray_logs(home: Path) -> Path:
    """As Ray leaves them in a launch's home: a link to the newest session."""
    logs = home / "ray" / "session_1" / "logs"
    logs.mkdir(parents=True)
    (home / "ray" / "session_latest").symlink_to(logs.parent)
    return logs


def test_the_exception_that_counts_is_the_cause(tmp_path: Path) -> None:
    assert cause(tmp_path, SAID) == TIMED_OUT
    assert cause(tmp_path, "round 1: loss 0.3\n") == ""


def test_rays_programs_have_their_say(tmp_path: Path) -> None:
    logs = ray_logs(tmp_path)
    (logs / "raylet.out").write_text(
        "[2026-01-02 03:04:05,678 I 11 11] (raylet) main.cc:1: Starting\n"
        "[2026-01-02 03:04:06,678 E 11 12] (raylet) agent.cc:2: an agent died\n"
        "[2026-01-02 03:04:07,678 C 11 11] (raylet) main.cc:3: no metrics_agent_port\x1b[2J\n"
        "[2026-01-02 03:04:07,679 I 11 11] (raylet) main.cc:4: bye\n"
    )
    (logs / "gcs_server.out").write_text("[2026-01-02 03:04:05,1 I 1 1] (gcs_server) fine\n")
    told = "raylet: (raylet) main.cc:3: no metrics_agent_port"
    assert cause(tmp_path, SAID) == f"{TIMED_OUT}; {told}"
    assert cause(tmp_path, "") == told


def test_logs_are_kept_beside_the_run(tmp_path: Path) -> None:
    (ray_logs(tmp_path) / "raylet.out").write_text("words")
    (tmp_path / "superlink.log").write_text("a link\n")
    for _ in range(2):  # a resume may fail, too
        keep_logs(tmp_path, SAID, tmp_path / "runs" / "r")
    kept = tmp_path / "runs" / "r"
    assert (kept / FLOWER_LOG).read_text() == f"a link\n\n{SAID}"
    assert (kept / RAY_LOGS / "raylet.out").read_text() == "words"
