"""Exported files hold the frames' numbers; followed runs are exported to their end; nothing that is there is lost."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedsuite.errors import InputError
from fedsuite.export.event_files import EventFiles
from fedsuite.export.exporting import export
from fedsuite.export.formats import FORMATS, Output, format_of, package
from fedsuite.export.tables import CSV, FRAMES
from fedsuite.history import Runs, load_runs
from tests.growing import SECONDS, STEPS, GrowingRun, finished, metrics_of
from tests.harness import ROOT, run_toy

Call = Callable[..., tuple[int, str, str]]
READERS = {"csv": pd.read_csv, "parquet": pd.read_parquet}
BOUND_S = 60.0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real run of the toy system and a written one that counts its steps."""
    folder = tmp_path_factory.mktemp("runs")
    run_toy(folder, name="toy")
    finished(folder / "written")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("ending", READERS)
def test_files_hold_the_frames(runs: Path, tmp_path: Path, call: Call, ending: str) -> None:
    code, out, _ = call(
        "export", str(runs), "--to", ending, "-o", str(tmp_path / "out"), engine=False
    )
    assert code == 0 and "exported 2 runs" in out
    frames = load_runs(runs)
    for name in FRAMES:
        wanted = getattr(frames, name)
        found = READERS[ending](tmp_path / "out" / f"{name}.{ending}")
        texts = wanted.select_dtypes(exclude="number").columns
        assert list(found.columns) == (list(wanted.columns) or ["run", "round"])
        plain = [
            frame.drop(columns=texts, errors="ignore").astype(float) for frame in (found, wanted)
        ]
        assert_frame_equal(*plain, rtol=1e-15, atol=0)  # pandas 2 reads other last bits
        for text in texts:
            pair = [frame[text].astype(object).fillna("").astype(str) for frame in (found, wanted)]
            assert list(pair[0]) == list(pair[1])
    assert {p.name for p in (tmp_path / "out").iterdir()} == {f"{name}.{ending}" for name in FRAMES}


def test_event_files_hold_every_metric(runs: Path, tmp_path: Path) -> None:
    export([runs], EventFiles, Output(tmp_path / "out"))
    frames = load_runs(runs)
    for run in ("toy", "written"):
        events = EventAccumulator(str(tmp_path / "out" / run)).Reload()
        for frame in (frames.rounds, frames.closing):
            own = frame[frame["run"] == run]
            for metric in own.columns.drop(["run", "round"]):
                there = own.dropna(subset=metric)
                if len(there):
                    scalars = events.Scalars(metric)
                    assert [s.step for s in scalars] == list(there["round"])
                    assert np.array_equal(
                        [s.value for s in scalars], there[metric].astype(np.float32)
                    )
    by_steps = events.Scalars("by-local-steps/val.sr")
    assert [s.step for s in by_steps] == [0, 2 * STEPS, 4 * STEPS]
    times = [s.wall_time for s in events.Scalars("train.loss")]
    assert np.diff(times) == pytest.approx(np.full(4, SECONDS))


@pytest.mark.slow
def test_what_is_there_stays_unless_it_may_go(runs: Path, tmp_path: Path, call: Call) -> None:
    for name in ("csv", "tensorboard"):
        folder = tmp_path / name
        command = ["export", str(runs), "--to", name, "-o", str(folder)]
        assert call(*command, engine=False)[0] == 0
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        (folder / "mine.txt").write_text("mine")
        code, _, error = call(*command, engine=False)
        assert code == 2 and "is there already; replace it with --overwrite" in error
        assert all(path.read_bytes() == data for path, data in before.items())
        assert call(*command, "--overwrite", engine=False)[0] == 0
        assert (folder / "mine.txt").read_text() == "mine"
        assert len([p for p in folder.rglob("*") if p.is_file()]) == len(before) + 1


def test_a_package_that_does_not_fit_its_own_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an old one does whose dependencies are newer than it."""
    (tmp_path / "trackio.py").write_text("from json import no_longer_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "trackio", raising=False)
    with pytest.raises(InputError, match=r"--to trackio: .*no_longer_there.*install --upgrade"):
        package("trackio")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--to", "cvs", "-o", "out"), "--to: unknown 'cvs'; did you mean 'csv'?"),
        (("--to", "csv"), "--to csv writes files; say where with -o FOLDER"),
        (("--to", "no.module:THING"), "--to: 'no.module:THING' cannot be imported"),
        (("--to", "wandb"), "the package wandb is not installed; pip install 'fedsuite[wandb]'"),
        (("--to", "mlflow"), "the package mlflow is not installed; pip install 'fedsuite[mlflow]'"),
    ],
)
def test_mistakes_are_told_in_a_line(
    runs: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    complaint: str,
) -> None:
    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
    code, _, error = call("export", str(runs), *arguments, engine=False)
    assert code == 2 and complaint in error and error.count("\n") == 1


def test_an_unknown_run_is_told(call: Call) -> None:
    code, _, error = call("export", "nowhere", "--to", "csv", "-o", "out", engine=False)
    assert code == 2 and "nowhere: no such run" in error and not Path("out").exists()


class Own:
    """A format of a user's own."""

    def __init__(self, runs: Runs, output: Output) -> None:
        self.seen: list[int] = []

    def update(self, runs: Runs) -> None:
        self.seen.append(len(runs.rounds))

    def close(self, runs: Runs) -> None:
        OWN.append(self.seen)


OWN: list[list[int]] = []


def test_own_formats_are_named_by_module(runs: Path) -> None:
    assert format_of("tests.export.test_export:Own").__name__ == "Own"
    assert [callable(format_of(name)) for name in FORMATS] == [True] * 6
    with pytest.raises(InputError, match='OWN" is a list, expected a Python function'):
        format_of("tests.export.test_export:OWN")


def test_a_followed_run_is_exported_to_its_end(tmp_path: Path) -> None:
    OWN.clear()
    run = GrowingRun(tmp_path / "run")
    run.round(0)

    def grow() -> None:
        for number in range(1, 5):
            time.sleep(0.1)
            run.round(number)
        run.end()

    writer = threading.Thread(target=grow)
    writer.start()
    said: list[str] = []
    for begin, out in ((Own, None), (CSV, tmp_path / "csv"), (EventFiles, tmp_path / "events")):
        done = export([run.path], begin, Output(out), said.append, every_s=0.02, patience_s=BOUND_S)
        assert done.runs[0].status == "completed" and len(done.rounds) == 5
    writer.join()
    assert OWN[0][0] < 5 and OWN[0][-1] == 5 and said == []
    assert list(pd.read_csv(tmp_path / "csv" / "rounds.csv")["round"]) == list(range(5))
    scalars = EventAccumulator(str(tmp_path / "events" / "run")).Reload().Scalars("train.loss")
    assert [s.value for s in scalars] == pytest.approx(
        [metrics_of(n)["train.loss"] for n in range(5)]
    )


def test_rounds_that_a_resumed_run_writes_again_come_once(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "run")
    out = EventFiles(runs := load_runs(run.path), Output(tmp_path / "out"))
    for number in range(3):
        run.round(number)
    out.update(runs.again())
    run.history.truncate(1)
    out.update(runs.again())
    for number in (2, 3):
        run.round(number)
    out.update(runs.again())
    out.close(runs)
    scalars = EventAccumulator(str(tmp_path / "out" / "run")).Reload().Scalars("train.loss")
    assert [s.step for s in scalars] == [0, 1, 2, 3]


def test_a_run_that_died_is_not_followed_for_ever(tmp_path: Path) -> None:
    run, said = GrowingRun(tmp_path / "run"), []
    run.round(0)
    export([run.path], CSV, Output(tmp_path / "out"), said.append, every_s=0.02, patience_s=0.1)
    assert said == ["run: nothing new for 0 s; what was there is exported"]
    assert len(pd.read_csv(tmp_path / "out" / "rounds.csv")) == 1


@pytest.mark.slow
def test_ctrl_c_leaves_whole_files(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "run")
    run.round(0)
    command = [
        sys.executable,
        "-m",
        "simulations.commands.cli",
        "export",
        str(run.path),
        "--follow",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [*command, "--to", "csv", "-o", str(tmp_path / "out")],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    give_up = time.monotonic() + BOUND_S
    while not (tmp_path / "out" / "timing.csv").exists() and time.monotonic() < give_up:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0 and out == "stopped; what was exported is whole\n"
    assert len(pd.read_csv(tmp_path / "out" / "rounds.csv")) == 1
    assert {p.name for p in (tmp_path / "out").iterdir()} == {f"{name}.csv" for name in FRAMES}
