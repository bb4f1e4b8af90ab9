"""A star whose server steps by an optimizer or keeps control variates, against programs in NumPy alone, in float64.

The network is linear in the means of a frame's four quarters, and a batch is all that a silo has, so that a gradient does
not depend on the order of frames.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.common.serde import message_to_proto
from safetensors.numpy import load_file

from clients.vehicle import VehicleClient
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.sources import open_silos, silos_folder
from fedsuite.driving.model.networks import Output
from fedsuite.driving.training.learner import Learner
from fedsuite.errors import InputError
from fedsuite.runs.versions import Versions
from fedsuite.settings.config import limits_of
from simulations.check_system import check_system
from simulations.engines.inprocess import run_inprocess
from tests.cdl_runs import config_of, digests, model_of, round_rows, run_in_parts, settings_from
from tests.golden.runs import RUNS
from tests.harness import arrays_in, full_keys, recorded
from tests.simulations.cdl.test_bad_input import check_refusal

SILOS, ROUNDS, LOST = 4, 5, 1
RATE, UPDATES = 0.2, 8
LINEAR: dict[str, Any] = {
    "scenario": "star", "model": f"{__name__}:Quarters", "loss": "none", "optimizer": "sgd", "batch_size": 12,
    "learning_rate": RATE, "weight_decay": 0.0, "local_updates": UPDATES, "num_rounds": ROUNDS,
    "min_reply_fraction": 0.5,
}  # fmt: skip
Model = dict[str, np.ndarray]
Move = Callable[[np.ndarray, np.ndarray, dict[str, Any]], np.ndarray]


class Quarters(torch.nn.Module):
    """angle = w . means of quarters + b."""

    def __init__(self, image_size: int, channels: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 1)

    def forward(self, images: torch.Tensor) -> Output:
        features = torch.nn.functional.avg_pool2d(images / 255, images.shape[-1] // 2).flatten(1)
        return Output(self.head(features).squeeze(1), features)


def samples(config: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Features [n, 5], the last one 1, and angles [n] of every silo, float64."""
    found = []
    for silo in open_silos(silos_folder(settings_from(config).data, SILOS), False):
        images = np.asarray(silo.train.images, np.float64)
        half = images.shape[-1] // 2
        parts = [
            images[..., a : a + half, b : b + half].mean((-1, -2)) / 255
            for a in (0, half)
            for b in (0, half)
        ]
        features = np.concatenate([np.reshape(p, (len(images), 1)) for p in parts], axis=1)
        x = np.hstack([features, np.ones((len(images), 1))])
        found.append((x, np.asarray(silo.train.angles, np.float64)))
    return found


def program(
    data: Sequence[tuple[np.ndarray, np.ndarray]], start: np.ndarray, move: Move, scaffold: bool, lost: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The server's model and all silos' ones after the run; silo LOST answers in no round of `lost`."""
    n, server, own = len(data), start.copy(), np.tile(start, (len(data), 1))
    c, c_k, memory = np.zeros_like(start), np.zeros((len(data), len(start))), dict[str, Any]()
    for number in range(1, ROUNDS + 1):
        here = [k for k in range(n) if not (k == LOST and number in lost)]
        ends, changes = [], []
        for k in here:
            x, y = data[k]
            w, seen = own[k].copy(), []
            for _ in range(UPDATES):
                seen.append(2 * x.T @ (x @ w - y) / len(y))
                w -= RATE * (seen[-1] + (c - c_k[k] if scaffold else 0))
            ends.append(w)
            changes.append(np.mean(seen, axis=0) - c_k[k])
        for k, by in zip(here, changes, strict=True):
            c_k[k] += by
        c = c + sum(changes) / n
        server = move(server, np.mean(ends, axis=0) - server, memory)
        own[here] = server
    return server, own


def to_mean(w: np.ndarray, delta: np.ndarray, memory: dict[str, Any]) -> np.ndarray:
    return w + delta


def fed_adam(w: np.ndarray, delta: np.ndarray, memory: dict[str, Any]) -> np.ndarray:
    """beta 0.9 and 0.99, tau 0.001, eta 0.02, without bias correction."""
    m = memory["m"] = 0.9 * memory.get("m", 0) + 0.1 * delta
    v = memory["v"] = 0.99 * memory.get("v", 0.001**2) + 0.01 * delta**2
    return np.asarray(w + 0.02 * m / (np.sqrt(v) + 0.001))


def fed_avg_m(w: np.ndarray, delta: np.ndarray, memory: dict[str, Any]) -> np.ndarray:
    m = memory["m"] = 0.5 * memory.get("m", 0) + delta
    return np.asarray(w + 0.7 * m)


def half(w: Model, delta: Model, state: Model, step: Any) -> tuple[Model, Model]:
    """One's own: half of the way, and how often it was gone."""
    step.metrics["gone"] = float(state.get("gone", 0)) + 1
    return {k: w[k] + 0.5 * d for k, d in delta.items()}, {
        "gone": state.get("gone", np.zeros(())) + 1
    }


SCAFFOLD = {"control_variates": True}
ADAM = {"server_optimizer": "adam", "server_learning_rate": 0.02}
MOMENTUM = {
    "server_optimizer": "momentum", "server_learning_rate": 0.7, "server_momentum": 0.5,
}  # fmt: skip
OWN = {"server_optimizer": f"{__name__}:half"}
METHODS: dict[str, tuple[dict[str, Any], Move]] = {
    "average": ({}, to_mean),
    "adam": (ADAM, fed_adam),
    "momentum": (MOMENTUM, fed_avg_m),
    "own": (OWN, lambda w, delta, _: w + 0.5 * delta),
    "scaffold": (SCAFFOLD, to_mean),
    "scaffold and adam": (SCAFFOLD | ADAM, fed_adam),
}


def lose(monkeypatch: pytest.MonkeyPatch, rounds: Sequence[int]) -> None:
    """The silo trains and saves, and its answer comes to nothing."""
    original = VehicleClient.fit

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        arrays, examples, metrics = original(self, parameters, config)
        if config["round"] in rounds and self.site.partition == LOST:
            arrays[0] = arrays[0][:, 1:]
        return arrays, examples, metrics

    monkeypatch.setattr(VehicleClient, "fit", fit)


def vector(model: Model, prefix: str = "") -> np.ndarray:
    parts = [
        model[f"{prefix}head.{k}"].reshape(SILOS if prefix else 1, -1) for k in ("weight", "bias")
    ]
    return np.concatenate(parts, axis=1).astype(np.float64)


@pytest.mark.parametrize("lost", [(), (2,), (2, 3)])
@pytest.mark.parametrize("name", METHODS)
def test_it_is_what_a_program_of_its_own_says(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, name: str, lost: Sequence[int]
) -> None:  # fmt: skip
    changes, move = METHODS[name]
    config = config_of(cache, tmp_path, "run", **LINEAR, **changes)
    lose(monkeypatch, lost)
    first = recorded(config).sent
    trained = next(m for m in first if m.metadata.message_type == "train")
    start = np.concatenate([arrays_in(trained)[f"head.{k}"].ravel() for k in ("weight", "bias")])
    server, own = program(samples(config), start.astype(float), move, "scaffold" in name, lost)
    model = load_file(tmp_path / "run" / "model.safetensors")
    np.testing.assert_allclose(vector(model, "silos."), own, rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(vector(model)[0], server, rtol=1e-4, atol=2e-6)
    others = [
        program(samples(config), start.astype(float), m, "scaffold" in n, lost)[0]
        for n, (_, m) in METHODS.items()
        if n != name
    ]
    assert min(abs(other - server).max() for other in others) > 1e-4


@pytest.mark.parametrize("changes", [{}, ADAM])
def test_what_did_not_arrive_leaves_no_trace_with_control_variates(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, changes: Any
) -> None:
    """Equal bytes whether a silo trained in vain or not at all, sub-networks and moments included."""
    common = {**changes, **SCAFFOLD, "scenario": "star", "num_rounds": 4, "num_silos": 3}
    train = Learner.train

    def idle(self: Learner, first: int, *rest: Any) -> Any:
        if first == 1 and LOST in self.site.silos:
            raise RuntimeError("out of luck")
        return train(self, first, *rest)

    for case in ("vain", "idle"):
        with monkeypatch.context() as patch:
            if case == "vain":
                lose(patch, (2,))
            else:
                patch.setattr(Learner, "train", idle)
            run_inprocess(config_of(cache, tmp_path, case, min_reply_fraction=0.5, **common))
        missing = [m.get("silos-missing") for n, m in round_rows(tmp_path / case).items() if n]
        assert missing == [None, 1, None, None]
    assert model_of(tmp_path, "vain") == model_of(tmp_path, "idle")


def test_a_resumed_run_equals_an_uninterrupted_one(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the usual network with contrastive loss, however many silos a client holds."""
    common = {**SCAFFOLD, **ADAM, "scenario": "star", "num_rounds": 4, "checkpoint_every": 2}
    common["batch_norm"] = "average"
    run_inprocess(config_of(cache, tmp_path, "alone", **common))
    common["silos_per_client"] = 2
    run_inprocess(config_of(cache, tmp_path, "whole", **common))
    assert model_of(tmp_path, "alone") == model_of(tmp_path, "whole")
    run_in_parts(monkeypatch, config_of(cache, tmp_path, "parts", **common))
    assert digests(tmp_path, "whole") == digests(tmp_path, "parts")


def test_stacked_silos_are_corrected_alike(cache: Path, tmp_path: Path, undrawn: None) -> None:
    for stacked in ("no", "yes"):
        config = config_of(
            cache, tmp_path, stacked, **LINEAR, **SCAFFOLD, silos_per_client=4, stacked=stacked
        )
        run_inprocess(config)
    one, two = (load_file(tmp_path / n / "model.safetensors") for n in ("no", "yes"))
    np.testing.assert_allclose(vector(one), vector(two), rtol=1e-5)


def test_control_variates_stay_at_home_and_their_changes_are_counted(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Versions, "prune", lambda self, checkpoints: None)
    common = {"scenario": "star", "num_silos": 2, "num_rounds": 3}
    recorder = recorded(config_of(cache, tmp_path, "run", **common, **SCAFFOLD))
    run_inprocess(config_of(cache, tmp_path, "plain", **common))
    messages = (*recorder.sent, *recorder.received)
    wire = b"".join(message_to_proto(m).SerializeToString() for m in messages)
    found = 0
    # In round 1 a change from 0 is what is sent.
    for number in (2, 3):
        for path in (tmp_path / "run" / "clients").rglob(f"round-{number:06d}.safetensors"):
            own = {k: v for k, v in load_file(path).items() if k.startswith("control.")}
            for name, array in own.items():
                needle = array.ravel()[array.size // 2 :][:16]
                if len(np.unique(needle[needle != 0])) == 16:
                    found += 1
                    assert needle.tobytes() not in wire, name
    assert found > 20
    for message in messages:
        names = set(arrays_in(message)) if "arrays" in message.content else set()
        training = message.metadata.message_type == "train"
        assert any(n.startswith("control.") for n in names) == (training and bool(names))
    bytes_of = [round_rows(tmp_path / n)[3]["overlay-bytes"] for n in ("run", "plain")]
    assert bytes_of[0] == 2 * bytes_of[1]  # no buffers travel with group norm


def test_an_own_optimizer_keeps_its_state_and_has_its_say(
    cache: Path, tmp_path: Path, undrawn: None
) -> None:
    run_inprocess(config_of(cache, tmp_path, "run", **LINEAR, **OWN))
    said = [m.get("server-optimizer.gone") for m in round_rows(tmp_path / "run").values()]
    assert said == [None, 1, 2, 3, 4, 5]


def test_a_hostile_silo_sends_its_control_variates_as_they_are(
    cache: Path, tmp_path: Path, undrawn: None
) -> None:
    """Its model goes the other way; c is the mean of all c_k all the same."""
    for name, others in (("honest", {}), ("hostile", {"sabotage-clients": str(LOST)})):
        changes = {**LINEAR, **SCAFFOLD, **others, "num_rounds": 1, "checkpoint_every": 1}
        run_inprocess(config_of(cache, tmp_path, name, **changes))
    states = [
        load_file(tmp_path / name / "checkpoints" / "round-000001.safetensors")
        for name in ("honest", "hostile")
    ]
    for kind, same in (("arrays.", False), ("optimizer.control.", True)):
        pair = [s[f"{kind}head.weight"] for s in states]
        assert np.array_equal(*pair) == same


@pytest.mark.parametrize("scenario", ["star", "ring"])
def test_every_attack_changes_the_models_of_others(
    cache: Path, tmp_path: Path, undrawn: None, scenario: str
) -> None:
    """But a claim of samples, which is refused: weights of mixing come from the overlay and the roster."""
    once = LINEAR | {"scenario": scenario, "num_rounds": 1, "checkpoint_every": 1}
    run_inprocess(config_of(cache, tmp_path, "honest", **once))
    honest = load_file(tmp_path / "honest" / "checkpoints" / "round-000001.safetensors")
    attacks = limits_of(CDLConfig)["sabotage.attack"].choices
    assert attacks is not None and len(attacks) > 6
    for attack in attacks:
        hostile = {"sabotage.clients": "0", "sabotage.attack": attack}
        config = config_of(cache, tmp_path, str(attack), **once, **hostile)
        if attack == "weight-lie":
            with pytest.raises(
                InputError, match=r"sabotage\.attack: weight-lie claims samples, but"
            ):
                run_inprocess(config)
            continue
        run_inprocess(config)
        own = load_file(tmp_path / str(attack) / "checkpoints" / "round-000001.safetensors")
        mixed = [k for k in honest if k.startswith("arrays.")]
        assert any((own[k][1:] != honest[k][1:]).any() for k in mixed), attack


@pytest.mark.parametrize("changes", [SCAFFOLD, ADAM, {"server-learning-rate": 0.5}])
@pytest.mark.parametrize(
    ("others", "cure"),
    [
        ({"scenario": "ring"}, "ring has no server; set federation.scenario to"),
        ({"scenario": "cll"}, "cll has no server"),
        ({"merge": "clipped"}, "not with federation.merge=clipped; set that to mean"),
        ({"mixings-per-round": 2, "silos-per-client": 0}, "mixings-per-round=2; set that to 1"),
        ({"optimizer": "qg-momentum"}, "training.optimizer=qg-momentum"),
        ({"optimizer": "gradient-tracking"}, "set that to adam, sgd or nesterov"),
        ({"server-optimizer": "adamw"}, "server-optimizer"),
    ],
)
def test_what_cannot_go_with_it_is_refused(
    call: Any, changes: dict[str, Any], others: dict[str, Any], cure: str
) -> None:
    own = {k.replace("_", "-"): v for k, v in changes.items()}
    check_refusal(call({"scenario": "star", **own, **others}), cure)


@pytest.mark.slow
def test_the_system_keeps_its_contract_with_them(cache: Path, tmp_path: Path) -> None:
    values = {**RUNS["cdl-star"], **SCAFFOLD, **ADAM, "num-rounds": 2, "num-silos": 2}
    values = full_keys(CDLConfig, {**values, "cache-dir": str(cache)})
    check_system(values, tmp_path / "work")
