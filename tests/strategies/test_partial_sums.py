"""Several houses in one message: the same bytes whatever their number, a line for each house, and what is refused."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from flwr.app import Message

from clients.house import HouseClient
from fedsuite.arrays import Arrays, module_arrays
from fedsuite.averaging.partial_sums import BLOCK, sum_of_changes, tree_sum, weighted_change
from fedsuite.errors import InputError, RunFailed
from fedsuite.history import read_rows
from fedsuite.roster.members import ROSTER, Member, Roster, read_roster
from fedsuite.roster.node import NodeSettings
from fedsuite.vln.plan import initial_agent
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.server_app import serve
from simulations.systems import Node, settings_of
from strategies.runtime import post
from tests.golden.runs import RUNS
from tests.harness import Recorder, arrays_in, config_from, prepared
from tests.strategies.runtime.loops import FakeTime

pytestmark = pytest.mark.slow

HOUSES = 7
RUN = RUNS["vln-train-parallel"] | {
    "generated-seen-houses": HOUSES, "participation-rate": 1.0, "num-rounds": 2, "server-optimizer": "adam",
    "server-learning-rate": 1e-3, "client-optimizer": "kept", "evaluate-every": 2, "max-instruction-length": 16,
}  # fmt: skip


class Played:
    """A run with so many houses a message, 0 = a model of each; its messages, lines and model."""

    def __init__(
        self, folder: Path, cache: Path, per_message: int, wrap: Any = Recorder, **more: Any
    ) -> None:
        own = {"houses-per-message": per_message, "name": f"by-{per_message}"}
        paths = {"results-dir": str(folder / "runs"), "cache-dir": str(cache)}
        self.config = config = config_from({**RUN, **paths, **own, **more})
        self.recorder = wrap(InProcessGrid(client_app, len(prepared(config)), config))
        self.run = folder / "runs" / f"by-{per_message}"
        with server_identity():
            serve(self.recorder, config)
        self.model = safetensors.numpy.load_file(self.run / "model.safetensors")

    @property
    def trained(self) -> list[dict[str, Any]]:
        rows = read_rows(self.run / "history.jsonl")
        return [r for r in rows if r["kind"] == "client" and r["task"] == "train"]

    def without_bytes(self) -> list[dict[str, Any]]:
        """The whole history but for what a message's size decides."""
        rows = read_rows(self.run / "history.jsonl")
        return [{k: v for k, v in row.items() if not k.startswith("bytes-")} for row in rows]

    def trainings(self) -> list[Message]:
        return [m for m in self.recorder.sent if m.metadata.message_type == "train"]


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[int, Played]:
    folder = tmp_path_factory.mktemp("sums")
    return {k: Played(folder, cache, k) for k in (0, 1, 2, 4, 8)}


def test_houses_trained_side_by_side_learn_the_same(
    tmp_path: Path, cache: Path, plays: dict[int, Played]
) -> None:
    """The same decisions of every house; models and losses differ by the order of sums, and not in every bit."""
    played = Played(tmp_path, cache, 4, stacked="yes")
    for mine, theirs in zip(played.trained, plays[4].trained, strict=True):
        for key in ("steps", "decisions"):
            assert mine["metrics"][key] == theirs["metrics"][key]
        assert mine["metrics"] == pytest.approx(theirs["metrics"], rel=1e-3)
    settings: Any = settings_of(played.config)[1]
    start = module_arrays(initial_agent(settings, read_roster(played.run / ROSTER)))

    def distance(one: Arrays, other: Arrays) -> float:
        return float(sum(np.square(one[k] - other[k]).sum() for k in one)) ** 0.5

    learnt, apart = distance(plays[4].model, start), distance(plays[4].model, played.model)
    assert 0 < apart < 5e-4 * learnt


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_a_tree_of_subtrees_is_the_tree(count: int) -> None:
    rng = np.random.default_rng(count)
    leaves: list[Arrays | None] = [{"w": rng.standard_normal(50) * 10.0**i} for i in range(count)]
    whole = tree_sum(leaves.__getitem__, count)["w"]
    np.testing.assert_allclose(whole, sum(leaf["w"] for leaf in leaves if leaf), rtol=1e-12)
    for size in (1, 2, 4, 8, 16):
        parts = [leaves[at : at + size] for at in range(0, count, size)]
        sums = [tree_sum(part.__getitem__, len(part)) for part in parts]
        assert tree_sum(sums.__getitem__, len(sums))["w"].tobytes() == whole.tobytes()
    gone = [None if i == 2 else leaf for i, leaf in enumerate(leaves)]
    rest = [leaf["w"] for leaf in gone if leaf]
    np.testing.assert_allclose(tree_sum(gone.__getitem__, count)["w"], sum(rest), rtol=1e-12)
    assert tree_sum(lambda _: None, count) == {} == tree_sum(leaves.__getitem__, 0)


def test_a_weighted_change_by_hand() -> None:
    start = {"w": np.array([1.0, -2.0], np.float32)}
    found = weighted_change(start, {"w": np.array([4.0, -4.0], np.float32)}, 0.25)
    assert found["w"].tolist() == [0.75, -0.5] and found["w"].dtype == np.float64


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_changes_are_summed_by_blocks_to_the_byte(count: int) -> None:
    """Arrays of more than a block, of less, and of one number."""
    rng = np.random.default_rng(count)
    shapes = {"long": (3, BLOCK // 2 + 7), "short": (4, 5), "one": ()}
    start, *clients = (
        {k: np.asarray(rng.standard_normal(s) * 10.0**i, np.float32) for k, s in shapes.items()}
        for i in range(count + 1)
    )
    weights = rng.random(count).tolist()
    whole = tree_sum(lambda k: weighted_change(start, clients[k], weights[k]), count)
    found = sum_of_changes(start, clients, weights)
    assert found.keys() == whole.keys()
    for name, array in whole.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, np.float64)
        assert found[name].tobytes() == array.tobytes()
    assert sum_of_changes(start, [], []) == {}


def test_the_bytes_are_the_same_whatever_the_number(plays: dict[int, Played]) -> None:
    for per_message in (2, 4, 8):
        assert plays[per_message].without_bytes() == plays[1].without_bytes()
        for name, array in plays[per_message].model.items():
            assert array.tobytes() == plays[1].model[name].tobytes()
    for name, array in plays[0].model.items():  # FedAvg's own sum, in another order
        np.testing.assert_allclose(plays[1].model[name], array, rtol=1e-4, atol=2e-6)


def test_every_house_has_its_line_and_bytes_are_what_moved(plays: dict[int, Played]) -> None:
    size = sum(v.nbytes for v in plays[0].model.values())
    for per_message, messages in ((1, HOUSES), (2, 4), (4, 2), (8, 1)):
        played = plays[per_message]
        assert len(played.trainings()) == 2 * messages
        rows = [r for r in played.trained if r["round"] == 1]
        assert [r["partition"] for r in rows] == list(range(HOUSES))
        assert all(r["num-examples"] and r["metrics"]["steps"] for r in rows)
        assert [bool(r["bytes-up"]) for r in rows] == [p % per_message == 0 for p in range(HOUSES)]
        assert sum(r["bytes-down"] for r in rows) == messages * size
        assert sum(r["bytes-up"] for r in rows) == messages * 2 * size  # float64
        times = [
            r
            for r in read_rows(played.run / "timings.jsonl")
            if r["kind"] == "client" and r["task"] == "train"
        ]
        assert len(times) == 2 * HOUSES and all(r["compute-seconds"] > 0 for r in times)


def test_of_several_houses_only_the_sum_is_sent(plays: dict[int, Played]) -> None:
    played = plays[4]
    answers = [m for m in played.recorder.received if m.metadata.message_type == "train"]
    names = {f"sum.{name}" for name in played.model}
    assert len(answers) == 4
    for answer in answers:
        assert set(arrays_in(answer)) == names
        assert {a.dtype for a in arrays_in(answer).values()} == {np.dtype(np.float64)}


class Losing(Recorder):
    """The second training message never reaches its node."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        kept = list(messages)
        self.sent += kept
        number = sum(m.metadata.message_type == "train" for m in self.sent)
        lost = kept[0].metadata.message_type == "train" and number == 2
        return ["lost"] if lost else self.inner.push_messages(kept)


def test_with_a_message_all_its_houses_are_absent(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post, "time", FakeTime())
    changes = {"num-rounds": 1, "min-reply-fraction": 0.5}
    played = Played(tmp_path, cache, 2, Losing, **changes)
    lost = [r["partition"] for r in played.trained if r["status"] != "ok"]
    assert len(lost) == 2 and lost[1] == lost[0] + 1 and len(played.trained) == HOUSES
    assert all(
        r["reason"].startswith("no reply within") for r in played.trained if r["partition"] in lost
    )
    assert all(np.isfinite(v).all() for v in played.model.values())
    with pytest.raises(
        RunFailed, match=r"5 of 7 replies usable, min-reply-fraction = 0.9; \w+: missing"
    ):
        Played(tmp_path / "strict", cache, 2, Losing, **changes | {"min-reply-fraction": 0.9})


REFUSED = {
    "a sample of houses": ({"evaluation-clients": 2}, "set one of the two to 0"),
    "no power of two": ({"houses-per-message": 3}, "3 is no power of two"),
    "sequential": ({"aggregation": "sequential"}, 'federation.aggregation = "sequential" trains one client at a time'),
    "shared": ({"client-optimizer": "shared"}, 'federation.client-optimizer = "shared" trains one'),
    "centralised": ({"method": "centralised"}, 'federation.method = "centralised" trains one'),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_message_of_several_can_have_is_refused(case: str) -> None:
    changes, line = REFUSED[case]
    system, settings = settings_of(
        config_from({**RUN, "server-optimizer": "none", "houses-per-message": 2, **changes})
    )
    with pytest.raises(InputError, match=r"federation\.houses-per-message: ") as refused:
        system.validate(settings)
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_a_real_node_refuses_it(tmp_path: Path) -> None:
    """Whether it says who it is, or has a file of its own."""
    system, settings = settings_of(config_from({**RUN, "houses-per-message": 1}))
    roster = Roster((Member("oak", "train", 4),))
    node = Node(roster, 0, tmp_path / "oak", {"scan": "oak"}, real=True)
    own = NodeSettings("oak", str(tmp_path / "roster.json"), str(tmp_path), most_shared="data")
    with pytest.raises(InputError, match="houses-per-message: for simulations only"):
        system.make_client(settings, node)
    with pytest.raises(InputError, match="houses-per-message: for simulations only"):
        system.accepts(settings, own)


class Broken(Recorder):
    """One house's metrics lack the number of its steps."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        for reply in super().pull_messages(message_ids):
            metrics: Any = reply.content.get("metrics", {})
            metrics.pop("3.steps", None)
            yield reply


def test_a_part_that_must_not_be_used_takes_its_sum_along(tmp_path: Path, cache: Path) -> None:
    played = Played(tmp_path, cache, 2, Broken, **{"num-rounds": 1, "min-reply-fraction": 0.5})
    bad = {r["partition"]: r for r in played.trained if r["status"] != "ok"}
    assert set(bad) == {2, 3} and {r["status"] for r in bad.values()} == {"rejected"}
    assert bad[3]["reason"] == "metrics lack steps"
    assert bad[2]["reason"] == f"sent in one sum with {bad[3]['name']}: metrics lack steps"


def let_fail(monkeypatch: pytest.MonkeyPatch, method: str, partition: int) -> None:
    """The house of this partition raises an error where it is to train or to score."""
    own = getattr(HouseClient, method)

    def failing(self: HouseClient, *given: Any) -> Any:
        if self.site.partition == partition:
            raise ValueError("no light")
        return own(self, *given)

    monkeypatch.setattr(HouseClient, method, failing)


def test_a_house_that_fails_is_named_among_those_of_its_message(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_fail(monkeypatch, "fit", 5)
    with pytest.raises(RunFailed, match=r"5 of 7 replies usable") as failed:
        Played(tmp_path, cache, 2)
    name = read_roster(tmp_path / "runs" / "by-2" / ROSTER).names[5]
    assert f"RunFailed: {name}: ValueError: no light (and 1 more)" in str(failed.value)
