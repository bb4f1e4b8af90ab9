"""Trackers that a run tells every round: real event files by TensorBoard's own reader, others by stand-ins."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedsuite.errors import InputError
from fedsuite.export.exporting import export
from fedsuite.export.formats import Output
from fedsuite.export.live import Live
from fedsuite.export.trackers import TrackioExport
from fedsuite.history import Runs, load_run
from tests.export.test_trackers import Calls, Recording, installed, named
from tests.growing import GrowingRun, finished, metrics_of
from tests.harness import write_toml

Call = Callable[..., tuple[int, str, str]]


class Watching:
    """A tracker of somebody's own that writes down which rounds it knew at every look."""

    looks: list[list[int]] = []  # noqa: RUF012
    closed: list[str] = []  # noqa: RUF012
    fails_at = -1

    def __init__(self, runs: Runs, output: Output) -> None:
        assert output.folder is None

    def update(self, runs: Runs) -> None:
        (run,) = runs.runs
        self.looks.append([int(n) for n in run.rounds["round"]])
        if len(self.looks) == self.fails_at:
            raise ConnectionError("nobody\nanswers")

    def close(self, runs: Runs) -> None:
        self.closed.append(runs.runs[0].status)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watching, "looks", [])
    monkeypatch.setattr(Watching, "closed", [])


OWN = f"{__name__}:Watching"


@pytest.mark.slow
def test_a_run_tells_its_trackers_round_by_round(tmp_path: Path, call: Call) -> None:
    """TensorBoard's reader finds every metric of every round; the other tracker was told them one after another."""
    toml = write_toml(tmp_path, "toy", num_rounds=3)
    line = ("run", toml.name, "--set", "name=own", "--log", "tensorboard", "--log", OWN)
    code, _, err = call(*line)
    assert code == 0, err
    rounds = [
        look for n, look in enumerate(Watching.looks) if look != Watching.looks[n - 1] or not n
    ]
    assert rounds == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]] and Watching.closed == ["completed"]
    assert boards(tmp_path / "runs/tensorboard/own") == scores(tmp_path / "runs/own")


def boards(folder: Path) -> dict[str, list[tuple[int, float]]]:
    reader = EventAccumulator(str(folder))
    reader.Reload()
    tags = [t for t in reader.Tags()["scalars"] if not t.startswith("by-local-steps")]
    return {t: [(e.step, pytest.approx(e.value)) for e in reader.Scalars(t)] for t in tags}


def scores(folder: Path) -> dict[str, list[tuple[int, float]]]:
    run = load_run(folder)
    lines = [*run.rounds.to_dict("records"), *run.closing.to_dict("records")]
    found: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        for name, value in line.items():
            if name not in ("run", "round") and pd.notna(value):
                found.setdefault(str(name), []).append((int(line["round"]), float(value)))
    return found


@pytest.mark.slow
def test_a_run_that_goes_on_is_shown_from_its_beginning(tmp_path: Path, call: Call) -> None:
    toml = write_toml(tmp_path, "toy", num_rounds=2)
    log = ("--log", "tensorboard")
    assert call("run", toml.name, "--set", "name=own", *log)[0] == 0
    assert call("run", "--resume", "own", "--set", "num-rounds=4", *log)[0] == 0
    found = boards(tmp_path / "runs/tensorboard/own")
    assert found == scores(tmp_path / "runs/own")
    assert max(step for points in found.values() for step, _ in points) == 4


@pytest.mark.slow
def test_a_tracker_that_fails_costs_the_run_nothing(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml = write_toml(tmp_path, "toy", num_rounds=3)
    assert call("run", toml.name, "--set", "name=plain")[0] == 0
    monkeypatch.setattr(Watching, "fails_at", 2)
    code, out, err = call("run", toml.name, "--set", "name=told", "--log", OWN)
    assert code == 0, err
    told = [line for line in out.splitlines() if line.startswith("--log")]
    assert (
        len(told) == 1 and f"--log {OWN}: ConnectionError: nobody answers; the run goes" in told[0]
    )
    assert f"afterwards: fedsuite export {tmp_path / 'runs/told'} --to {OWN}" in told[0]
    assert len(Watching.looks) == 2 and len(Watching.closed) == 1
    for name in ("model.safetensors", "history.jsonl"):
        files = [tmp_path / "runs" / run / name for run in ("plain", "told")]
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("tracker", "complaint"),
    [
        ("wandb", "--log wandb: the package wandb is not installed; pip install 'fedsuite[wandb]'"),
        ("trackio", "--log trackio: the package trackio is not installed; pip install 'fedsuite[trackio]'"),
        ("csv", "--log csv: writes tables of runs that are there; give tensorboard"),
        ("tensorbord", "--log: unknown 'tensorbord'; did you mean 'tensorboard'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused_before_anything_starts(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, tracker: str, complaint: str
) -> None:
    for name in ("wandb", "trackio"):
        monkeypatch.setitem(sys.modules, name, None)
    toml = write_toml(tmp_path, "toy")
    code, _, err = call("run", toml.name, "--log", tracker)
    assert code == 2 and complaint in err and err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("failed", 1), ("stopped", 1)])
def test_wandb_is_told_while_a_run_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, code: int
) -> None:
    calls: Calls = []
    module = Recording(calls, {"init": Recording(calls, {})})
    installed(monkeypatch, "wandb", init=module.init)
    run, said = GrowingRun(tmp_path / "runs" / "own"), list[str]()
    live = Live("wandb", run.path, tmp_path / "runs", said.append)
    for number in range(3):
        run.round(number)
        live.update()
        logged = [(given[0], keys["step"]) for given, keys in named(calls, "log")]
        assert logged == [(metrics_of(n), n) for n in range(number + 1)]
        assert not named(calls, "finish")
    run.end(status)
    live.close()
    assert named(calls, "finish") == [((), {"exit_code": code})] and not said


def test_trackio_gets_settings_and_metrics_by_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Calls = []
    module = Recording(calls, {"init": Recording(calls, {})})
    installed(monkeypatch, "trackio", init=module.init)
    export([finished(tmp_path / "run")], TrackioExport, Output(None))
    ((_, begun),) = named(calls, "init")
    assert (begun["project"], begun["name"], begun["group"]) == ("fedsuite", "run", None)
    assert begun["config"]["num-rounds"] == 4
    logged = [(given[0], keys["step"]) for given, keys in named(calls, "log")]
    assert logged == [*((metrics_of(n), n) for n in range(5)), ({"test.sr": 0.75}, 4)]
    assert named(calls, "finish") == [((), {})]
    with pytest.raises(InputError, match="it keeps its files itself; leave -o out"):
        export([tmp_path / "run"], TrackioExport, Output(tmp_path / "out"))


def test_a_run_that_ended_before_its_first_round_was_never_told(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "own")
    live: Any = Live(OWN, run.path, tmp_path, lambda line: None)
    live.close()
    assert not Watching.looks and not Watching.closed
