"""The round loop with the toy system over the in-process grid."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from flwr.app import Error, Message

from fedsuite.checkpoint import rounds
from fedsuite.errors import InputError, RunFailed
from fedsuite.history import read_rows
from fedsuite.run_folder import RunFolder
from strategies import messages
from tests.harness import Recorder, results_of, run_toy


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
            assert list(message.content["arrays"]) == ["w"]
            assert set(message.content["config"]) <= {"round", "checkpoint-rounds", "extra"}
    for message in recorder.received:
        kind = message.metadata.message_type
        if kind == "query":
            assert set(message.content) == {"properties", "timing"}
            continue
        assert set(message.content) == {"metrics", "timing"} | (
            {"arrays"} if kind == "train" else set()
        )
        assert set(message.content["metrics"]) == {"loss", "num-examples"}
        assert kind == "evaluate" or list(message.content["arrays"]) == ["w"]


def test_tasks_carry_the_round_and_the_oldest_round_to_come_back_to(tmp_path: Path) -> None:
    recorders: list[Recorder] = []

    def record(grid):
        recorders.append(Recorder(grid))
        return recorders[0]

    folder = run_toy(tmp_path, record, num_rounds=7, checkpoint_every=2, num_clients=1)
    sent = [m.content["config"] for m in recorders[0].sent if m.metadata.message_type == "train"]
    assert [c["round"] for c in sent] == [1, 2, 3, 4, 5, 6, 7]
    assert [c["checkpoint-rounds"] for c in sent] == ["0", "0", "0,2", "0,2", "2,4", "2,4", "4,6"]
    assert rounds(folder.checkpoints) == [0, 6, 7]


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
    assert rounds(folder.checkpoints) == [0, 1]
    if fault == "raise":
        assert "Traceback" in folder.errors.read_text()


def test_enough_usable_replies_keep_the_run_going(tmp_path: Path) -> None:
    folder = run_toy(tmp_path, fault="nan", min_reply_fraction=0.6)
    statuses = [r["status"] for r in history(folder) if r["kind"] == "client"]
    assert statuses.count("rejected") == 1 and statuses.count("ok") == 11
    assert np.isfinite(safetensors.numpy.load(folder.model.read_bytes())["w"]).all()


def test_a_server_model_with_nan_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="round 2: the merged model holds NaN or infinity in w"):
        run_toy(tmp_path, fault="server-nan", fault_round=2)
    assert rounds(RunFolder(tmp_path / "run").checkpoints) == [0, 1]


class Silent(Recorder):
    """Loses what is sent to the first node from the given message on."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        kept = list(messages)
        self.sent += kept
        lost = kept[0].metadata.dst_node_id == min(self.get_node_ids()) and len(self.sent) > 4
        return ["lost"] if lost else self.inner.push_messages(kept)


def test_a_client_that_does_not_answer_fails_the_run_at_the_deadline(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(RunFailed, match=r"site-2: missing: no reply within 0\.5 s"):
        run_toy(tmp_path, Silent, reply_deadline_s=0.5)
    assert time.monotonic() - begin < 5


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


def test_resuming_gives_the_bytes_of_an_uninterrupted_run(tmp_path: Path) -> None:
    whole = run_toy(tmp_path / "whole", num_rounds=9)
    part = run_toy(tmp_path / "part", num_rounds=5)
    resumed = run_toy(tmp_path / "part", num_rounds=9, resume=str(part.path))
    assert results_of(resumed) == results_of(whole)


@pytest.mark.parametrize("every", [1, 3])
def test_resuming_after_a_failure_gives_the_same_bytes(tmp_path: Path, every: int) -> None:
    whole = run_toy(tmp_path / "whole", num_rounds=9, checkpoint_every=every)
    calls = 0

    class Fails(Recorder):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            nonlocal calls
            calls += 1
            if calls == 20:  # in the middle of a round
                raise OSError("the machine went away")
            return super().pull_messages(message_ids)

    with pytest.raises(OSError, match="went away"):
        run_toy(tmp_path / "part", Fails, num_rounds=9, checkpoint_every=every)
    part = RunFolder(tmp_path / "part" / "run")
    assert part.status()["error-kind"] == "bug"
    run_toy(tmp_path / "part", num_rounds=9, checkpoint_every=every, resume=str(part.path))
    assert results_of(part) == results_of(whole)


def test_resume_complaints(tmp_path: Path) -> None:
    folder = run_toy(tmp_path, num_rounds=3)
    resume = str(folder.path)
    with pytest.raises(InputError, match="cannot resume with width = 5, the run was made with 4"):
        run_toy(tmp_path, resume=resume, width=5)
    with pytest.raises(InputError, match=r"num-rounds = 2, but round 3 is already done"):
        run_toy(tmp_path, resume=resume, num_rounds=2)
    stored = json.loads(folder.config.read_text())
    folder.config.write_text(json.dumps(stored | {"seed": 5}))
    with pytest.raises(InputError, match="made with another configuration"):
        run_toy(tmp_path, resume=resume, seed=5)
    for path in folder.checkpoints.iterdir():
        (path / "state.json").unlink()
    folder.config.write_text(json.dumps(stored))
    with pytest.raises(InputError, match=r"state\.json: damaged checkpoint"):
        run_toy(tmp_path, resume=resume)


def test_a_finished_folder_is_not_written_over(tmp_path: Path) -> None:
    before = results_of(run_toy(tmp_path))
    with pytest.raises(InputError, match="a run of this name is there already"):
        run_toy(tmp_path)
    assert results_of(RunFolder(tmp_path / "run")) == before


class Extra(Recorder):
    """Shows one node too many, or too few."""

    more = 1

    def get_node_ids(self) -> Iterable[int]:
        nodes = list(self.inner.get_node_ids())
        return [*nodes, 5] if self.more > 0 else nodes[1:]


def test_the_number_of_nodes_must_be_right(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="4 nodes are connected, the configuration needs 3"):
        run_toy(tmp_path / "a", Extra)

    class Fewer(Extra):
        more = -1

    begin = time.monotonic()
    with pytest.raises(RunFailed, match=r"2 nodes are connected.*num-supernodes=3"):
        run_toy(tmp_path / "b", Fewer, node_deadline_s=0.3)
    assert 0.3 <= time.monotonic() - begin < 5


class Liar(Recorder):
    """Changes who clients say they are."""

    change: dict

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            if reply.metadata.message_type == "query":
                properties = reply.content["properties"]
                if properties["partition"] == 1:
                    properties.update(self.change)
        return replies


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"partition": 0}, "two clients call themselves partition 0"),
        ({"partition": 7}, r"partitions must be 0\.\.2, the clients are \[0, 2, 7\]"),
        ({"name": "site-0"}, "two clients are called 'site-0'"),
        ({"name": " "}, "bad name"),
        ({"name": 3}, "get_properties must return partition"),
        ({"num-examples": -1}, "bad name .* or num-examples -1"),
    ],
)
def test_identities_must_make_sense(tmp_path: Path, change: dict, complaint: str) -> None:
    grid = type("ThisLiar", (Liar,), {"change": change})
    with pytest.raises(RunFailed, match=complaint):
        run_toy(tmp_path, grid)


def test_error_texts_are_cut_to_what_they_say() -> None:
    coloured = "\x1b[36mray::Actor.run()\x1b[39m\n  File x\nValueError: boom'>\n\n"
    assert messages.last_line(coloured) == "ValueError: boom"
    assert messages.last_line("") == "no reason given"


def test_exchanges_cost_little(tmp_path: Path) -> None:
    folder = run_toy(tmp_path, num_rounds=40, num_clients=4, checkpoint_every=40)
    seconds = [
        row["seconds"]
        for row in read_rows(folder.path / "timings.jsonl")
        if row["kind"] == "round" and row["round"] > 0
    ]
    assert sorted(seconds)[len(seconds) // 2] < 0.1
