"""Runs that ask some clients only: who is asked and opened, what is kept of them, and equal bytes whatever is kept open."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedsuite.driving.report.run import write_results
from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import ClientInfo
from fedsuite.history import load_runs, read_rows
from fedsuite.randomness import ASKED, OF
from fedsuite.reports.sampled import sampled_text
from fedsuite.roster.members import Roster, write_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.progress import silent
from fedsuite.vln.data import roster as houses
from fedsuite.vln.plan import clients_of
from simulations import systems
from simulations.client_app import app as client_app
from simulations.client_app import node_of
from simulations.engines.inprocess import InProcessGrid, run_inprocess, server_identity
from simulations.fedvln.client import _open_site
from simulations.server_app import serve
from simulations.systems import settings_of
from strategies.runtime.identity import read_identity
from tests import cdl_runs
from tests.fedvln_runs import TINY
from tests.harness import Recorder, config_from, prepared, results_of, run_toy
from tests.nodes import write_node
from tests.test_sampling import slow_sample

SEEN, UNSEEN, ROUNDS = 9, 4, 3
SOME: dict[str, Any] = {
    **TINY, "generated-seen-houses": SEEN, "generated-unseen-houses": UNSEEN, "participation-rate": 0.25,
    "client-optimizer": "kept", "num-rounds": ROUNDS, "evaluation-clients": 2, "batch-size": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Runs:
    """Tiny runs below `root`."""

    root: Path

    def config(self, name: str, **changes: Any) -> dict[str, Any]:
        places = {"results-dir": str(self.root / "runs"), "cache-dir": str(self.root / "cache")}
        return config_from({**SOME, "name": name, **places}, **changes)

    def folder(self, name: str) -> RunFolder:
        return RunFolder(self.root / "runs" / name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return read_rows(self.folder(name).path / "history.jsonl")


@dataclass(frozen=True)
class Seen:
    """A run with few houses open: its messages, the houses that were opened, and the most view files mapped at once."""

    runs: Runs
    recorder: Recorder
    opened: list[str]
    most_mapped: int


class Mapped(Recorder):
    """Looks after every reply how many files of views this process has mapped."""

    most = 0

    def pull_messages(self, message_ids: Any) -> Any:
        replies = super().pull_messages(message_ids)
        self.most = max(self.most, len(set(re.findall(r"\S+/views/\w+\.npy", _maps()))))
        return replies


def _maps() -> str:
    return Path("/proc/self/maps").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    runs, opened = Runs(tmp_path_factory.mktemp("many")), list[str]()
    config = runs.config("few-open", open_clients=1)
    system, settings = settings_of(config)
    nodes = system.simulated_nodes(settings, len(prepared(config)))
    original = houses.load_house

    def noted(*given: Any) -> Any:
        opened.append(given[3])
        return original(*given)

    _open_site.cache_clear()
    with pytest.MonkeyPatch.context() as patch, server_identity():
        patch.setattr(houses, "load_house", noted)
        recorder = Mapped(InProcessGrid(client_app, nodes, config))
        serve(recorder, config)
    yield Seen(runs, recorder, opened, recorder.most)
    _open_site.cache_clear()


def asked_in(rows: list[dict[str, Any]], number: int, task: str) -> list[int]:
    return [r["partition"] for r in rows if r.get("task") == task and r["round"] == number]


def test_an_evaluation_asks_the_twins_sample_of_both_kinds(seen: Seen) -> None:
    rows = seen.runs.rows("few-open")
    partitions = list(map(str, range(SEEN + UNSEEN)))
    for number in range(ROUNDS + 1):
        drawn = slow_sample(partitions[:SEEN], 2, 0, number, 0)
        drawn += slow_sample(partitions[SEEN:], 2, 0, number, 1)
        assert list(map(str, asked_in(rows, number, "evaluate"))) == drawn
    told = [r["metrics"] for r in rows if r["kind"] == "round"]
    assert [(m[ASKED], m[OF]) for m in told] == [(4.0, SEEN + UNSEEN)] * (ROUNDS + 1)
    assert all("val_unseen.sr" in m and "val_seen.sr" in m for m in told)


def test_nobody_is_opened_who_has_nothing_to_do(seen: Seen) -> None:
    rows = seen.runs.rows("few-open")
    busy = {r["name"] for r in rows if r["kind"] == "client"}
    assert set(seen.opened) == busy and len(busy) < SEEN + UNSEEN
    assert not [m for m in seen.recorder.sent if m.metadata.message_type == "query"]


def test_no_more_files_are_open_than_the_settings_allow(seen: Seen) -> None:
    assert 1 <= seen.most_mapped <= 2  # the one that is kept, and the one whose reply is on its way
    assert len(_open_site) <= 1
    assert len(seen.opened) > len(set(seen.opened))  # houses were let go and opened again


def test_private_states_are_of_those_that_trained(seen: Seen) -> None:
    trained = {r["name"] for r in seen.runs.rows("few-open") if r.get("task") == "train"}
    assert {p.name for p in seen.runs.folder("few-open").clients.iterdir()} == trained


def test_who_is_asked_first_says_who_it_is_and_never_again(seen: Seen) -> None:
    met = set[int]()
    replies = {m.metadata.reply_to_message_id: m for m in seen.recorder.received}
    assert len(replies) == len(seen.recorder.sent)
    said = [m for m in seen.recorder.received if "properties" in m.content]
    for message in said:
        info = read_identity(dict(message.content["properties"]))
        assert info.partition not in met
        met.add(info.partition)
    asked = {r["partition"] for r in seen.runs.rows("few-open") if r["kind"] == "client"}
    assert met == asked


def test_few_open_houses_and_few_nodes_change_no_byte(seen: Seen) -> None:
    config = seen.runs.config("all-open")
    with server_identity():
        serve(InProcessGrid(client_app, 3, config), config)
    assert results_equal(seen.runs, "few-open", "all-open")


def test_a_roster_that_lies_there_is_as_good_as_one_made_by_the_server(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fedsuite run` hands the server the roster that it made, and fewer nodes than members."""
    monkeypatch.setattr(systems, "MOST_NODES", 3)
    file = seen.runs.root / "given.json"
    config = seen.runs.config("given", roster=str(file))
    write_roster(file, prepared(config))
    run_inprocess(config)
    assert results_equal(seen.runs, "few-open", "given")


def test_resuming_gives_the_same_bytes(seen: Seen) -> None:
    run_inprocess(seen.runs.config("resumed", num_rounds=1))
    folder = seen.runs.folder("resumed")
    run_inprocess(seen.runs.config("resumed", resume=str(folder.path)))
    assert results_equal(seen.runs, "few-open", "resumed")


def results_equal(runs: Runs, *names: str) -> bool:
    """Histories, models and private states; a checkpoint names its configuration, which is the same."""
    first, second = (results_of(runs.folder(name)) for name in names)
    assert len(first) > 5
    return first == second


def test_a_run_that_was_lost_in_a_round_drops_newer_private_states(seen: Seen) -> None:
    """As after a crash: states of round 3 are there, the newest checkpoint is of round 2."""
    run_inprocess(seen.runs.config("lost"))
    folder = seen.runs.folder("lost")
    newest = max(folder.checkpoints.glob("round-*"))
    assert newest.name.startswith(f"round-{ROUNDS:06d}")
    newest.unlink()
    run_inprocess(seen.runs.config("lost", resume=str(folder.path)))
    assert results_equal(seen.runs, "few-open", "lost")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"stage": "speaker"},
        {"method": "centralised"},
        {"submission": True, "evaluation_clients": 0},
    ],
)
def test_the_roster_knows_what_houses_say(seen: Seen, changes: Mapping[str, Any]) -> None:
    config = seen.runs.config("said", **changes)
    found = answers(config, prepared(config))
    system, settings = settings_of(config)
    assert found == list(clients_of(settings, prepared(config)))  # type: ignore[arg-type]
    assert system.known is not None


def answers(config: dict[str, Any], roster: Roster) -> list[ClientInfo]:
    """What every client says of itself when it is asked, its data open."""
    from fedsuite.roster.members import ROSTER
    from fedsuite.runs.folder import folder_of

    system, settings = settings_of(config)
    folder_of(settings).path.mkdir(parents=True, exist_ok=True)
    write_roster(folder_of(settings).path / ROSTER, roster)
    found = []
    for partition in range(len(roster)):
        node = node_of(system, settings, {"partition-id": partition})
        client: Any = system.make_client(settings, node)
        found.append(read_identity(client.get_properties({})))
    return found


def test_silos_are_known_and_sampled_too(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"system": "tests.golden.runs:CDL", "evaluation_clients": 2}
    config = cdl_runs.config_of(tmp_path, tmp_path / "runs", "some", **keys)
    system, settings = settings_of(config)
    roster = system.prepare(settings, silent)
    assert system.known is not None
    assert answers(config, roster) == list(system.known(settings, roster))
    run_inprocess(config)
    rows = read_rows(tmp_path / "runs" / "some" / "history.jsonl")
    for number in range(4):
        drawn = slow_sample(list("0123"), 2, 0, number, 0)
        assert list(map(str, asked_in(rows, number, "evaluate"))) == drawn
        assert asked_in(rows, number, "train") == ([0, 1, 2, 3] if number else [])
    run_inprocess({**config, "name": "few-open", "open-clients": 1})
    few, some = (cdl_runs.digests(tmp_path / "runs", name) for name in ("few-open", "some"))
    assert few == some
    write_results(cdl_runs.settings_from(config), tmp_path / "runs" / "some")
    text = (tmp_path / "runs" / "some" / "results.md").read_text()
    assert "every evaluation asked 2 of 4 clients" in text


def test_reports_say_that_scores_are_of_samples(seen: Seen) -> None:
    frames = load_runs(seen.runs.folder("few-open").path)
    told = sampled_text(frames, chosen=True)
    assert told.startswith("Scores are over samples: every evaluation asked 4 of 13 clients")
    assert "best round was chosen over such samples" in told
    assert "best round" not in sampled_text(frames)


def test_a_run_that_asks_all_says_nothing_of_samples(tmp_path: Path) -> None:
    assert sampled_text(load_runs(run_toy(tmp_path, num_rounds=1).path)) == ""


REFUSED = {
    "fedrl": ({"system": "fedrl"}, "parties are scored together"),
    "submission": ({"system": "fedvln", "submission": True}, "a submission is of all houses"),
    "pre-explore": ({"system": "fedvln", "stage": "pre-explore"}, "a model of its own"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_where_a_sample_has_no_meaning_it_is_refused(case: str) -> None:
    keys, words = REFUSED[case]
    system, settings = settings_of(config_from({**keys, "evaluation-clients": 2}))
    with pytest.raises(InputError, match=f"^evaluation-clients: .*{words}"):
        system.validate(settings)


def test_data_that_changed_since_they_were_prepared_end_the_run(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clients.house_base import HouseClientBase

    asked = HouseClientBase.get_properties

    def other(self: HouseClientBase, config: dict[str, Any]) -> dict[str, Any]:
        return {**asked(self, config), "num-examples": 77}

    monkeypatch.setattr(HouseClientBase, "get_properties", other)
    with pytest.raises(
        RunFailed, match=r"says that it is .* with 77 examples, .*the server knows it as"
    ):
        run_inprocess(seen.runs.config("changed"))


def test_a_real_node_plays_nobody_else(seen: Seen, tmp_path: Path) -> None:
    file = write_node(tmp_path, "site-0", seen.runs.folder("few-open").path / "roster.json")
    grid = InProcessGrid(client_app, 1, seen.runs.config("few-open"))
    (context,) = grid.contexts.values()
    context.node_config.clear()
    context.node_config["node"] = str(file)
    with server_identity():
        asked = RecordDict({"config": ConfigRecord({"as-partition": 1})})
        message = Message(asked, context.node_id, "query", group_id="0")
        (reply,) = grid.send_and_receive([message])
    assert reply.has_error() and "it says itself who it is" in str(reply.error.reason)
