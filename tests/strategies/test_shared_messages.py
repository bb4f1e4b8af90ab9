"""Several houses in one message, a reply of each: to the byte what a message for each house brings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.arrays import num_bytes
from fedsuite.federation import Task, UnderWay
from fedsuite.history import read_rows
from fedsuite.storage.files import sha256_of
from strategies.shared_messages import grouped
from tests.fedvln_runs import chain_in
from tests.harness import arrays_in
from tests.strategies.test_partial_sums import HOUSES, Broken, Played, let_fail

pytestmark = pytest.mark.slow

PLAIN: dict[str, Any] = {"server-optimizer": "none"}
NOISE: dict[str, Any] = {"privacy.noise": "seeded", "server-optimizer": "none"}
CHANGES: dict[str, dict[str, Any]] = {
    "chains": {"group-size": 3, **PLAIN},
    "control variates": {"control-variates": True, **PLAIN},
    "chains with control variates": {"group-size": 2, "control-variates": True, **PLAIN},
    "median": {"merge": "median", **PLAIN},
    "fedexp": {"server-optimizer": "fedexp"},
    "codec": {"codec": "tests.simulations.cdl.test_star_codec:MOST", **PLAIN},
    "own encoder": {"share": "decoder.*", "max-share": 0.5},
    "apfl": {"local-method": "apfl", "max-share": 0.5},
    "local only": {"method": "local-only", **PLAIN, "evaluate-every": 0},
    "clients hidden": {"privacy.unit": "client", "privacy.noise-multiplier": 0.1, **NOISE},
    "instructions hidden": {"privacy.unit": "example", "privacy.noise-multiplier": 0.5, **NOISE},
    "hostile": {"sabotage.clients": "0,3", "sabotage.attack": "backdoor", **PLAIN},
    "speaker": {"stage": "speaker", **PLAIN, "max-share": 0.5},
}  # fmt: skip


def files_of(run: Path) -> dict[str, str]:
    """All that a run leaves behind but for settings, times and the history, whose bytes a message decides."""
    told = (
        "config.json",
        "run.json",
        "history.jsonl",
        "timings.jsonl",
        "results.json",
        "results.md",
    )
    left = [p for p in sorted(run.rglob("*")) if p.is_file() and p.name not in told]
    left = [p for p in left if p.suffix in (".safetensors", ".json", ".jsonl")]
    return {str(p.relative_to(run)): sha256_of(p.read_bytes()) for p in left}


@pytest.mark.parametrize("case", CHANGES)
def test_a_run_is_the_one_with_a_message_for_each_house(
    tmp_path: Path, cache: Path, case: str
) -> None:
    alone = Played(tmp_path, cache, 0, **CHANGES[case])
    shared = Played(tmp_path, cache, 3, **CHANGES[case])
    assert shared.without_bytes() == alone.without_bytes()
    names = {name for name in files_of(alone.run) if "checkpoints/" not in name}
    assert {n: files_of(shared.run)[n] for n in names} == {n: files_of(alone.run)[n] for n in names}
    assert "model.safetensors" in names or case == "local only"
    assert len(shared.trainings()) < len(alone.trainings())
    for name, array in alone.model.items():
        assert shared.model[name].tobytes() == array.tobytes()


def test_a_house_explores_with_an_agent_of_its_own(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Seen and unseen houses, each with the models that it keeps."""
    chain = chain_in(tmp_path_factory.getbasetemp(), __name__)
    for share in ("agent", "language-encoder"):
        more = {
            "share": share,
            "seen_participation_rate": 1.0,
            "num_rounds": 2,
            "client_optimizer": "kept",
        }
        chain.play(f"{share}-0", **more)
        chain.play(f"{share}-3", **more, houses_per_message=3)
        alone, shared = (files_of(chain.run(f"{share}-{k}")) for k in (0, 3))
        own = {k: v for k, v in alone.items() if not k.startswith("checkpoints/")}
        assert sum(k.startswith("clients/") for k in own) >= 4
        assert {k: shared[k] for k in own} == own


def test_what_several_start_from_is_sent_once(tmp_path: Path, cache: Path) -> None:
    played = Played(tmp_path, cache, 4, **{"merge": "median", "server-optimizer": "none"})
    size = num_bytes(played.model.values())
    for number in (1, 2):
        rows = [r for r in played.trained if r["round"] == number]
        assert [r["bytes-down"] for r in rows].count(size) == 2
        assert sum(r["bytes-down"] for r in rows) == 2 * size
        assert [r["bytes-up"] for r in rows] == [size] * HOUSES
    for message in played.trainings():
        assert set(arrays_in(message)) == {f"0.{name}" for name in played.model}


def test_chains_start_where_those_before_them_ended(tmp_path: Path, cache: Path) -> None:
    """The first places of three chains share a start, the second ones have each their own."""
    more = {"group-size": 3, "server-optimizer": "none", "num-rounds": 1}
    played = Played(tmp_path, cache, 4, **more)
    starts = [{name.partition(".")[0] for name in arrays_in(m)} for m in played.trainings()]
    assert starts[:2] == [{"0"}, {"0", "1"}] and len(starts) == 3


def test_those_with_equally_many_steps_share_a_message() -> None:
    arrays = {"w": np.zeros(2, np.float32)}
    tasks = [Task(p, "train", arrays, {"steps": s}) for p, s in enumerate((1, 9, 2, 9, 1))]
    sent = grouped(tasks, 2)
    assert [[t.partition for t in m.together] for m in sent] == [[1, 3], [0, 2], []]
    assert sent[2] is tasks[4]
    assert set(sent[0].expected) == {"1.w", "3.w"} and sent[0].partition == 1
    assert [t.expected for t in sent[0].together] == [tasks[0].expected] * 2


@pytest.mark.parametrize("what", ["for several", "summed", "aside", "under way"])
def test_what_needs_messages_of_its_own_goes_out_as_it_is(what: str) -> None:
    more: dict[str, dict[str, Any]] = {
        "summed": {"summed": True},
        "aside": {"aside": "secure-sum"},
        "for several": {"together": (Task(0, "train", {}), Task(9, "train", {}))},
    }
    tasks = [Task(p, "train", {}, {"steps": 1}, **more.get(what, {})) for p in range(4)]
    given = UnderWay(tasks, 2) if what == "under way" else tasks
    assert grouped(given, 2) is given
    if what != "under way":  # one of them is enough
        mixed = [Task(5, "train", {}, {"steps": 1}), *tasks]
        assert grouped(mixed, 2) is mixed


def test_houses_score_together_too(tmp_path: Path, cache: Path) -> None:
    """Three messages for seven seen and two unseen houses, with the model once in each; a line for each house."""
    played = Played(tmp_path, cache, 4)
    asked = [m for m in played.recorder.sent if m.metadata.message_type == "evaluate"]
    rows = [r for r in read_rows(played.run / "history.jsonl") if r["kind"] == "client"]
    scored = [r for r in rows if r["task"] == "evaluate" and r["round"] == 2]
    assert len(scored) == HOUSES + 2 and all(r["num-examples"] for r in scored)
    size = num_bytes(played.model.values())
    assert sum(r["bytes-down"] for r in scored) == 3 * size
    assert len(asked) == 6  # before training, and after round 2


def test_a_house_that_cannot_score_is_left_out_alone(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_fail(monkeypatch, "evaluate", 5)
    more = {"num-rounds": 1, "evaluate-every": 1, "min-reply-fraction": 0.5, **PLAIN}
    for stacked in ("no", "yes"):
        played = Played(tmp_path / stacked, cache, 4, **more, stacked=stacked)
        rows = [r for r in read_rows(played.run / "history.jsonl") if r["kind"] == "client"]
        bad = [r for r in rows if r["status"] != "ok"]
        assert {(r["partition"], r["task"], r["reason"]) for r in bad} == {
            (5, "evaluate", "ValueError: no light")
        }


def test_a_part_that_must_not_be_used_is_left_out_alone(tmp_path: Path, cache: Path) -> None:
    more = {
        "num-rounds": 1,
        "min-reply-fraction": 0.5,
        "merge": "median",
        "server-optimizer": "none",
    }
    played = Played(tmp_path, cache, 2, Broken, **more)
    (bad,) = [r for r in played.trained if r["status"] != "ok"]
    assert (bad["partition"], bad["status"], bad["reason"]) == (3, "rejected", "metrics lack steps")


@pytest.mark.parametrize("stacked", ["no", "yes"])
def test_a_house_that_fails_is_left_out_alone(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, stacked: str
) -> None:
    """As with a message for each house: the same lines, the same model, and its traceback in the log of errors."""
    let_fail(monkeypatch, "fit", 5)
    more = {
        "num-rounds": 1,
        "min-reply-fraction": 0.5,
        "merge": "median",
        "server-optimizer": "none",
    }
    alone = Played(tmp_path, cache, 0, **more)
    shared = Played(tmp_path, cache, 4, **more, stacked=stacked)
    (bad,) = [r for r in shared.trained if r["status"] != "ok"]
    assert (bad["partition"], bad["status"], bad["reason"]) == (5, "error", "ValueError: no light")
    log = (shared.run / "errors.log").read_text()
    assert f"round 1, {bad['name']}" in log and "in failing" in log
    if stacked == "no":
        assert shared.without_bytes() == alone.without_bytes()
        assert all(shared.model[k].tobytes() == v.tobytes() for k, v in alone.model.items())
    times = [r for r in read_rows(shared.run / "timings.jsonl") if r["kind"] == "client"]
    assert [r["status"] for r in times if r["task"] == "train"].count("error") == 1


def test_each_house_keeps_the_version_of_its_own_last_training(tmp_path: Path, cache: Path) -> None:
    """Sums or not: a message that is sent again finds what each house had before it."""
    for merge in ("mean", "median"):
        more = {
            "num-rounds": 3,
            "participation-rate": 0.5,
            "merge": merge,
            "server-optimizer": "none",
        }
        played = Played(tmp_path / merge, cache, 4, **more)
        last: dict[int, int] = {}
        for message in played.trainings():
            config: Any = message.content["config"]
            for partition in map(int, str(config["members"]).split(",")):
                known = int(config[f"{partition}.last-trained"])
                assert known == last.get(partition, 0)
                assert known in map(int, config[f"{partition}.checkpoint-rounds"].split(","))
                last[partition] = int(config["round"])
        assert len(set(last.values())) > 1
