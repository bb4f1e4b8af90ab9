"""What Weights & Biases and MLflow are told, by stand-ins for their packages that write down the calls."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fedsuite.export import trackers
from fedsuite.export.exporting import export
from fedsuite.export.formats import Output
from fedsuite.export.trackers import MLflowExport, WandbExport
from fedsuite.history import Run, load_run
from tests.growing import GrowingRun, finished, metrics_of
from tests.written_runs import write_experiment

Calls = list[tuple[str, tuple[Any, ...], dict[str, Any]]]


class Recording:
    """Writes down every call; `create_run` and `init` give something with what the exports look at."""

    def __init__(self, calls: Calls, answers: dict[str, Any]) -> None:
        self.calls, self.answers = calls, answers

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            self.calls.append((name, given, named))
            return self.answers.get(name)

        return call


def installed(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


def named(calls: Calls, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [(given, keys) for called, given, keys in calls if called == name]


def test_wandb_gets_settings_metrics_by_round_and_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Calls = []
    run = Recording(calls, {})
    module = Recording(calls, {"init": run})
    installed(monkeypatch, "wandb", init=module.init)
    export([finished(tmp_path / "run")], WandbExport, Output(tmp_path / "out"))
    ((_, begun),) = named(calls, "init")
    assert (begun["project"], begun["name"], begun["dir"]) == (
        "fedsuite",
        "run",
        str(tmp_path / "out"),
    )
    own: Run = load_run(tmp_path / "run")
    assert (begun["group"], begun["job_type"]) == (None, "toy")
    assert begun["config"]["num-rounds"] == 4 and begun["config"]["data-fingerprint"] == own.data
    logged = [(given[0], keys["step"]) for given, keys in named(calls, "log")]
    assert logged == [*((metrics_of(n), n) for n in range(5)), ({"test.sr": 0.75}, 4)]
    assert named(calls, "finish") == [((), {"exit_code": 0})]


@pytest.mark.parametrize(
    ("status", "told"),
    [("completed", "FINISHED"), ("failed", "FAILED"), ("stopped", "KILLED"), ("", "")],
)
def test_mlflow_gets_settings_metrics_by_round_and_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, told: str
) -> None:
    monkeypatch.setattr(trackers, "_BATCH", 2)  # of three metrics a round
    calls: Calls = []
    made = SimpleNamespace(info=SimpleNamespace(run_id="7"))
    client = Recording(calls, {"create_experiment": "3", "create_run": made})

    def begin(tracking_uri: str | None) -> Recording:
        calls.append(("client", (tracking_uri,), {}))
        return client

    installed(monkeypatch, "mlflow", MlflowClient=begin)
    installed(
        monkeypatch, "mlflow.entities", Param=lambda k, v: (k, v), Metric=lambda *parts: parts
    )
    run = GrowingRun(tmp_path / "run")
    for number in range(3):
        run.round(number)
    if status:
        run.end(status)
    export([run.path], MLflowExport, Output(None))
    assert named(calls, "client") == [((None,), {})]
    assert [given for given, _ in named(calls, "create_experiment")] == [("fedsuite",)]
    assert named(calls, "create_run")[0][0] == ("3",)
    assert named(calls, "create_run")[0][1]["run_name"] == "run"
    batches = named(calls, "log_batch")
    assert {len(some) for _, keys in batches for some in keys.values()} == {1, 2}
    params = dict(pair for _, keys in batches for pair in keys.get("params", ()))
    assert params["num-rounds"] == "4" and params["system"] == "toy" and "version.torch" in params
    metrics = [m for _, keys in batches for m in keys.get("metrics", ())]
    assert [(name, value, step) for name, value, _, step in metrics] == [
        (name, value, n)
        for n in range(3)
        for name, value in sorted(metrics_of(n).items(), key=_place)
    ]
    ended = [given for given, _ in named(calls, "set_terminated")]
    assert ended == ([("7", told)] if told else [])


def _place(item: tuple[str, float]) -> int:
    return ["val.sr", "train.loss", "local-steps"].index(item[0])


def test_runs_of_an_experiment_are_a_project_with_a_group_for_each_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, calls = tmp_path / "methods", list[tuple[str, tuple[Any, ...], dict[str, Any]]]()
    labels = [f"{variant}/seed-{seed}" for variant in ("slow", "quick") for seed in (0, 1)]
    for label in labels:
        finished(folder / label)
    write_experiment(folder, labels)
    module = Recording(calls, {"init": Recording(calls, {})})
    installed(monkeypatch, "wandb", init=module.init)
    export([folder], WandbExport, Output(None))
    begun = [keys for _, keys in named(calls, "init")]
    assert {keys["project"] for keys in begun} == {"methods"}
    assert sorted((keys["name"], keys["group"]) for keys in begun) == sorted(
        (f"methods/{label}", label.split("/")[0]) for label in labels
    )
