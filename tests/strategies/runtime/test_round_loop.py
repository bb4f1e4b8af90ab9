"""The round loop with the toy system over the in-process grid."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from flwr.app import Error, Message
from flwr.serverapp import Grid

from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import RateSchedule, Reply, Task
from fedsuite.history import read_rows
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Versions
from strategies.runtime import messages
from strategies.runtime.reply_checks import check_merged
from strategies.sequential_averaging import SequentialAveraging
from tests.harness import Recorder, arrays_in, results_of, run_toy
from tests.strategies.runtime.loops import Scored, looped, round_metrics
from tests.toy import ToySettings, ToyStrategy


def history(folder: RunFolder) -> list[dict]:
    return read_rows(folder.path / "history.jsonl")


def test_two_runs_are_byte_identical(tmp_path: Path) -> None:
    first = run_toy(tmp_path / "a")
    second = run_toy(tmp_path / "b")
    assert results_of(first) == results_of(second)
    other = run_toy(tmp_path / "c", seed=1)
    assert results_of(other)["model.safetensors"] != results_of(first)["model.safetensors"]


def test_training_works_and_history_tells_it(tmp_path: Path) -> None:
    folder = run_toy(tmp_path, num_rounds=25, num_clients=2)
    rows = history(folder)
    losses = [r["metrics"]["train-loss"] for r in rows if r["kind"] == "round" and r["round"]]
    assert len(losses) == 25 and losses[-1] < 0.02 * losses[0]
    weights = safetensors.numpy.load(folder.model.read_bytes())["w"]
    np.testing.assert_allclose(weights, [1, 2, 3, 4], atol=0.2)
    clients = [r for r in rows if r["kind"] == "client" and r["round"] == 3]
    assert [r["partition"] for r in clients] == [0, 1]
    assert clients[1] | {"metrics": {}} == {
        "round": 3, "kind": "client", "partition": 1, "name": "site-1", "task": "train",
        "status": "ok", "reason": "", "num-examples": 21, "bytes-down": 16, "bytes-up": 16,
        "metrics": {},
    }  # fmt: skip
    assert [r["kind"] for r in rows[-3:]] == ["closing-client", "closing-client", "closing"]
    assert folder.status()["status"] == "completed"
    assert (folder.path / "closing.txt").read_text() == "done\n"
    stored = json.loads(folder.config.read_text())
    assert stored["num-rounds"] == 25 and list(stored) == sorted(stored)


def test_only_the_named_arrays_and_settings_cross(tmp_path: Path) -> None:
    recorders: list[Recorder] = []

    def record(grid):
        recorders.append(Recorder(grid))
        return recorders[0]

    run_toy(tmp_path, record, num_rounds=2)
    recorder = recorders[0]
    kinds = [m.metadata.message_type for m in recorder.sent]
    assert kinds == ["query"] * 3 + ["train"] * 6 + ["evaluate"] * 3
    assert len(recorder.received) == len(recorder.sent)
    for message in recorder.sent:
        if message.metadata.message_type == "query":
            assert set(message.content) == {"config"}
            assert dict(message.content["config"]) == {"resume-round": 0}
        else:
            assert set(message.content) == {"arrays", "config"}
            assert list(arrays_in(message)) == ["w"]
            assert set(message.content["config"]) <= {
                "round",
                "checkpoint-rounds",
                "last-trained",
                "extra",
            }
    for message in recorder.received:
        kind = message.metadata.message_type
        if kind == "query":
            assert set(message.content) == {"properties", "timing"}
            continue
        assert set(message.content) == {"metrics", "timing"} | (
            {"arrays"} if kind == "train" else set()
        )
        assert set(message.content["metrics"]) == {"loss", "num-examples"}
        assert kind == "evaluate" or list(arrays_in(message)) == ["w"]


def test_tasks_carry_the_round_and_the_oldest_round_to_come_back_to(tmp_path: Path) -> None:
    recorders: list[Recorder] = []

    def record(grid):
        recorders.append(Recorder(grid))
        return recorders[0]

    folder = run_toy(tmp_path, record, num_rounds=7, checkpoint_every=2, num_clients=1)
    sent = [m.content["config"] for m in recorders[0].sent if m.metadata.message_type == "train"]
    assert [c["round"] for c in sent] == [1, 2, 3, 4, 5, 6, 7]
    # And the last round of its own, from which a task starts anew whose worker died.
    needed = ["0", "0,1", "0,2", "0,2,3", "2,4", "2,4,5", "4,6"]
    assert [c["checkpoint-rounds"] for c in sent] == needed
    assert Versions(folder.checkpoints).rounds() == [0, 6, 7]


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("raise", "error", "ValueError: the toy broke second line"),
        ("nan", "rejected", "array w holds NaN or infinity"),
        ("shape", "rejected", "array w has shape (3,), expected (4,)"),
        ("metric", "rejected", "metric loss must be a finite number, got inf"),
    ],
)
def test_a_bad_reply_fails_the_run_in_one_line(
    tmp_path: Path, fault: str, status: str, reason: str
) -> None:
    with pytest.raises(RunFailed) as caught:
        run_toy(tmp_path, fault=fault)
    text = str(caught.value)
    assert text.startswith("round 2, train: 2 of 3 replies usable")
    assert f"site-1: {status}: {reason}" in text and "\n" not in text
    folder = RunFolder(tmp_path / "run")
    failed = [r for r in history(folder) if r["kind"] == "client" and r["status"] != "ok"]
    assert [(r["round"], r["name"], r["status"]) for r in failed] == [(2, "site-1", status)]
    assert folder.status()["status"] == "failed" and folder.status()["error-kind"] == "run"
    assert Versions(folder.checkpoints).rounds() == [0, 1]
    if fault == "raise":
        assert "Traceback" in folder.errors.read_text()


def test_enough_usable_replies_keep_the_run_going(tmp_path: Path) -> None:
    folder = run_toy(tmp_path, fault="nan", min_reply_fraction=0.6)
    statuses = [r["status"] for r in history(folder) if r["kind"] == "client"]
    assert statuses.count("rejected") == 1 and statuses.count("ok") == 11
    assert np.isfinite(safetensors.numpy.load(folder.model.read_bytes())["w"]).all()


@pytest.mark.parametrize("fault", ["server-nan", "server-large"])
def test_a_bad_server_model_stops_the_run_before_anybody_scores_it(
    tmp_path: Path, fault: str
) -> None:
    recorders: list[Recorder] = []

    def record(grid: Grid) -> Grid:
        recorders.append(Recorder(grid))
        return recorders[0]

    complaint = {
        "server-nan": r"round 2: .* array w holds NaN or infinity, as .* \(1 such arrays\); likely cause: site-",
        "server-large": r"the merged model: array w holds -?\d+e\+06, more than 1e\+06 in size.*; likely cause: site-",
    }[fault]
    with pytest.raises(RunFailed, match=complaint):
        looped(tmp_path, Scored, record, fault=fault, fault_round=2)
    assert Versions(RunFolder(tmp_path / "run").checkpoints).rounds() == [0, 1]
    kinds = [m.metadata.message_type for m in recorders[0].sent]
    assert kinds[3:] == ["evaluate"] * 3 + ["train"] * 3 + ["evaluate"] * 3 + ["train"] * 3


# --- what a round is made of --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "scored"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (3, [3, 5]), (0, [5])]
)
def test_which_rounds_are_evaluated(tmp_path: Path, every: int, scored: list[int]) -> None:
    """Every k-th, the last, and the initial state; every round is closed."""
    _, folder = looped(tmp_path, Scored, num_rounds=5, evaluate_every=every)
    rows = round_metrics(folder)
    assert [n for n, m in rows.items() if "score" in m] == [0, *scored, -1][:-1]
    assert [n for n, m in rows.items() if "closed" in m] == [1, 2, 3, 4, 5]
    asked = [(r["round"], r["task"]) for r in history(folder) if r["kind"] == "client"]
    evaluated = [n for n, task in asked if task == "evaluate"]
    assert evaluated == [n for n in [0, *scored] for _ in range(3)]
    assert rows[-1] == {"last": 5.0, "selected-round": 0.0}


def test_a_round_trains_then_scores_then_closes(tmp_path: Path) -> None:
    strategies: list[Scored] = []

    def make(settings: ToySettings) -> Scored:
        strategies.append(Scored(settings, scores=(0.5, 0.5, 0.75, 0.25)))
        return strategies[0]

    _, folder = looped(tmp_path, make, num_rounds=3, num_clients=1)
    rows = [r for r in history(folder) if r["round"] == 2]
    assert [r.get("task", "") for r in rows] == ["train", "evaluate", ""]
    # Scores stand first, then training's metrics, then those of the end of the round.
    assert list(rows[-1]["metrics"]) == ["score", "train-loss", "closed"]
    assert strategies[0].closed == [(1, False), (2, True), (3, False)]


class Forgetful(ToyStrategy):
    def train(self, number, state, clients):
        yield [Task(c.partition, "train", state.arrays) for c in clients]


def test_a_strategy_without_a_result_is_told(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="must return a RoundResult, got None"):
        looped(tmp_path, Forgetful)


class Crashed(Recorder):
    """Answers like Ray after a worker process has died."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        text = "<class 'ray.exceptions.ActorDiedError'>:<'The actor died.\n\tactor_id: 4f2a'>"
        for reply in replies:
            if reply.metadata.message_type == "train":
                reply.__dict__["_content"] = None
                reply.__dict__["_error"] = Error(0, text)
        return replies


def test_a_dead_worker_stops_the_run_whatever_share_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"round 1, train: site-0, .*: the worker process died"):
        run_toy(tmp_path, Crashed, min_reply_fraction=0.01)
    reasons = {r["reason"] for r in history(RunFolder(tmp_path / "run")) if r["kind"] == "client"}
    assert reasons == {messages.WORKER_DIED}  # no actor id: it differs between equal runs


def test_a_finished_folder_is_not_written_over(tmp_path: Path) -> None:
    before = results_of(run_toy(tmp_path))
    with pytest.raises(InputError, match="a run of this name is there already"):
        run_toy(tmp_path)
    assert results_of(RunFolder(tmp_path / "run")) == before


def test_what_its_strategy_has_refused_is_no_run(tmp_path: Path) -> None:
    """The name stays free for the settings as they are corrected; the reason is in run.json."""
    with pytest.raises(InputError, match="refused by the strategy"):
        run_toy(tmp_path, fault="refused")
    refused = RunFolder(tmp_path / "run")
    assert refused.status()["error-kind"] == "input" and not refused.config.exists()
    assert run_toy(tmp_path).is_completed()


def test_error_texts_are_cut_to_what_they_say() -> None:
    coloured = "\x1b[36mray::Actor.run()\x1b[39m\n  File x\nValueError: boom'>\n\n"
    assert messages.last_line(coloured) == "ValueError: boom"
    assert messages.last_line("") == "no reason given"


class ToyHouses(SequentialAveraging):
    """Houses in turn; clients of the toy count no steps."""

    def _task(self, client, arrays):
        return dataclasses.replace(super()._task(client, arrays), needs=(), ranges={})

    def _metrics(self, before, after, replies, chosen):
        return {}


def in_turn(settings: ToySettings, rate: float = 1e7, turns: bool = True) -> ToyHouses:
    initial = {"w": np.zeros(settings.width, np.float32)}
    return ToyHouses(initial, lambda client: 1, rate=RateSchedule(rate=rate), in_turn=turns)


def test_a_model_that_one_house_spoilt_is_not_handed_to_the_next(tmp_path: Path) -> None:
    """The server's step after the first house is ten million times too long."""
    recorders: list[Recorder] = []

    def record(grid: Grid) -> Grid:
        recorders.append(Recorder(grid))
        return recorders[0]

    with pytest.raises(RunFailed, match=r"round 1: the merged model: .* likely cause: site-0, "):
        looped(tmp_path, in_turn, record)
    assert [m.metadata.message_type for m in recorders[0].sent] == ["query"] * 3 + ["train"]
    assert Versions(RunFolder(tmp_path / "run").checkpoints).rounds() == [0]


def test_the_reply_with_the_largest_number_is_the_likely_cause() -> None:
    """Counts say nothing; sizes count, not signs."""
    own = [
        {"w": np.array([2.0, 3.0]), "n": np.array(10**9)},
        {"w": np.array([-9.0, 1.0]), "n": np.array(1)},
        {"w": np.zeros(0), "n": np.array(1)},
    ]
    replies = [Reply(p, arrays, 1, {}) for p, arrays in enumerate(own)]
    check_merged(3, {"w": np.array([1e6])}, replies, "abc")
    with pytest.raises(RunFailed, match=r"cause: b, whose reply has the largest number \(9 in w\)"):
        check_merged(3, {"w": np.array([1, -2e6])}, replies, "abc")
    with pytest.raises(RunFailed, match=r"\(1 such arrays\); resume once"):
        check_merged(3, {"w": np.array([np.nan])}, [], "")


@pytest.mark.parametrize("turns", [True, False])
@pytest.mark.parametrize("fault", ["raise", "nan"])
def test_a_house_that_fails_in_its_turn_is_passed_over(
    tmp_path: Path, fault: str, turns: bool
) -> None:
    """Two of three in round 2 are enough, and the third house goes on from where the first left the model."""

    def make(settings: ToySettings) -> ToyHouses:
        return in_turn(settings, 1.0, turns)

    changes = {"fault": fault, "num_rounds": 3, "min_reply_fraction": 0.6}
    _, folder = looped(tmp_path, make, **changes)
    rows = [r for r in history(folder) if r["kind"] == "client"]
    assert [(r["round"], r["name"]) for r in rows if r["status"] != "ok"] == [(2, "site-1")]
    assert len(rows) == 3 * 3
    with pytest.raises(RunFailed, match=r"round 2, train: 2 of 3 replies usable.*0\.7; site-1"):
        looped(tmp_path / "strict", make, **{**changes, "min_reply_fraction": 0.7})
    rows = history(RunFolder(tmp_path / "strict" / "run"))
    assert [r["name"] for r in rows if r["round"] == 2] == ["site-0", "site-1"]
