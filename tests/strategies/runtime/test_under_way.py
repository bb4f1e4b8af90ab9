"""Steps that go on before everybody has answered: who is late, what is left of them, and equal bytes."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message

from fedsuite.checking import check_strategy
from fedsuite.errors import RunFailed
from fedsuite.federation import ClientInfo, Clients, Exchanges, ServerState, Task, UnderWay
from fedsuite.history import read_rows
from fedsuite.randomness import rng_for
from fedsuite.roster.members import ROSTER, write_roster
from fedsuite.runs.folder import RunFolder, folder_of
from simulations.client_app import app as client_app
from simulations.engines.inprocess import server_identity
from simulations.server_app import serve
from simulations.systems import to_run_config
from strategies.runtime import exchange, patience, post
from strategies.wrapping import around
from tests.harness import Recorder, toy_settings
from tests.nodes import KeyedGrid, key_of, write_node
from tests.strategies.runtime.loops import FakeTime, in_flower, left_in, looped
from tests.toy import SYSTEM, ToyStrategy


def quick(seed: int, number: int, tasks: Sequence[Task]) -> list[Task]:
    """Those that arrive in time, as drawn: two of three."""
    order = rng_for(seed, "who is quick", number).permutation(len(tasks))
    return [tasks[i] for i in order]


class Half(ToyStrategy):
    """Every round awaits two clients."""

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return around(
            super().train(number, state, clients),
            lambda tasks: UnderWay(quick(self.c.seed, number, tasks), 2),
        )


class Asked(ToyStrategy):
    """Every round asks the same two clients and nobody else."""

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return around(
            super().train(number, state, clients),
            lambda tasks: quick(self.c.seed, number, tasks)[:2],
        )


class All(ToyStrategy):
    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return around(
            super().train(number, state, clients), lambda tasks: UnderWay(tasks[::-1], len(tasks))
        )


def rows_of(folder: RunFolder) -> list[dict[str, Any]]:
    return [r for r in read_rows(folder.path / "history.jsonl") if r.get("task") == "train"]


def test_awaiting_all_is_a_plain_list(tmp_path: Path) -> None:
    assert left_in(looped(tmp_path / "a", All)[1]) == left_in(
        looped(tmp_path / "b", ToyStrategy)[1]
    )


def test_in_a_simulation_the_late_are_not_asked_and_have_a_line(tmp_path: Path) -> None:
    """The models, and what clients keep, are those of a run that asks nobody else."""
    recorders: list[Recorder] = []

    def recorded(grid: Any) -> Recorder:
        recorders.append(Recorder(grid))
        return recorders[-1]

    half, asked = looped(tmp_path / "half", Half, recorded), looped(tmp_path / "asked", Asked)
    np.testing.assert_array_equal(half[0].state.arrays["w"], asked[0].state.arrays["w"])
    late = [r for r in rows_of(half[1]) if r["status"] == "late"]
    rest = [r for r in rows_of(half[1]) if r["status"] != "late"]
    assert rest == rows_of(asked[1])
    assert [r["round"] for r in late] == [1, 2, 3, 4] and len({r["partition"] for r in late}) > 1
    assert all((r["bytes-down"], r["bytes-up"], r["num-examples"]) == (16, 0, 0) for r in late)
    trained = [m for m in recorders[0].sent if m.metadata.message_type.startswith("train")]
    assert len(trained) == 8
    kept = [
        {k: v for k, v in left_in(f).items() if k.startswith("clients")} for _, f in (half, asked)
    ]
    assert kept[0] == kept[1] != {}


@pytest.mark.parametrize("every", [1, 3])
def test_resuming_gives_the_bytes_of_an_uninterrupted_run(tmp_path: Path, every: int) -> None:
    _, whole = looped(tmp_path / "whole", Half, num_rounds=8, checkpoint_every=every)
    _, part = looped(tmp_path / "part", Half, num_rounds=5, checkpoint_every=every)
    own = {"num_rounds": 8, "checkpoint_every": every, "resume": str(part.path)}
    looped(tmp_path / "part", Half, **own)
    ours, wanted = left_in(part), left_in(whole)
    assert ours["history.jsonl"] == wanted["history.jsonl"]
    newest = "checkpoints/round-000008.safetensors"
    assert ours[newest] == wanted[newest]


def test_who_is_late_does_not_count_and_who_fails_does(tmp_path: Path) -> None:
    """min-reply-fraction is of those awaited."""
    fault = {"fault": "raise", "fault_round": 3, "fault_partition": 1}
    awaited = [t.partition for t in quick(0, 3, [Task(p, "train", {}) for p in range(3)])]
    for partition in range(3):
        fault["fault_partition"] = partition
        if partition == awaited[2]:
            looped(tmp_path / str(partition), Half, **fault)
            continue
        with pytest.raises(RunFailed, match="1 of 2 replies usable"):
            looped(tmp_path / str(partition), Half, **fault)


@pytest.mark.parametrize("awaited", [0, 3])
def test_how_many_may_be_awaited(awaited: int) -> None:
    with pytest.raises(ValueError, match=f"{awaited} awaited of 2 tasks"):
        UnderWay([Task(0, "train", {}), Task(1, "train", {})], awaited)


def test_what_is_put_around_it_keeps_how_many_are_awaited() -> None:
    def step() -> Exchanges:
        yield UnderWay([Task(p, "train", {}) for p in range(3)], 2)

    for left, want in ((3, 2), (2, 2), (1, 1)):
        batch = next(around(step(), lambda tasks, n=left: list(tasks)[:n]))  # type: ignore[misc]
        assert isinstance(batch, UnderWay) and (len(batch), batch.awaited) == (left, want)


def test_checkers_and_flowers_own_loop(tmp_path: Path) -> None:
    """The checker sends the replies that are awaited; Flower's loop awaits all, and is refused."""
    settings = toy_settings(tmp_path)
    check_strategy(
        Half(settings), [ClientInfo(p, f"site-{p}", 20 + p) for p in range(3)], may_lose=False
    )
    strategy, grid = in_flower(tmp_path, Half)
    with server_identity(), pytest.raises(RuntimeError, match=r"start\(\)"):
        strategy.configure_train(1, strategy.initial_arrays(grid), ConfigRecord(), grid)


class Slow(KeyedGrid):
    """In round 2 the answer of node 30 is a thousand seconds on its way."""

    clock: FakeTime

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        for message in (self._pending.get(i) for i in message_ids):
            about = message and message.metadata
            if (
                about
                and about.dst_node_id == 30
                and about.group_id == "2"
                and self.clock.now < 2000
            ):
                return []
        return super().pull_messages(message_ids)


def test_real_nodes_are_all_asked_and_the_first_are_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow one has its line and is merged again from the next round on; nobody waits for it."""
    clock = FakeTime()
    for module in (post, patience):
        monkeypatch.setattr(module, "time", clock)
    for module in (post, exchange):
        monkeypatch.setattr(module, "is_real", lambda grid: True)
    monkeypatch.setattr(ToyStrategy, "train", half_of(ToyStrategy.train))
    write_roster(tmp_path / ROSTER, SYSTEM.prepare(toy_settings(tmp_path), lambda _: None))
    nodes: dict[int, tuple[dict[str, Any], bytes, float]] = {}
    for i in range(3):
        own = {"allow_systems": ["tests.toy:SYSTEM"]}
        file = write_node(tmp_path / f"node-{i}", f"site-{i}", tmp_path / ROSTER, **own)
        nodes[30 + 20 * i] = ({"node": str(file)}, key_of(file.parent.name), 0.0)
    settings = toy_settings(tmp_path / "runs", roster=str(tmp_path / ROSTER))
    config = to_run_config(settings)
    grid = Slow(client_app, config, nodes, clock.monotonic)
    grid.clock = clock
    with server_identity():
        serve(grid, config)
    found = {(r["round"], r["name"]): r["status"] for r in rows_of(folder_of(settings))}
    assert [key for key, status in found.items() if status != "ok"] == [(2, "site-0")]
    assert found[2, "site-0"] == "late" and len(found) == 12 and clock.now < 1100


def half_of(train: Callable[..., Exchanges]) -> Callable[..., Exchanges]:
    def awaiting_two(self: ToyStrategy, *given: Any) -> Exchanges:
        return around(train(self, *given), lambda tasks: UnderWay(tasks, 2))

    return awaiting_two
