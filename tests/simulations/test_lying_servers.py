"""A node's own file against a server that lies: for every key of the file, in every field that could get round it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.arrays import Arrays
from fedsuite.federation import Task
from fedsuite.fedrl.learning.party import Party
from fedsuite.roster.members import write_roster
from fedsuite.roster.node import NodeSettings
from fedsuite.roster.software import FACTS
from fedsuite.settings.config import limits_of
from simulations.engines.inprocess import server_identity
from strategies.runtime.messages import RawReply, TaskMessages, identity_message, read_reply
from strategies.runtime.packing import arrays_of
from tests import cdl_runs, fedrl_runs, fedvln_runs
from tests.fedrl_runs import config_of
from tests.harness import prepared
from tests.nodes import SECRET, deploy, grid_of, write_node

KEY = {"run-key": "0" * 32}
SIGMA = 1.0
NOISY: dict[str, Any] = {
    "test-noise": "noisy", "q-clip": 50.0, "noise-sigma": SIGMA, "parallel-episodes": 8, "num-rounds": 3,
}  # fmt: skip
CAREFUL: dict[str, Any] = {
    "least_noise_sigma": SIGMA, "largest_q_clip": 50.0, "noise_seed": SECRET,
    "allow_systems": ["tests.fedrl_runs:SYSTEM"],
}  # fmt: skip
ONE_PARTY = ("dqn-alpha", "dqn-beta", "dqn-full", "fcn-alpha", "fcn-full", "random", "oracle")


class Liar:
    """A server that may say anything to one node, beta, and what it gets for it."""

    def __init__(self, tmp_path: Path, cache: Path, **changes: Any) -> None:
        self.honest = config_of(cache, tmp_path / "runs", "run", **NOISY)
        write_roster(tmp_path / "roster.json", prepared(self.honest))
        self.file = write_node(
            tmp_path / "beta",
            "beta",
            tmp_path / "roster.json",
            **CAREFUL,
            data={"cache_dir": str(cache)},
        )
        self.run(**changes)

    def run(self, run_id: int = 1, **changes: Any) -> None:
        """Begin, or go on with, one of Flower's runs, whose run-config says what `changes` do."""
        own = {key: value for key, value in changes.items() if key in self.honest}
        short = {key: value for key, value in changes.items() if key not in own}
        paths = {
            k: v
            for k, v in self.honest.items()
            if k.endswith("cache-dir") or k in ("results-dir", "name")
        }
        made = config_of(Path("c"), Path("r"), **{**NOISY, **short})
        self.grid = grid_of({**made, **paths, **own}, [self.file], run_id)

    def query(self, round: int = 0, facts: Mapping[str, str] = KEY) -> RawReply:
        with server_identity():
            return self._sent(identity_message(self._node, round, 10.0, facts))

    def ask(
        self, phase: str, message: int = 0, arrays: Arrays | None = None, **fields: Any
    ) -> RawReply:
        told: dict[str, Any] = {"phase": phase, "round": 1, "after-round": 0, "message": message}
        told |= {"checkpoint-rounds": "0", **{k.replace("_", "-"): v for k, v in fields.items()}}
        with server_identity():
            task = Task(1, "train", arrays or {}, {})
            return self._sent(TaskMessages(10.0).message(task, self._node, told))

    def look(self, message: int = 0, **fields: Any) -> RawReply:
        plan = {"split": "valid", "noisy": True, "best": False, "number": 4, "tick": 0}
        return self.ask("look", message, **{**plan, **fields})

    @property
    def _node(self) -> int:
        return next(iter(self.grid.contexts))

    def _sent(self, message: Any) -> RawReply:
        (reply,) = self.grid.send_and_receive([message])
        if reply.has_error():
            return read_reply(reply)
        content = reply.content  # whatever came, asked for or not
        arrays = arrays_of(content["arrays"]) if "arrays" in content else {}
        said = {k: dict(content[k]) for k in ("metrics", "properties") if k in content}
        return RawReply(arrays, **said)


def refused(raw: RawReply, *words: str) -> None:
    """Nothing came back but one line."""
    assert not raw.arrays and not raw.metrics and raw.error
    assert all(word in raw.error for word in words), raw.error
    assert "Traceback" not in raw.detail and "\n" not in raw.detail


@pytest.fixture
def liar(tmp_path: Path, cache: Path) -> Liar:
    made = Liar(tmp_path, cache)
    assert made.query().properties["name"] == "beta"
    return made


@pytest.fixture
def raw_q(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Every Q-vector block before noise."""
    found: list[np.ndarray] = []
    own: Callable[..., np.ndarray] = Party._q

    def spied(self: Party, network: Any, records: np.ndarray) -> np.ndarray:
        found.append(own(self, network, records))
        return found[-1]

    monkeypatch.setattr(Party, "_q", spied)
    return found


def noise_on(answer: np.ndarray, raw: np.ndarray) -> np.ndarray:
    difference: np.ndarray = (answer - raw).ravel()
    return difference


# --- how much noise -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ONE_PARTY)
def test_a_method_of_one_party_gets_no_q_values(tmp_path: Path, cache: Path, method: str) -> None:
    liar = Liar(tmp_path, cache, method=method)
    told = liar.query()
    refused(told, "federation.method")
    refused(liar.ask("propose", exchange=0))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"noise-sigma": 0.5}, "least-noise-sigma"),
        ({"behaviour-noise": False}, "privacy.behaviour-noise"),
        ({"test-noise": "both"}, "privacy.test-noise"),
        ({"test-noise": "none"}, "privacy.test-noise"),
        ({"noise-probability": 0.5}, "published.noise-probability"),
        ({"follow": "published-code", "mlp-start": "published"}, "published.noise-probability"),
        ({"q-clip": 0.0}, "largest-q-clip"),
        ({"q-clip": 51.0}, "largest-q-clip"),
    ],
)
def test_a_run_with_less_noise_is_refused_also_when_it_has_begun(
    liar: Liar, changes: dict[str, Any], word: str
) -> None:
    assert not liar.ask("propose", exchange=0).error
    liar.run(**changes)  # the same run of Flower's, with another run-config
    refused(liar.query(), word)
    refused(liar.ask("propose", exchange=0), word)


def test_what_leaves_has_the_noise_of_the_file(liar: Liar, raw_q: list[np.ndarray]) -> None:
    noises = [noise_on(liar.ask("propose", exchange=0).arrays["proposal"], raw_q[0])]
    looked = liar.look(1).arrays["q"]
    noises.append(noise_on(looked, raw_q[-1]))
    together = np.concatenate(noises)
    assert len(together) >= 100 and 0.8 < together.std() < 1.25 and abs(together.mean()) < 0.35


@pytest.mark.parametrize(
    "fields",
    [
        {"noisy": False}, {"noisy": 0}, {"noisy": 1}, {"number": 5}, {"number": 10**6}, {"number": -4}, {"number": 8},
        {"best": True}, {"tick": 1}, {"tick": 10**6}, {"tick": -1}, {"split": "test"}, {"split": "train"},
        {"split": "test", "noisy": False, "number": 13}, {"noise": 0.0}, {"round": 2}, {"round": 10**18}, {"round": -1},
        {"after_round": 1}, {"after_round": -1}, {"message": 1},
    ],
)  # fmt: skip
def test_a_look_is_answered_as_the_run_has_it_or_not_at_all(
    liar: Liar, fields: dict[str, Any]
) -> None:
    refused(liar.look(**fields))
    assert liar.look().arrays["q"].any()


@pytest.mark.parametrize("exchange", [1, 2, 100, -1, 10**18, 0.0, True, "0"])
def test_a_state_is_not_answered_under_another_number(liar: Liar, exchange: Any) -> None:
    refused(liar.ask("propose", exchange=exchange), "exchange")


def test_asking_again_tells_nothing_new(liar: Liar, raw_q: list[np.ndarray]) -> None:
    """As after a lost answer, in another process, in a run that is resumed: 50 answers are one."""
    answers = [liar.ask("propose", exchange=0).arrays["proposal"]]
    for _ in range(10):
        answers.append(liar.ask("propose", exchange=0).arrays["proposal"])
        liar.query()
        answers.append(liar.ask("propose", exchange=0).arrays["proposal"])
    liar.run(run_id=2)  # Flower's number of a resumed run
    liar.query()
    answers.append(liar.ask("propose", exchange=0).arrays["proposal"])
    assert all(np.array_equal(answers[0], a) for a in answers)
    assert np.abs(np.mean(answers, axis=0) - raw_q[0]).mean() > 0.3


def test_another_state_in_the_place_of_an_answered_one_is_not_answered(liar: Liar) -> None:
    """After a false resume the server tells of other actions: the same noise on another state would tell the difference."""
    envs = NOISY["parallel-episodes"]

    def answer(action: int, message: int) -> RawReply:
        moved = {"actions": np.full(envs, action), "episodes": np.full(envs, -1)}
        return liar.ask("answer", message, moved | {"ids": np.zeros((0, 8), np.int64)}, exchange=0)

    assert not liar.ask("propose", exchange=0).error and not answer(0, 1).error
    first = liar.ask("propose", 2, exchange=1)
    assert not first.error
    liar.query()
    assert not liar.ask("propose", exchange=0).error and not answer(5, 1).error
    refused(liar.ask("propose", 2, exchange=1), "now 1 was answered before")


def test_two_runs_share_no_noise(liar: Liar, raw_q: list[np.ndarray]) -> None:
    """(4 Q1 - Q4) / 3 would be the un-noised vector."""
    quiet = liar.ask("propose", exchange=0).arrays["proposal"]
    liar.run(run_id=2, **{"noise-sigma": 4.0})
    liar.query(facts={"run-key": "1" * 32})
    loud = liar.ask("propose", exchange=0).arrays["proposal"]
    assert np.array_equal(raw_q[0], raw_q[-1])
    assert np.abs((4 * quiet - loud) / 3 - raw_q[0]).mean() > 0.5


# --- what is on disk ------------------------------------------------------------------------------


def states(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.safetensors"))
    }


def test_no_round_of_a_message_wipes_a_partys_state(tmp_path: Path, cache: Path) -> None:
    liar = Liar(tmp_path, cache)
    other = write_node(
        tmp_path / "alpha",
        "alpha",
        tmp_path / "roster.json",
        **CAREFUL,
        data={"cache_dir": str(cache)},
    )
    config = {**liar.grid.contexts[liar._node].run_config, "roster": str(tmp_path / "roster.json")}
    done = deploy(config, [other, liar.file], run_id=1)
    key = (done.path / "run-key").read_text()
    before = states(tmp_path / "beta" / "state" / key)
    assert len(before) >= 2
    liar.run()
    for number in (-1, -(10**18), 4, 10**18):
        refused(liar.query(number, {"run-key": key}), "resume-round")
    for number in (-1, 10**18, 4):
        refused(liar.ask("close", round=number, after_round=number - 1, best=False), "round")
    assert states(tmp_path / "beta" / "state" / key) == before
    assert not liar.query(
        0, {"run-key": key}
    ).error  # a run may begin anew, which its server should not say by mistake
    (aside,) = states(tmp_path / "beta" / "state" / key).items()
    assert (
        aside[0].endswith("aside-round-000003.safetensors") and aside[1] == max(before.items())[1]
    )


@pytest.mark.parametrize("key", ["../else", "/etc", "", "0" * 31, "0" * 33, "0" * 31 + "/"])
def test_the_run_key_leads_nowhere_else(tmp_path: Path, liar: Liar, key: str) -> None:
    refused(liar.query(facts={"run-key": key}), "run-key")
    assert {p.name for p in (tmp_path / "beta" / "state").iterdir()} == {"flower-runs"}
    assert not (tmp_path / "else").exists()


def test_nothing_of_the_run_config_is_a_path_here(tmp_path: Path, liar: Liar) -> None:
    """results-dir, resume, roster and data of the server's; the node's file alone says where things lie."""
    there = str(tmp_path / "servers")
    for key in ("results-dir", "resume", "roster", "fedrl.data.cache-dir"):
        liar.run(run_id=5, **{key: there})
        assert not liar.query().error, key
    for key in ("fedrl.data.dir", "fedrl.data.word-vectors"):
        liar.run(run_id=6, **{key: there})
        refused(liar.query(), key.removeprefix("fedrl."), "this node's file names nothing")
    assert not Path(there).exists()


# --- who, with whom, on what ----------------------------------------------------------------------


def test_a_node_is_nobody_else(liar: Liar) -> None:
    refused(liar.ask("propose", exchange=0, as_partition=0), "it says itself who it is")
    refused(liar.ask("act", exchange=0), "phase = 'act', expected 'propose' or")
    for key in ("party", "noise-seed", "data-dir", "partition-id"):
        liar.run()
        liar.grid.contexts[liar._node].node_config[key] = 0
        refused(liar.query(), f"node-config {key}: stands beside node")


def test_another_roster_is_told_of_and_nothing_else(liar: Liar) -> None:
    raw = liar.query(facts={**KEY, "roster": "0" * 64, "version": "0.1.0"})
    assert set(raw.properties) == {"name", *FACTS}


def test_systems_and_modules_that_the_file_does_not_allow(liar: Liar) -> None:
    for system in ("fedrl", "cdl", "fedvln", "tests.toy:SYSTEM", "os:system"):
        liar.run(system=system)
        refused(liar.query(), "system")


def test_device_and_threads_are_the_nodes(liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    text = liar.file.read_text(encoding="utf-8")
    liar.file.write_text('device = "cpu"\nthreads = 1\n' + text, encoding="utf-8")
    seen: list[tuple[str, int]] = []
    own = Party.propose

    def spied(self: Party, exchange: int) -> np.ndarray:
        seen.append((self.device, torch.get_num_threads()))
        return own(self, exchange)

    monkeypatch.setattr(Party, "propose", spied)
    liar.run(**{"device": "cuda", "client-threads": 7})
    assert not liar.query().error and not liar.ask("propose", exchange=0).error
    assert seen == [("cpu", 1)]


def test_the_superlink_is_no_key_of_a_run() -> None:
    """`fedsuite deploy node` alone reads it, before it meets any server."""
    systems: list[dict[str, Any]] = [cdl_runs.TINY, fedrl_runs.TINY, fedvln_runs.TINY]
    assert not [key for tiny in systems for key in tiny if "superlink" in key]
    assert "superlink" not in json.dumps(config_of(Path("c"), Path("r")))


LIED_TO: dict[str, Callable[..., None]] = {
    "name": test_a_node_is_nobody_else,
    "roster": test_another_roster_is_told_of_and_nothing_else,
    "state-dir": test_the_run_key_leads_nowhere_else,
    "superlink": test_the_superlink_is_no_key_of_a_run,
    "device": test_device_and_threads_are_the_nodes,
    "threads": test_device_and_threads_are_the_nodes,
    "allow-systems": test_systems_and_modules_that_the_file_does_not_allow,
    "least-noise-sigma": test_a_look_is_answered_as_the_run_has_it_or_not_at_all,
    "largest-q-clip": test_a_run_with_less_noise_is_refused_also_when_it_has_begun,
    "noise-seed": test_two_runs_share_no_noise,
    "data.dir": test_nothing_of_the_run_config_is_a_path_here,
    "data.features": test_nothing_of_the_run_config_is_a_path_here,
    "data.cache-dir": test_nothing_of_the_run_config_is_a_path_here,
    "data.word-vectors": test_nothing_of_the_run_config_is_a_path_here,
}
# tests/simulations/test_own_nodes.py: every level, in every stage that has it; sums, and who is who in them;
# test_sealed_runs.py, test_own_minimums.py.
ELSEWHERE = {"most-shared", "secure-sums", "sealed", "own-key"} | {
    "fewest-members",
    "least-noise-multiplier",
    "largest-clip",
}


def test_every_key_of_a_nodes_file_is_lied_to() -> None:
    assert LIED_TO.keys() | ELSEWHERE == limits_of(NodeSettings).keys()
