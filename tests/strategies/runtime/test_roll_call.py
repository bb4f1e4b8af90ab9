"""Which node is which member: by name and key, among nodes of other runs; the toy on nodes with files of their own."""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message

import fedsuite
from fedsuite.errors import RunFailed
from fedsuite.history import TIMINGS, line_about, read_rows
from fedsuite.privacy.identity import fingerprint
from fedsuite.roster import software
from fedsuite.roster.members import Roster, read_roster, write_roster
from fedsuite.runs.folder import RunFolder, folder_of
from simulations.client_app import app as client_app
from simulations.engines.inprocess import server_identity
from simulations.server_app import serve
from simulations.systems import to_run_config
from strategies.runtime import post
from tests.harness import run_toy, toy_settings
from tests.nodes import KeyedGrid, key_of, write_node
from tests.strategies.runtime.loops import FakeTime
from tests.toy import SYSTEM

# Made by ssh-keygen, which also printed its fingerprint.
KEY = b"""-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAESMXh5FRkdrP7aJUJCUDeZZrTm+HlMGQq
QaVIYfHrWb4E13qaOlid4heix316nj8kNcjxXsbVc7rJJFbbB6k9tux/hS7fmDXm
EN0+iMp7DE8WvIo6u9t3+qjvpe6lO6cG
-----END PUBLIC KEY-----
"""


def test_fingerprints_are_those_of_ssh_keygen() -> None:
    assert fingerprint(KEY) == "SHA256:ISgOI+HAxw/ygA0CxhFzSd/WESH/imXp2gBrBrGJsIA"
    assert fingerprint(b"") == fingerprint(b"what a simulation has") == ""


@dataclass
class Field:
    """A server without data, and nodes that a test puts beside it; `bound`: names stand with keys in its roster."""

    folder: Path
    bound: bool
    clock: FakeTime
    nodes: dict[int, tuple[dict[str, Any], bytes, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        roster = SYSTEM.prepare(toy_settings(self.folder), lambda _: None)
        self.write("roster", roster)
        keyed = [dataclasses.replace(m, key=fingerprint(key_of(m.name))) for m in roster.members]
        self.write(
            "server", dataclasses.replace(roster, members=tuple(keyed)) if self.bound else roster
        )

    def write(self, name: str, roster: Roster) -> Path:
        write_roster(file := self.folder / f"{name}.json", roster)
        return file

    def add(
        self, node: int, name: str, key: str = "", roster: str = "roster", since: float = 0.0
    ) -> None:
        """A node with the key of `key`, else of its name; since: when it connects."""
        home = self.folder / f"node-{node}"
        own = {"allow_systems": ["tests.toy:SYSTEM"]}
        file = write_node(home, name, self.folder / f"{roster}.json", **own)
        self.nodes[node] = ({"node": str(file)}, key_of(key or name), since)

    def run(self, answer: Callable[[Message, Context], Message] = client_app) -> RunFolder:
        own = {"roster": str(self.folder / "server.json"), "node_deadline_s": 60.0}
        settings = toy_settings(self.folder / "runs", num_rounds=2, **own)
        config = to_run_config(settings)
        with server_identity():
            serve(KeyedGrid(answer, config, self.nodes, self.clock.monotonic), config)
        return folder_of(settings)

    def line(self, *found: str) -> str:
        """What the run fails with, which holds these texts."""
        with pytest.raises(RunFailed) as caught:
            self.run()
        line = str(caught.value)
        assert "\n" not in line
        for text in found:
            assert text in line, line
        return line


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(post, "time", clock)
    return clock


@pytest.fixture(params=[False, True], ids=["names", "keys"])
def ground(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeTime) -> Field:
    """With and without keys in the roster, two of three nodes."""
    ground = Field(tmp_path, request.param, clock)
    for node in (70, 30):
        ground.add(node, f"site-{node // 30 - 1}")
    return ground


@pytest.fixture
def keyed(tmp_path: Path, clock: FakeTime) -> Field:
    """The same with keys."""
    ground = Field(tmp_path, True, clock)
    for node in (70, 30):
        ground.add(node, f"site-{node // 30 - 1}")
    return ground


def told(folder: RunFolder) -> str:
    """errors.log; empty without one."""
    return folder.errors.read_text() if folder.errors.exists() else ""


def test_nodes_make_what_a_simulation_makes(ground: Field, tmp_path: Path) -> None:
    ground.add(50, "site-2")
    done = ground.run()
    simulated = run_toy(tmp_path / "simulated", num_rounds=2)
    assert done.model.read_bytes() == simulated.model.read_bytes()
    assert told(done) == "" and ground.clock.slept == []


def test_a_node_that_comes_late_is_waited_for(ground: Field) -> None:
    ground.add(50, "site-2", since=1020.0)
    ground.run()
    assert 20 <= sum(ground.clock.slept) <= 20 + post.LONGEST_WAIT_S


def test_a_member_without_a_node_is_named_at_the_deadline(ground: Field) -> None:
    ground.line("no node for site-2 (1 of 3 members)", "within node-deadline-s = 60")
    assert 60 <= sum(ground.clock.slept) <= 60 + post.LONGEST_WAIT_S


def test_nodes_of_another_run_are_left_to_it(ground: Field) -> None:
    """One SuperLink serves several runs: those nodes have another roster, or none."""
    other = SYSTEM.prepare(toy_settings(ground.folder), lambda _: None)
    members = tuple(dataclasses.replace(m, name=f"far-{m.name}") for m in other.members)
    ground.write("other", Roster(members))
    ground.add(10, "far-site-0", roster="other")
    ground.nodes[20] = ({"name": "site-2", "roster": "gone.json"}, key_of("without a file"), 0.0)
    ground.add(50, "site-2", since=1010.0)
    notes = told(ground.run())
    assert "node 10 calls itself 'far-site-0', which is not on the roster; it is left to" in notes
    assert "node 20 could not say who it is: InputError" in notes
    state = ground.folder / "node-10" / "state"
    assert state.is_dir() and not list(state.iterdir())


def test_two_nodes_of_one_name(ground: Field) -> None:
    """Without keys nobody can tell which is right; with keys there is no doubt."""
    ground.add(50, "site-1", key="a stranger")
    ground.add(60, "site-2")
    if ground.bound:
        notes = told(ground.run())
        stranger = fingerprint(key_of("a stranger"))
        assert "node 50 calls itself 'site-1', but the roster binds that name to key" in notes
        assert f"and the node's is {stranger}" in notes
    else:
        ground.line("nodes 50 and 70 both call themselves site-1, partition 1; give each its own")


def test_swapped_keys_are_found_out_at_once(keyed: Field) -> None:
    keyed.add(50, "site-2", key="site-1")
    keyed.add(70, "site-1", key="site-2")
    line = keyed.line("no node for site-1, site-2 (2 of 3 members)")
    for node, name, wrong in ((50, "site-2", "site-1"), (70, "site-1", "site-2")):
        right, its = fingerprint(key_of(name)), fingerprint(key_of(wrong))
        assert (
            f"node {node} calls itself '{name}', but the roster binds that name to key {right}, "
            in line
        )
        assert f"and the node's is {its}" in line
    assert keyed.clock.slept == []


def test_a_key_that_is_bound_speaks_for_nobody_else(keyed: Field) -> None:
    roster = read_roster(keyed.folder / "server.json")
    free = dataclasses.replace(roster.members[2], key="")
    keyed.write("server", dataclasses.replace(roster, members=(*roster.members[:2], free)))
    keyed.add(70, "site-1")
    keyed.add(50, "site-2", key="site-1")
    keyed.line("node 50 calls itself 'site-2', but the roster binds its key", "to site-1")


def test_bound_names_need_keys_that_flower_tells(keyed: Field) -> None:
    keyed.add(50, "site-2")
    keyed.nodes[50] = (keyed.nodes[50][0], b"", 0.0)
    keyed.line(
        "the node's is one that Flower does not tell (start the SuperLink with --enable-supe"
    )


def test_a_node_that_cannot_take_part_says_why(ground: Field) -> None:
    ground.add(50, "site-2")
    file = Path(ground.nodes[50][0]["node"])
    file.write_text(
        file.read_text(encoding="utf-8").replace("tests.toy:SYSTEM", "cdl"), encoding="utf-8"
    )
    whose = " (site-2's by its key)" if ground.bound else ""
    ground.line(
        f"node 50{whose} could not say who it is: InputError: node site-2: system: the run wants "
        '"tests.toy:SYSTEM", this node allows cdl (allow-systems)'
    )
    assert bool(ground.clock.slept) != ground.bound  # without its key it might be another run's


@pytest.mark.parametrize("changes", [{"words": ("<PAD>",)}, {"facts": {"width": 5}}])
def test_a_node_with_another_roster_is_refused(ground: Field, changes: dict[str, Any]) -> None:
    """Of the same names, but with other words or sizes: it opens and changes nothing."""
    roster = read_roster(ground.folder / "roster.json")
    ground.write("stale", dataclasses.replace(roster, **changes))
    ground.add(50, "site-2", roster="stale")
    ground.line(
        "node 50 calls itself 'site-2', but its roster is not the server's (digest ",
        "members, facts or words differ; give it this run's roster.json",
    )
    assert not list((ground.folder / "node-50" / "state").iterdir())
    assert ground.clock.slept == []


def test_a_node_with_another_version_is_refused(
    ground: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.add(50, "site-2")
    here = fedsuite.__version__

    def answer(message: Message, context: Context) -> Message:
        with monkeypatch.context() as patch:
            if context.node_id == 50:
                patch.setattr(fedsuite, "__version__", "0.0.9")
            return client_app(message, context)

    found = f"node 50 calls itself 'site-2', and has fedsuite 0.0.9, the server {here}; give both"
    with pytest.raises(RunFailed, match=found):
        ground.run(answer)


def at_node_50(monkeypatch: pytest.MonkeyPatch, **versions: str) -> Callable[..., Message]:
    """Client apps, of which node 50's has other versions installed."""

    def answer(message: Message, context: Context) -> Message:
        with monkeypatch.context() as patch:
            software.of_here.cache_clear()
            if context.node_id == 50:
                patch.setattr(software, "version_of", lambda name: versions.get(name) or real(name))
            return client_app(message, context)

    real = software.version_of
    return answer


def minor(step: int) -> str:
    """A release of Flower, whose minor version is so many steps from the one here."""
    major, second, *_ = software.version_of("flwr").split(".")
    return f"{major}.{int(second) + step}.7"


@pytest.mark.parametrize("step", [-1, 1])
def test_a_node_with_another_minor_version_of_flower_is_refused(
    ground: Field, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    ground.add(50, "site-2")
    own = software.minor_of(software.version_of("flwr"))
    found = (
        f"node 50 calls itself 'site-2', and has Flower {minor(step)}, expected {own}, which the server has; install "
        f"flwr {own} there"
    )
    with pytest.raises(RunFailed, match=re.escape(found)):
        ground.run(at_node_50(monkeypatch, flwr=minor(step)))


def test_what_nodes_run_on_is_kept_and_differences_are_told_once(
    ground: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another patch of Flower and another numpy keep nobody out, and change no byte."""
    ground.add(50, "site-2")
    other = {"flwr": minor(0), "numpy": "9.9.9"}
    done = ground.run(at_node_50(monkeypatch, **other))
    nodes = done.status()["nodes"]
    assert set(nodes) == {"site-0", "site-1", "site-2"}
    assert nodes["site-2"].items() >= {**other, "fedsuite": fedsuite.__version__}.items()
    assert nodes["site-0"] == {
        **software.of_here(), "fedsuite": fedsuite.__version__, "flwr": software.version_of("flwr")
    }  # fmt: skip
    lines = [line for row in read_rows(done.path / TIMINGS) if (line := line_about(row))]
    assert len(lines) == 1 and lines[0].startswith(
        "nodes differ, so that last digits may, and random draws of torch: flwr "
    )
    assert ", 9.9.9 (site-2)" in lines[0] and "cpu" not in lines[0]
    simulated = run_toy(ground.folder / "simulated", num_rounds=2)
    assert done.model.read_bytes() == simulated.model.read_bytes()


def test_nodes_that_are_alike_are_not_told_of(ground: Field) -> None:
    ground.add(50, "site-2")
    software.of_here.cache_clear()
    assert not any(map(line_about, read_rows(ground.run().path / TIMINGS)))
