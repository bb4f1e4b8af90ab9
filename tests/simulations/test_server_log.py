"""What `flwr log` shows of a run, and what is written down of one that Flower ends."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from flwr.app import Message
from flwr.supercore.run import RunNotRunningException

from fedsuite.runs.folder import RunFolder
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.server_app import in_log, serve
from simulations.systems import to_run_config
from tests.harness import Recorder, results_of, run_toy, toy_settings


def without_times(text: str) -> list[str]:
    """The lines, each of which begins with the time of today or so (UTC)."""
    times, lines = zip(*(line.split(" ", 1) for line in text.splitlines()), strict=True)
    now = datetime.now(UTC)
    assert all(abs(now - datetime.fromisoformat(time)) < timedelta(minutes=5) for time in times)
    return list(lines)


def test_one_line_a_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = toy_settings(tmp_path)
    config = to_run_config(settings)
    with server_identity():
        serve(InProcessGrid(client_app, settings.num_clients, config), config, in_log)
    lines = without_times(capsys.readouterr().out)
    rounds = [line for line in lines if line.startswith("round ")]
    assert [line.split(":")[0] for line in rounds] == [f"round {n}" for n in range(5)]
    assert rounds[0] == "round 0: 0.0 s" and all("train-loss " in r for r in rounds[1:]), rounds
    assert len(lines) <= len(rounds) + 1


def test_who_is_lost_and_who_is_back(capsys: pytest.CaptureFixture[str]) -> None:
    about = {"round": 3, "client": "oak", "reason": "Node Unavailable"}
    for kind in ("lost", "sent-again", "exchange", "client"):
        in_log({"kind": kind, **about})
    lost, back = without_times(capsys.readouterr().out)
    assert lost == "round 3: oak is lost (Node Unavailable); waiting for it to come back"
    assert back == "round 3: oak is back and was sent its task again"


@pytest.mark.parametrize("how", [SystemExit(0), RunNotRunningException()])
def test_a_run_that_flower_ends_is_stopped_and_can_be_resumed(
    tmp_path: Path, how: BaseException
) -> None:
    """`flwr stop` ends the server's process, or the next message of the grid, depending on who notices first."""

    class Ended(Recorder):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            if len(self.sent) > 10:
                raise how
            return super().push_messages(messages)

    with pytest.raises(type(how)):
        run_toy(tmp_path, Ended)
    folder = RunFolder(tmp_path / "run")
    assert folder.status()["status"] == "stopped" and not folder.status()["error-kind"]
    assert "flwr stop" in folder.status()["error"]
    resumed = run_toy(tmp_path, resume=str(folder.path))
    assert results_of(resumed) == results_of(run_toy(tmp_path / "whole"))
