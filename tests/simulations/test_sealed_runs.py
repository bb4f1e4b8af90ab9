"""Runs whose messages to peers are sealed: the bytes of runs in the clear, and nothing to read or to change on the way."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message
from safetensors.numpy import load_file

import fedsuite.driving.report.run
import simulations.fedrl.system
from clients.vehicle import VehicleClient
from fedsuite.arrays import Arrays
from fedsuite.driving.steering import Pilot
from fedsuite.errors import InputError, RunFailed
from fedsuite.history import load_run
from fedsuite.roster.node import NodeSettings
from simulations.app.members_of_sums import accepts_secrecy
from simulations.cdl.audit import attacks
from simulations.client_app import app as client_app
from simulations.deploy.kit.keys import make_key
from simulations.engines.inprocess import InProcessGrid, run_inprocess, server_identity
from simulations.server_app import serve
from simulations.systems import settings_of
from strategies.runtime.packing import arrays_of, packed_record
from tests import cdl_runs, fedrl_runs
from tests.cdl_runs import model_of, run_in_parts
from tests.harness import Recorder, arrays_in, prepared
from tests.nodes import deploy
from tests.simulations.test_sums_of_systems import nodes_of
from tests.summed_runs import LosingGrid, played

CDL: dict[str, Any] = {"scenario": "ring", "checkpoint_every": 2, "num_rounds": 4}
FEDRL = simulations.fedrl.system.SYSTEM
PLAIN_RL = dataclasses.replace(FEDRL, report=lambda config, folder: None)
RL: dict[str, Any] = {
    "system": "tests.simulations.test_sealed_runs:PLAIN_RL", "parallel_episodes": 4, "round_length": 16,
    "step_limit": 5, "num_rounds": 3, "checkpoint_every": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """CDL's runs end without drawings, which take longer than such a run."""
    monkeypatch.setattr(fedsuite.driving.report.run, "draw_data", lambda config, folder: None)


def cdl(cache: Path, results: Path, name: str, **changes: Any) -> dict[str, Any]:
    return cdl_runs.config_of(cache, results, name, **{**CDL, "sealed": True, **changes})


def rl(cache: Path, results: Path, name: str, **changes: Any) -> dict[str, Any]:
    return fedrl_runs.config_of(cache, results, name, **{**RL, "sealed": True, **changes})


def backbones(results: Path, name: str, number: int = 4) -> list[Arrays]:
    """What every silo keeps of a sealed run after its last round."""
    found = (results / name / "clients").glob(f"*/sealed-mixed/round-{number:06d}.safetensors")
    return [load_file(file) for file in sorted(found)]


def metrics(results: Path, name: str) -> Any:
    """Of all rounds, but what says how large messages are."""
    rounds = load_run(results / name).rounds
    return rounds[[c for c in rounds if c not in ("run", "seconds") and "bytes" not in c]]


# --- the bytes of a run in the clear --------------------------------------------------------------

SCENARIOS: dict[str, dict[str, Any]] = {
    "ring": {},
    "clipped": {"scenario": "mst", "merge": "clipped", "clip_ratio": 0.05},
    "complete": {"scenario": "complete", "batch_norm": "average", "loss": "none"},
    "trimmed": {"scenario": "complete", "merge": "trimmed-mean", "tolerated": 1},
    "matcha": {"scenario": "matcha", "batch_norm": "local", "loss": "none"},
    "lost": {"min_reply_fraction": 0.5, "scenario": "mst"},
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_silos_come_to_the_bytes_that_a_server_would_have_made(
    tmp_path: Path, cache: Path, scenario: str
) -> None:
    lost = {(2, "train"): [1]} if scenario == "lost" else {}
    for name, sealed in (("plain", False), ("sealed", True)):
        config = cdl(cache, tmp_path, name, **{**SCENARIOS[scenario], "sealed": sealed})
        played(LosingGrid(config, lost), config)
    rows = load_file(tmp_path / "plain" / "model.safetensors")
    found = backbones(tmp_path, "sealed")
    assert len(found) == 4 and found[0]
    for i, model in enumerate(found):
        for name, values in model.items():
            assert values[0].tobytes() == rows[f"silos.{name}"][i].tobytes(), (i, name)
    plain, sealed_ones = metrics(tmp_path, "plain"), metrics(tmp_path, "sealed")
    assert {c for c in plain if c not in sealed_ones} >= {"rmse", "consensus-distance"}
    assert "silo-rmse.mean" in sealed_ones and set(sealed_ones) <= set(plain)
    for column in sealed_ones:
        assert plain[column].equals(sealed_ones[column]), column
    if scenario == "clipped":
        assert sealed_ones["links-clipped"].max() > 0
    assert load_file(tmp_path / "sealed" / "model.safetensors") == {}


@pytest.mark.parametrize("parties", [2, 3])
def test_parties_come_to_the_bytes_of_an_open_exchange(
    tmp_path: Path, cache: Path, parties: int
) -> None:
    for name, sealed in (("plain", False), ("sealed", True)):
        run_inprocess(rl(cache, tmp_path, name, sealed=sealed, parties=parties))
    assert model_of(tmp_path, "plain") == model_of(tmp_path, "sealed")
    plain, sealed_ones = metrics(tmp_path, "plain"), metrics(tmp_path, "sealed")
    assert plain.equals(sealed_ones) and "valid.success-rate" in plain
    for role in fedrl_runs.ROLES[:parties]:
        one, other = (fedrl_runs.kept_by(tmp_path, role, 3, name) for name in ("plain", "sealed"))
        fedrl_runs.assert_same(one, other, 0.0)


def test_a_resumed_run_has_the_bytes_of_one_that_nobody_interrupted(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_inprocess(cdl(cache, tmp_path / "whole", "run"))
    run_in_parts(monkeypatch, cdl(cache, tmp_path / "parts", "run"))
    files = [
        p.relative_to(tmp_path / "whole") for p in (tmp_path / "whole").rglob("sealed-mixed/*")
    ]
    assert len(files) >= 8
    for file in (*files, Path("run/history.jsonl"), Path("run/model.safetensors")):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes()


# --- nothing to read ------------------------------------------------------------------------------


def recorded(config: dict[str, Any]) -> list[Message]:
    recorder = Recorder(InProcessGrid(client_app, len(prepared(config)), config))
    with server_identity():
        serve(recorder, config)
    return recorder.sent + recorder.received


def test_no_message_of_silos_holds_a_model(tmp_path: Path, cache: Path) -> None:
    messages = recorded(cdl(cache, tmp_path, "run"))
    arrays = [array for message in messages for array in arrays_in(message).values()]
    assert arrays and {array.dtype for array in arrays} == {np.dtype(np.uint8)}
    wire = b"".join(array.tobytes() for array in arrays)
    for model in backbones(tmp_path, "run"):
        for values in model.values():
            if values.size > 3 and values.dtype.kind == "f":
                assert values.tobytes()[:16] not in wire
    kept = (tmp_path / "run" / "checkpoints").glob("*.safetensors")
    assert all(not values.size for file in kept for values in load_file(file).values())


def test_no_message_of_parties_holds_more_than_the_shared_network(
    tmp_path: Path, cache: Path
) -> None:
    names = set()
    for message in recorded(rl(cache, tmp_path, "run", parties=3)):
        for name, array in arrays_in(message).items():
            if not name.startswith("mlp."):
                names.add(name)
                assert array.dtype == np.uint8
    assert {"q.1", "q-next.2", "q.0", "actions", "episodes", "ids", "targets", "proposal"} <= names


# --- nothing to change ----------------------------------------------------------------------------

Change = Callable[["Relay", int, dict[str, Any], Arrays], Arrays]


class Relay(InProcessGrid):
    """Alters the arrays that it hands on to a client."""

    def __init__(self, config: dict[str, Any], change: Change) -> None:
        super().__init__(client_app, len(prepared(config)), config)
        self.change, self.seen = change, list[tuple[int, dict[str, Any], Arrays]]()

    def _reply(self, message: Message) -> Message:
        options = self.contexts[message.metadata.dst_node_id].node_config
        asked, record = dict(message.content["config"]), message.content.get("arrays")
        if isinstance(record, ArrayRecord):
            partition, arrays = int(str(options["partition-id"])), arrays_of(record)
            self.seen.append((partition, asked, arrays))
            changed = self.change(self, partition, asked, dict(arrays))
            message.content["arrays"] = packed_record(changed)
        return super()._reply(message)


def a_byte_changed(relay: Relay, partition: int, asked: dict[str, Any], arrays: Arrays) -> Arrays:
    if asked.get("stage") == "mix" and (partition, asked["round"]) == (2, 2):
        boxes = arrays["boxes"].copy()
        boxes[0, 500] ^= 1
        return {"boxes": boxes}
    return arrays


def last_rounds_box(relay: Relay, partition: int, asked: dict[str, Any], arrays: Arrays) -> Arrays:
    if asked.get("stage") == "mix" and (partition, asked["round"]) == (2, 2):
        return next(a for p, c, a in relay.seen if p == 2 and c.get("stage") == "mix")
    return arrays


def somebody_elses_box(
    relay: Relay, partition: int, asked: dict[str, Any], arrays: Arrays
) -> Arrays:
    if asked.get("stage") == "mix" and (partition, asked["round"]) == (2, 2):
        return next(
            a for p, c, a in relay.seen if p == 1 and (c.get("stage"), c["round"]) == ("mix", 2)
        )
    return arrays


@pytest.mark.parametrize("change", [a_byte_changed, last_rounds_box, somebody_elses_box])
def test_a_silo_takes_nothing_but_what_its_neighbour_has_sealed(
    tmp_path: Path, cache: Path, change: Change
) -> None:
    config = cdl(cache, tmp_path, "run")
    with pytest.raises(RunFailed, match=r"round 2, federation\.sealed: silo-02 did not mix"):
        play(config, change)
    told = (tmp_path / "run" / "errors.log").read_text()
    assert "sealed messages, member 2 (silo-02)" in told
    assert "sealed for member 2, round 2, backbone of mixing 1" in told


def play(config: dict[str, Any], change: Change) -> None:
    with server_identity():
        serve(Relay(config, change), config)


def another_exchange(relay: Relay, partition: int, asked: dict[str, Any], arrays: Arrays) -> Arrays:
    if asked.get("phase") == "act" and asked["exchange"] == 2:
        before = next(a for _, c, a in relay.seen if c.get("phase") == "act" and c["exchange"] == 1)
        return {**arrays, "q.1": before["q.1"]}
    return arrays


def another_name(relay: Relay, partition: int, asked: dict[str, Any], arrays: Arrays) -> Arrays:
    if asked.get("phase") == "learn-first":
        return {**arrays, "q.1": arrays["q-next.1"]}
    return arrays


def in_the_clear(relay: Relay, partition: int, asked: dict[str, Any], arrays: Arrays) -> Arrays:
    if asked.get("phase") == "act":
        return {**arrays, "q.1": np.zeros((4, 16), np.float32)}
    return arrays


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (another_exchange, "sealed for member 0, round 1, proposal, exchange 2"),
        (another_name, "sealed for member 0, round 1, q of answer, exchange"),
        (in_the_clear, "array q.1 = (4, 16), expected"),
    ],
)
def test_a_party_takes_nothing_but_what_its_partner_has_sealed(
    tmp_path: Path, cache: Path, change: Change, told: str
) -> None:
    with pytest.raises(RunFailed):
        play(rl(cache, tmp_path, "run"), change)
    log = (tmp_path / "run" / "errors.log").read_text()
    assert "sealed messages, member 0 (alpha)" in log and told in log


def test_the_receiver_looks_at_numbers_that_nobody_else_can(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = VehicleClient.fit

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        arrays, count, told = original(self, parameters, config)
        if self.site.partition == 1 and config["round"] == 2:
            arrays[0] = arrays[0] + np.float32(2e6)
        return arrays, count, told

    monkeypatch.setattr(VehicleClient, "fit", fit)
    with pytest.raises(RunFailed, match=r"round 2, federation\.sealed: silo-0. did not mix"):
        run_inprocess(cdl(cache, tmp_path, "run"))
    assert "of member 1 = array" in (tmp_path / "run" / "errors.log").read_text()


# --- who is who -----------------------------------------------------------------------------------


def another_key(relay: Relay, partition: int, asked: dict[str, Any], arrays: Arrays) -> Arrays:
    """The relay takes silo 1's place towards silo 2."""
    if asked.get("stage") == "seal-peers" and partition == 2:
        keys = arrays["keys"].copy()
        keys[1] = keys[0]
        return {"keys": keys}
    return arrays


def test_a_key_that_its_member_has_not_signed(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(RunFailed, match="silo-02 did not take the others' keys;"):
        play(cdl(cache, tmp_path, "run"), another_key)
    assert "of member 1: the signature" in (tmp_path / "run" / "errors.log").read_text()


def deployed(tmp_path: Path, cache: Path, **keys: Any) -> tuple[dict[str, Any], list[Path]]:
    config = rl(cache, tmp_path / "server", "run", roster=str(tmp_path / "server.json"))
    keys = {"allow_systems": [RL["system"]], "noise_seed": -1, **keys}
    return config, nodes_of(tmp_path, prepared(config), **keys)


def test_nodes_that_know_each_other_make_the_bytes_of_a_simulation(
    tmp_path: Path, cache: Path
) -> None:
    run_inprocess(rl(cache, tmp_path / "simulated", "run"))
    config, files = deployed(tmp_path, cache, sealed=True)
    done = deploy(config, files)
    assert done.model.read_bytes() == model_of(tmp_path / "simulated", "run")


def test_a_node_under_another_key_is_nobodys_partner(tmp_path: Path, cache: Path) -> None:
    config, files = deployed(tmp_path, cache)
    (tmp_path / "beta" / "node.key").write_bytes(make_key("somebody")[0])
    with pytest.raises(RunFailed, match="alpha, beta did not take the others' keys;"):
        deploy(config, files)
    assert "keys = member 1 as SHA256:" in (tmp_path / "server" / "run" / "errors.log").read_text()


def test_a_node_that_seals_takes_no_part_in_the_clear(tmp_path: Path, cache: Path) -> None:
    wanted = settings_of(rl(cache, tmp_path, "run", sealed=False))[1]
    with pytest.raises(InputError, match=r"federation\.sealed: false"):
        accepts_secrecy(wanted, NodeSettings(sealed=True))


# --- what does not go with it ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"scenario": "star"}, "star has a server"),
        ({"silos_per_client": 2}, "federation.silos-per-client = 1"),
        ({"silos_per_client": 0, "mixings_per_round": 2}, "federation.silos-per-client = 1"),
        ({"sabotage.clients": "0"}, "sabotage.clients"),
        ({"cross_evaluation": True}, "evaluation.cross-evaluation = false"),
        ({"merge": "tests.cdl_runs:own"}, "federation.merge"),
        ({"optimizer": "gradient-tracking"}, "training.optimizer"),
        (
            {"optimizer": "relay-sgd", "scenario": "mst"},
            "training.optimizer = relay-sgd needs models under way",
        ),
    ],
)
def test_what_does_not_go_with_sealed_models(
    tmp_path: Path, cache: Path, changes: dict[str, Any], key: str
) -> None:
    with pytest.raises(InputError) as refused:
        prepared(cdl(cache, tmp_path, "run", **changes))
    told = str(refused.value)
    assert told.startswith("federation.sealed: ") and key in told and "\n" not in told


def test_a_party_alone_has_nobody_to_seal_for(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(InputError, match=r"federation\.sealed: dqn-full has one party"):
        prepared(rl(cache, tmp_path, "run", method="dqn-full"))


# --- what others do with such a run ---------------------------------------------------------------


def test_a_silo_steers_with_its_own_model_and_nobody_with_an_average(
    tmp_path: Path, cache: Path
) -> None:
    for name, sealed in (("plain", False), ("sealed", True)):
        run_inprocess(cdl(cache, tmp_path, name, sealed=sealed, num_rounds=1))
    plain, own = (Pilot.of_run(tmp_path / name, "silo-01") for name in ("plain", "sealed"))
    frames = plain.test_frames().images
    assert plain.steer_frames(frames).tobytes() == own.steer_frames(frames).tobytes()
    with pytest.raises(InputError, match="there is no average; name a silo: silo-00, silo-01"):
        Pilot.of_run(tmp_path / "sealed")
    with pytest.raises(InputError, match="no message of this run shows a model to a server"):
        attacks(own.config)
