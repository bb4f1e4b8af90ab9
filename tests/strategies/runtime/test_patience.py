"""Real nodes that are lost in the middle of a run, by a grid that loses them; time is made up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Error, Message
from flwr.proto.node_pb2 import NodeInfo

from fedsuite.errors import RunFailed
from fedsuite.history import kind_of, line_about, read_rows
from fedsuite.roster.members import ROSTER, write_roster
from fedsuite.runs.folder import RunFolder, folder_of
from fedsuite.settings.config import Value
from fedsuite.storage.files import sha256_of
from simulations.client_app import app as client_app
from simulations.engines.inprocess import server_identity
from simulations.server_app import serve
from simulations.systems import to_run_config
from strategies.runtime import exchange, patience, post
from tests.harness import toy_settings
from tests.nodes import KeyedGrid, key_of, write_node
from tests.strategies.runtime.loops import FakeTime
from tests.toy import SYSTEM

GONE, CRASHED = 5, 8  # error codes of Flower
WEAK = 30  # the node that faults are about: site-0's
DONE_AND_LOST, LOST_BEFORE = "done, its answer lost", "lost before"


@dataclass
class Fault:
    """At the node's message number `at`: how it is lost, until when after that, and whether the SuperLink says so."""

    at: int
    how: str = LOST_BEFORE
    away_s: float = 100.0
    code: int | None = GONE
    times: int = 1


class Losing(KeyedGrid):
    """The node WEAK is lost as `faults` say, and started anew afterwards."""

    faults: list[Fault]
    clock: FakeTime

    def lose(self, faults: list[Fault], clock: FakeTime) -> "Losing":
        self.faults, self.clock = faults, clock
        self.asked, self.starts, self.until = 0, 0, 0.0
        return self

    def get_nodes(self) -> Iterable[NodeInfo]:
        for info in super().get_nodes():
            if info.node_id != WEAK:
                yield info
            elif self.clock.now >= self.until:
                since = f"start {self.starts}"
                yield NodeInfo(node_id=WEAK, public_key=info.public_key, last_activated_at=since)

    def _reply(self, message: Message) -> Message:
        if message.metadata.dst_node_id != WEAK:
            return super()._reply(message)
        if self.clock.now < self.until:
            return Message(Error(GONE, "Node Unavailable"), reply_to=message)
        found = next((f for f in self.faults if f.at == self.asked and f.times), None)
        if found is None:
            self.asked += 1
            return super()._reply(message)
        found.times -= 1
        if found.how == DONE_AND_LOST:
            super()._reply(message)
        if found.code != CRASHED:
            self.until = self.clock.now + found.away_s
            self.starts += 1
        if found.code is None:  # nobody ever answers this one
            raise LookupError
        return Message(Error(found.code, "as Flower says it"), reply_to=message)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        self.clock.now += 1.0
        return super().push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        try:
            return super().pull_messages(message_ids)
        except LookupError:
            return []


@dataclass
class Trial:
    folder: Path
    clock: FakeTime
    files: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        write_roster(
            self.folder / ROSTER, SYSTEM.prepare(toy_settings(self.folder), lambda _: None)
        )
        for i in range(3):
            home = self.folder / f"node-{i}"
            own = {"allow_systems": ["tests.toy:SYSTEM"]}
            self.files.append(write_node(home, f"site-{i}", self.folder / ROSTER, **own))

    def run(self, *faults: Fault, **changes: Value) -> RunFolder:
        given = {"roster": str(self.folder / ROSTER), "reply_deadline_s": 3000.0, **changes}
        settings = toy_settings(self.folder / "runs", **given)
        config = to_run_config(settings)
        nodes: dict[int, tuple[dict[str, Any], bytes, float]] = {
            WEAK + 20 * i: ({"node": str(file)}, key_of(file.parent.name), 0.0)
            for i, file in enumerate(self.files)
        }
        grid = Losing(client_app, config, nodes, self.clock.monotonic)
        with server_identity():
            serve(grid.lose(list(faults), self.clock), config)
        return folder_of(settings)

    def left(self, run: RunFolder) -> dict[str, str]:
        """Digests of what server and nodes have at the end, but for versions that only a resume needs."""
        found = [run.path / "history.jsonl", run.model]
        for file in self.files:
            found.append(max((file.parent / "state" / run.run_key()).rglob("*.safetensors")))
        return {p.name + str(i): sha256_of(p.read_bytes()) for i, p in enumerate(found)}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    for module in (post, patience):
        monkeypatch.setattr(module, "time", clock)
    for module in (post, exchange):
        monkeypatch.setattr(module, "is_real", lambda grid: True)
    return clock


@pytest.fixture
def trial(tmp_path: Path, clock: FakeTime) -> Callable[[str], Trial]:
    def make(name: str) -> Trial:
        (folder := tmp_path / name).mkdir()
        return Trial(folder, clock)

    return make


def told(folder: RunFolder) -> list[str]:
    rows = read_rows(folder.path / "timings.jsonl")
    return [f"{kind_of(r)} {r['client']}" for r in rows if line_about(r)]


@pytest.mark.slow
# Message 0 asks who it is, n trains in round n of four.
@pytest.mark.parametrize("at", [1, 2, 4])
@pytest.mark.parametrize("how", [LOST_BEFORE, DONE_AND_LOST])
@pytest.mark.parametrize("code", [GONE, CRASHED, None])
@pytest.mark.parametrize("every", [1, 3])
def test_a_node_that_comes_back_leaves_no_trace(
    trial: Callable[[str], Trial], at: int, how: str, code: int | None, every: int
) -> None:
    """Whatever was lost, when, and how the server learns of it."""
    calm, rough = trial("calm"), trial("rough")
    expected = calm.left(calm.run(checkpoint_every=every))
    done = rough.run(Fault(at, how, code=code), checkpoint_every=every)
    assert rough.left(done) == expected
    assert told(done) == (["lost site-0"] if code else []) + ["sent-again site-0"]


def test_it_is_waited_for_as_long_as_asked_and_not_again(trial: Callable[[str], Trial]) -> None:
    """Later exchanges go on without it at once, and with it as soon as it answers."""
    rough = trial("rough")
    begun = rough.clock.now
    fault = Fault(2, away_s=300.0)
    done = rough.run(fault, lost_node_patience_s=200.0, min_reply_fraction=0.5, num_rounds=4)
    assert 200 <= rough.clock.now - begun <= 230
    rows = [r for r in read_rows(done.path / "history.jsonl") if r.get("name") == "site-0"]
    assert [r["status"] for r in rows[:4]] == ["ok", *["missing"] * 3]
    assert told(done) == ["lost site-0"]


def test_one_that_answers_after_it_was_given_up_is_waited_for_again(
    trial: Callable[[str], Trial],
) -> None:
    rough = trial("rough")
    faults = [Fault(2, away_s=203.0), Fault(3, away_s=50.0)]
    done = rough.run(*faults, lost_node_patience_s=200.0, min_reply_fraction=0.5, num_rounds=4)
    assert told(done) == ["lost site-0"] * 2 + ["sent-again site-0"]


def test_a_run_that_needs_it_stops_and_goes_on_from_its_checkpoint(
    trial: Callable[[str], Trial],
) -> None:
    calm, rough = trial("calm"), trial("rough")
    expected = calm.left(calm.run())
    with pytest.raises(RunFailed, match=r"round 2, train: 2 of 3 replies usable.*site-0: missing"):
        rough.run(Fault(2, DONE_AND_LOST, away_s=700.0))
    folder = rough.folder / "runs" / "run"
    assert rough.left(rough.run(resume=str(folder))) == expected


def test_a_task_that_ends_every_process_is_not_sent_for_ever(
    trial: Callable[[str], Trial],
) -> None:
    rough = trial("rough")
    with pytest.raises(RunFailed, match="site-0: missing: the node's client process died"):
        rough.run(Fault(2, code=CRASHED, times=99))
    assert told(RunFolder(rough.folder / "runs" / "run")) == [
        *["lost site-0", "sent-again site-0"] * patience.MOST_TRIES
    ]


def test_without_patience_the_first_loss_counts(trial: Callable[[str], Trial]) -> None:
    rough = trial("rough")
    with pytest.raises(RunFailed, match="site-0: missing"):
        rough.run(Fault(2), lost_node_patience_s=0.0)
    assert not told(RunFolder(rough.folder / "runs" / "run"))


def test_a_node_that_is_lost_while_it_says_who_it_is_is_asked_again(
    trial: Callable[[str], Trial],
) -> None:
    calm, rough = trial("calm"), trial("rough")
    expected = calm.left(calm.run())
    assert rough.left(rough.run(Fault(0, away_s=60.0))) == expected
