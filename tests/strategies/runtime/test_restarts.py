"""Runs that are resumed, or end before their time: nothing of the best state, the counts and the bytes is lost."""

import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message

from fedsuite.errors import InputError
from fedsuite.federation import RoundStrategy
from fedsuite.history import HistoryWriter
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Checkpoints
from strategies.house_averaging import HouseAveraging
from tests.harness import Recorder, results_of, run_toy
from tests.strategies.runtime.loops import Scored, left_in, looped, round_metrics
from tests.toy import ToySettings, ToyStrategy


def test_resuming_gives_the_bytes_of_an_uninterrupted_run(tmp_path: Path) -> None:
    whole = run_toy(tmp_path / "whole", num_rounds=9)
    part = run_toy(tmp_path / "part", num_rounds=5)
    resumed = run_toy(tmp_path / "part", num_rounds=9, resume=str(part.path))
    assert results_of(resumed) == results_of(whole)


@pytest.mark.slow
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
        path.write_bytes(b"torn")
    folder.config.write_text(json.dumps(stored))
    with pytest.raises(InputError, match=r"round-000003\.safetensors: damaged checkpoint"):
        run_toy(tmp_path, resume=resume)


# --- the best state, and patience ----------------------------------------------------------------


def scored(scores: tuple[float, ...], patience: int = 0) -> Callable[[ToySettings], Scored]:
    return lambda settings: Scored(settings, scores, patience)


def test_the_best_rounds_state_is_the_result_and_stands_in_checkpoints(tmp_path: Path) -> None:
    result, folder = looped(tmp_path, scored((0.1, 0.2, 0.6, 0.3, 0.6)), num_rounds=4)
    whole, _ = looped(tmp_path / "other", ToyStrategy, num_rounds=2)
    np.testing.assert_array_equal(result.state.arrays["w"], whole.state.arrays["w"])
    assert result.metrics == {"last": 4.0, "selected-round": 2.0}
    stored = Checkpoints(folder.checkpoints).latest()
    assert stored is not None and stored.round == 4
    np.testing.assert_array_equal(stored.state.best["w"], whole.state.arrays["w"])
    assert stored.state.scalars["best-round"] == 2
    assert not np.array_equal(stored.state.arrays["w"], stored.state.best["w"])


def test_training_tasks_are_told_the_best_round_so_far(tmp_path: Path) -> None:
    recorders: list[Recorder] = []

    def record(grid):
        recorders.append(Recorder(grid))
        return recorders[0]

    looped(tmp_path, scored((0.1, 0.3, 0.2, 0.4, 0.4)), record, num_rounds=4, num_clients=1)
    told = [
        (m.metadata.message_type, m.content["config"].get("best-round"))
        for m in recorders[0].sent[1:]
    ]
    assert [n for kind, n in told if kind == "train"] == [0, 1, 1, 3]
    assert all(n is None for kind, n in told if kind != "train")


SCORES = (0.1, 0.4, 0.3, 0.4, 0.9, 0.9)


def test_patience_ends_a_run_early(tmp_path: Path) -> None:
    """Round 1 is the best of those seen; two evaluations later nothing better has come."""
    result, folder = looped(tmp_path, scored(SCORES, patience=2), num_rounds=5)
    assert list(round_metrics(folder)) == [0, 1, 2, 3, -1]
    assert result.metrics == {"last": 3.0, "selected-round": 1.0}
    assert Checkpoints(folder.checkpoints).rounds() == [0, 2, 3]
    result, folder = looped(tmp_path / "longer", scored(SCORES, patience=3), num_rounds=5)
    assert list(round_metrics(folder)) == [0, 1, 2, 3, 4, 5, -1]
    assert result.metrics["selected-round"] == 4.0


def test_patience_counts_evaluations_not_rounds(tmp_path: Path) -> None:
    changes = {"num_rounds": 6, "evaluate_every": 2}
    _, folder = looped(tmp_path, scored((0.5, 9, 0.4, 9, 0.3, 9, 9), 2), **changes)
    assert list(round_metrics(folder)) == [0, 1, 2, 3, 4, -1]


def test_an_early_end_is_checkpointed_whatever_the_interval(tmp_path: Path) -> None:
    _, folder = looped(tmp_path, scored(SCORES, 2), num_rounds=5, checkpoint_every=4)
    assert Checkpoints(folder.checkpoints).rounds() == [0, 3]


@pytest.mark.parametrize("num_rounds", [5, 9])
def test_a_run_that_has_ended_early_ends_again_in_the_same_way(
    tmp_path: Path, num_rounds: int
) -> None:
    """Also with more rounds than before: the patience stays used up."""
    make = scored(SCORES, patience=2)
    first, folder = looped(tmp_path, make, num_rounds=5)
    before = left_in(folder)
    recorders: list[Recorder] = []

    def record(grid):
        recorders.append(Recorder(grid))
        return recorders[0]

    again, _ = looped(tmp_path, make, record, num_rounds=num_rounds, resume=str(folder.path))
    assert again.metrics == first.metrics and left_in(folder) == before
    np.testing.assert_array_equal(again.state.arrays["w"], first.state.arrays["w"])
    assert {m.metadata.message_type for m in recorders[0].sent} == {"query"}


class Torn(Recorder):
    """The machine goes away at some look at the grid."""

    looks = 0

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        type(self).looks += 1
        if self.looks == 28:
            raise OSError("the machine went away")
        return super().pull_messages(message_ids)


def torn_and_resumed(
    folder: Path, make: Callable[[ToySettings], RoundStrategy], **changes
) -> tuple[dict[str, str], dict[str, str], list[int]]:
    """What a whole run leaves, what one with a break in it leaves, and the checkpoints at the break."""
    _, whole = looped(folder / "whole", make, **changes)
    with pytest.raises(OSError, match="went away"):
        looped(folder / "torn", make, type("ThisTorn", (Torn,), {}), **changes)
    part = folder / "torn" / "run"
    there = Checkpoints(part / "checkpoints").rounds()
    _, torn = looped(folder / "torn", make, resume=str(part), **changes)
    return left_in(whole), left_in(torn), there


def test_best_state_and_patience_outlive_a_restart(tmp_path: Path) -> None:
    make = scored((0.1, 0.4, 0.2, 0.3, 0.1, 0.2, 0.9, 0.9), patience=4)
    whole, torn, there = torn_and_resumed(tmp_path, make, num_rounds=7)
    assert whole == torn and 1 < there[-1] < 5


def momentum(server, delta, state, step):
    """v <- v / 2 + Delta; w <- w + eta v."""
    velocity = {k: 0.5 * state.get(k, np.zeros_like(d)) + d for k, d in delta.items()}
    return {k: server[k] + step.rate * v for k, v in velocity.items()}, velocity


class ToyHouses(HouseAveraging):
    """Clients of the toy count no steps."""

    def _task(self, client, arrays):
        return dataclasses.replace(super()._task(client, arrays), needs=(), ranges={})

    def _metrics(self, before, after, replies, chosen):
        return {}


def with_momentum(settings: ToySettings) -> ToyHouses:
    initial = {"w": np.zeros(settings.width, np.float32)}
    return ToyHouses(initial, lambda client: 1, server_optimizer=momentum)


def test_a_server_optimizers_state_outlives_a_restart(tmp_path: Path) -> None:
    whole, torn, there = torn_and_resumed(tmp_path, with_momentum, num_rounds=9)
    assert whole == torn and 3 < there[-1] < 9
    stored = Checkpoints(tmp_path / "whole" / "run" / "checkpoints").latest()
    assert stored is not None and set(stored.state.optimizer) == {"w"}
    assert stored.state.optimizer["w"].dtype == np.float64


def test_a_server_optimizer_makes_a_difference(tmp_path: Path) -> None:
    """Without it the same run goes elsewhere; its first round is the same."""
    for number, same in ((1, True), (2, False)):
        heavy, _ = looped(tmp_path / f"heavy-{number}", with_momentum, num_rounds=number)
        plain, _ = looped(
            tmp_path / f"plain-{number}",
            lambda s: ToyHouses({"w": np.zeros(s.width, np.float32)}, lambda client: 1),
            num_rounds=number,
        )
        assert np.allclose(heavy.state.arrays["w"], plain.state.arrays["w"], rtol=1e-6) == same


def _rows_cut(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[4:]), encoding="utf-8")


HISTORIES: dict[str, Callable[[Path], object]] = {
    "rows missing": _rows_cut,
    "end missing": lambda path: path.write_bytes(path.read_bytes()[:300]),
    "a digit changed": lambda path: path.write_text(path.read_text().replace(": 20", ": 21", 1)),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", HISTORIES)
def test_a_history_that_lost_rows_is_not_gone_on_with(tmp_path: Path, damage: str) -> None:
    part = run_toy(tmp_path, num_rounds=3)
    HISTORIES[damage](part.path / "history.jsonl")
    with pytest.raises(InputError, match=r"history\.jsonl: rows from before the checkpoint are"):
        run_toy(tmp_path, num_rounds=5, resume=str(part.path))


def test_a_checkpoint_is_written_after_the_history_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    for kind, name in ((HistoryWriter, "durable"), (Checkpoints, "save_state")):
        original = getattr(kind, name)

        def noted(self, *given, original=original, name=name):
            order.append(name)
            return original(self, *given)

        monkeypatch.setattr(kind, name, noted)
    run_toy(tmp_path, num_rounds=2)
    assert order == ["durable", "save_state"] * 3
