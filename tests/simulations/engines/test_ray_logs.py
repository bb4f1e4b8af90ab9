"""Why Ray did not start, from what it raised and what its programs have left."""

from pathlib import Path

from simulations.engines.ray.logs import RAY_LOGS, cause, keep_logs

TIMED_OUT = "The current node timed out during startup."


def test_rays_programs_have_their_say(tmp_path: Path) -> None:
    error = Exception(f"first\n{TIMED_OUT}\n")
    assert cause(tmp_path, error) == f"Exception: {TIMED_OUT}"
    (tmp_path / "raylet.out").write_text(
        "[2026-01-02 03:04:05,678 I 11 11] (raylet) main.cc:1: Starting\n"
        "[2026-01-02 03:04:06,678 E 11 12] (raylet) agent.cc:2: an agent died\n"
        "[2026-01-02 03:04:07,678 C 11 11] (raylet) main.cc:3: no metrics_agent_port\x1b[2J\n"
        "[2026-01-02 03:04:07,679 I 11 11] (raylet) main.cc:4: bye\n"
    )
    (tmp_path / "gcs_server.out").write_text("[2026-01-02 03:04:05,1 I 1 1] (gcs_server) fine\n")
    told = "raylet: (raylet) main.cc:3: no metrics_agent_port"
    assert cause(tmp_path, error) == f"Exception: {TIMED_OUT}; {told}"


def test_logs_are_kept_beside_the_run(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "raylet.out").write_text("words")
    for _ in range(2):  # a resume may fail, too
        keep_logs(tmp_path / "logs", tmp_path / "r")
    assert (tmp_path / "r" / RAY_LOGS / "raylet.out").read_text() == "words"
