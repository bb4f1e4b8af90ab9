"""The softmax regression of docs/extending.md against a small NumPy program, and what a TorchClient promises."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from clients.numpy_client_app import NAMES
from clients.torch_client import TorchClient
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.requirements import check_averaging
from fedsuite.averaging.settings import FedAvgSettings
from fedsuite.errors import InputError
from fedsuite.randomness import rng_for
from fedsuite.roster.members import roster_of
from fedsuite.runs.versions import Checkpoints
from fedsuite.settings.config import read_config
from simulations.check_system import check_system
from simulations.engines.inprocess import run_inprocess
from simulations.systems import Node, load_system, to_run_config
from strategies.fedavg import FedAvg
from tests.harness import ROOT

PAGE = (ROOT / "docs" / "extending-systems.md").read_text(encoding="utf-8")
ROUNDS, RATE = 3, 0.3
ADAM = {"federation.server-optimizer": "adam", "federation.server-learning-rate": 0.1}
SCAFFOLD = {"federation.control-variates": True}
CHAINS = {"federation.group-size": 2}
KRUM = {"federation.merge": "krum", "federation.tolerated": 1}
PROXIMAL = {"federation.local-penalty": "proximal", "federation.penalty-strength": 0.5}
TRIED: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "decayed": {"federation.server-learning-rate-decay": 0.5, "federation.server-decay-steps": 60},
    "adam": ADAM,
    "scaffold": SCAFFOLD,
    "scaffold, 3 of 5": {**SCAFFOLD, "federation.participation-rate": 0.6},
    "both, in chains": {**ADAM, **SCAFFOLD, **CHAINS},
    "chains": CHAINS,
    "krum": KRUM,
    "fedprox": PROXIMAL,
}
NORMED = '''
"""A network with buffers and dropout; clients are scored on rows of their own."""
import torch
from regression import Settings, rows_of, roster_of
from simulations.torch_system import torch_system

def network(config):
    layers = torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(), torch.nn.Linear(6, 3)
    return torch.nn.Sequential(*layers)

SYSTEM = torch_system(
    "normed", Settings, lambda config: roster_of(["a", "b"], [20, 30]), network,
    torch.nn.functional.cross_entropy, rows_of, test=lambda config, node: rows_of(config, node) if node.partition else (),
)
'''


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's system, and one of our own, where Python finds them."""
    found = re.search(r"`regression\.py`:\n\n```python\n(.*?)```", PAGE, re.S)
    assert found is not None
    (tmp_path / "regression.py").write_text(found.group(1))
    (tmp_path / "normed.py").write_text(NORMED)
    monkeypatch.syspath_prepend(tmp_path)


def values_of(system: str, **changes: Any) -> dict[str, Any]:
    values = {"system": f"{system}:SYSTEM", "num-rounds": ROUNDS, "seed": 3}
    values |= {"training.learning-rate": RATE, "training.batch-size": 20}
    return values | {"federation.local-epochs": 2} | changes


# --- a program of its own ---------------------------------------------------------------------


class Twin:
    """Rounds of softmax regression in float64: W [3, 4], b [3]."""

    def __init__(self, values: dict[str, Any], rows: list[Any], initial: Any) -> None:
        self.rows, self.seed, self.values = rows, values["seed"], values
        self.w = np.concatenate([initial["weight"], initial["bias"][:, None]], 1).astype(float)
        self.c = np.zeros_like(self.w)
        self.own = [np.zeros_like(self.w) for _ in rows]
        self.m, self.v = np.zeros_like(self.w), np.full_like(self.w, 1e-6)  # v_0 = tau^2
        self.steps, self.eta = 0, values.get("federation.server-learning-rate", 1.0)

    def visit(self, k: int, number: int, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where client k ends, and the change of its control variate."""
        x, y = self.rows[k]
        x, w, noted = np.concatenate([x, np.ones((len(x), 1))], 1), start.copy(), []
        rng = rng_for(self.seed, "mini-batches", number, k)
        mu = 0.5 if "federation.local-penalty" in self.values else 0.0
        for _ in range(2):
            order = rng.permutation(len(y))
            for at in range(0, len(y), 20):
                batch = order[at : at + 20]
                z = np.exp(x[batch] @ w.T)
                p = z / z.sum(1, keepdims=True) - np.eye(3)[y[batch]]
                noted.append(p.T @ x[batch] / len(batch) + mu * (w - start))
                w = w - RATE * (noted[-1] + (self.c - self.own[k] if self.scaffold else 0.0))
        self.steps += len(noted)
        return w, np.mean(noted, 0) - self.own[k]

    @property
    def scaffold(self) -> bool:
        return "federation.control-variates" in self.values

    def round(self, number: int) -> None:
        many = len(self.rows)
        chosen = list(range(many))
        if "federation.participation-rate" in self.values:
            rng = rng_for(self.seed, "participation of all clients", number)
            chosen = sorted(rng.choice(many, size=3, replace=False).tolist())
        chains = [[k] for k in chosen]
        if "federation.group-size" in self.values:
            order = rng_for(self.seed, "groups of clients", number).permutation(many)
            chains = [order[at : at + 2].tolist() for at in range(0, many, 2)]
        before, ends, weights, changes = self.steps, [], [], {}
        for chain in chains:
            w = self.w
            for k in chain:
                w, changes[k] = self.visit(k, number, w)
            ends.append(w - self.w)
            weights.append(sum(len(self.rows[k][1]) for k in chain))
        if "federation.merge" in self.values:  # of 5, f = 1: the sum over the 2 nearest
            far = np.array([[((a - b) ** 2).sum() for a in ends] for b in ends])
            delta = ends[int(np.sort(far, 1)[:, 1:3].sum(1).argmin())]
        else:
            delta = np.average(ends, axis=0, weights=weights)
        if "federation.server-optimizer" in self.values:
            self.m = 0.9 * self.m + 0.1 * delta
            self.v = 0.99 * self.v + 0.01 * delta**2
            delta = self.m / (np.sqrt(self.v) + 1e-3)
        self.w = self.w + self.eta * delta
        if self.scaffold:
            self.c = self.c + sum(changes.values()) / many
            for k, change in changes.items():
                self.own[k] = self.own[k] + change
        if "federation.server-learning-rate-decay" in self.values:
            self.eta *= 0.5 if self.steps // 60 > before // 60 else 1.0


@pytest.mark.parametrize("name", TRIED)
def test_three_rounds_are_those_of_a_program_of_its_own(name: str, tmp_path: Path) -> None:
    values = values_of("regression", **TRIED[name], name="run")
    values["results-dir"] = str(tmp_path / "runs")
    system = load_system("regression:SYSTEM")
    settings = read_config(system.config_class, values)
    run_inprocess(to_run_config(settings))
    run = tmp_path / "runs" / "run"
    roster = system.prepare(settings, lambda _: None)
    from regression import rows_of  # type: ignore[import-not-found]

    rows = [rows_of(settings, Node(roster, k, tmp_path)) for k in range(5)]
    initial = system.make_strategy(settings, roster).initial  # type: ignore[attr-defined]
    twin = Twin(values, [(x.double().numpy(), y.numpy()) for x, y in rows], initial)
    for number in range(1, ROUNDS + 1):
        twin.round(number)
    got = safetensors.numpy.load((run / "model.safetensors").read_bytes())
    found = np.concatenate([got["weight"], got["bias"][:, None]], 1)
    np.testing.assert_allclose(found, twin.w, rtol=0, atol=1e-6)
    assert (
        np.abs(found - np.concatenate([initial["weight"], initial["bias"][:, None]], 1)).max() > 0.1
    )
    last = Checkpoints(run / "checkpoints").latest()
    assert last is not None and last.state.scalars["local-steps"] == twin.steps
    if twin.scaffold:
        c = last.state.optimizer
        np.testing.assert_allclose(c[f"{CONTROL}weight"], twin.c[:, :4], rtol=0, atol=1e-6)


# --- the contract -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "changes"),
    [
        ("regression", {}),
        ("regression", {**ADAM, **SCAFFOLD, "federation.participation-rate": 0.6}),
        ("regression", {**CHAINS, **PROXIMAL, "training.local-steps": 3}),
        ("regression", {**KRUM, "evaluation-clients": 2}),
        ("normed", {**ADAM, **SCAFFOLD}),
    ],
)
def test_it_keeps_the_contract_and_resumes_to_the_byte(
    system: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    check_system(values_of(system, **changes, **{"num-rounds": 2}), tmp_path / "work")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({**KRUM, **SCAFFOLD}, "federation.control-variates: .* merge=mean"),
        ({"federation.merge": "krum"}, "federation.tolerated: 0"),
        ({"federation.server-optimizer": "adem"}, "federation.server-optimizer: .*adam"),
        ({"federation.local-penalty": "near"}, "federation.local-penalty: "),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        check_averaging(read_config(FedAvgSettings, changes))


def test_too_few_clients_for_a_merge_rule_are_refused_before_training() -> None:
    config = read_config(FedAvgSettings, KRUM)
    with pytest.raises(InputError, match=r"federation\.merge: .* 4 changes to merge"):
        FedAvg(config, roster_of("abcde", [1, 1, 0, 1, 1]), lambda: torch.nn.Linear(4, 3))


@pytest.mark.parametrize("layer", ["control", "optimizer"])
def test_layers_named_as_what_goes_beside_a_network_are_refused(layer: str) -> None:
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.controls = torch.nn.Linear(4, 4)
            self.add_module(layer, torch.nn.Linear(4, 3))

    with pytest.raises(InputError, match=f"^model: the network has a layer '{layer}', .*rename it"):
        FedAvg(read_config(FedAvgSettings, {}), roster_of("abc", [1, 1, 1]), Network)


# --- the client -------------------------------------------------------------------------------


def client_of(folder: Path, rate: float = RATE, **changes: Any) -> TorchClient:
    """A client of 30 rows with dropout."""
    values = {"training.learning-rate": rate, "num-rounds": 4, **changes}
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(4, 1))
    x = torch.arange(120.0).reshape(30, 4) / 120
    data, node = (x, x[:, :1]), Node(roster_of(["oak"], [30]), 0, folder)
    config = read_config(FedAvgSettings, values)
    return TorchClient(model, torch.nn.functional.mse_loss, data, config, node)


def visit(client: TorchClient, number: int, **config: Any) -> list[bytes]:
    told = {NAMES: "1.weight\n1.bias", "round": number, "checkpoint-rounds": "0", "steps": 5}
    arrays, count, metrics = client.fit(
        [np.zeros((1, 4), np.float32), np.zeros(1, np.float32)], told | config
    )
    assert count == 30 and metrics["steps"] == 5
    return [a.tobytes() for a in arrays]


def test_dropout_too_is_of_seed_round_and_client_and_leaves_others_draws_alone(
    tmp_path: Path,
) -> None:
    clients = [client_of(tmp_path) for _ in range(3)]
    before = torch.get_rng_state()
    first, again = (visit(client, 1) for client in clients[:2])
    assert first == again != visit(clients[2], 2)
    assert torch.equal(before, torch.get_rng_state())


def test_a_visit_that_diverged_is_told_with_the_key_to_lower_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    client = client_of(tmp_path, 1e8, **SCAFFOLD)
    with pytest.raises(
        ValueError, match=r"oak: training diverged, .*lower training\.learning-rate"
    ):
        visit(client, 1)
    assert client.private.rounds() == []


@pytest.mark.parametrize(("width", "size", "at_once"), [(4, 8, 8192), (4, 4, 16384), (3, 8, 1)])
def test_mini_batches_gathered_together_are_those_taken_one_by_one(
    width: int, size: int, at_once: int, tmp_path: Path
) -> None:
    """Also over the end of a pass; each begins at a multiple of 64 bytes, or they are taken one by one."""
    x = torch.randn(30, width)
    config = read_config(FedAvgSettings, {"training.batch-size": size})
    node = Node(roster_of(["oak"], [30]), 0, tmp_path)
    loss, model = torch.nn.functional.mse_loss, torch.nn.Linear(width, 1)
    client = TorchClient(model, loss, (x, torch.arange(30)), config, node)
    assert client.at_once == max(1, min(at_once, 2**20 // (size * (4 * width + 8))))
    rng, batches = rng_for(0, "mini-batches", 2, 0), client.batches(2, "")
    for _ in range(2):
        for rows in torch.from_numpy(rng.permutation(30)).split(size):
            inputs, targets = next(batches)
            assert torch.equal(inputs, x[rows]) and targets.tolist() == rows.tolist()
            assert at_once == 1 or inputs.data_ptr() % 64 == 0


def test_a_network_kept_from_visit_to_visit_has_nothing_of_one_that_failed(tmp_path: Path) -> None:
    client, whole = client_of(tmp_path), client_of(tmp_path)
    expected, loss = visit(whole, 1), client.loss

    def fails(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss(outputs, targets).backward()
        raise RuntimeError("lost")

    client.loss = fails
    with pytest.raises(RuntimeError, match="lost"):
        visit(client, 1)
    client.loss = loss
    assert visit(client, 1) == expected


def test_a_process_makes_one_network_for_all_its_clients(tmp_path: Path) -> None:
    system = load_system("regression:SYSTEM")
    settings = read_config(system.config_class, values_of("regression"))
    roster = system.prepare(settings, lambda _: None)
    clients: list[Any] = [system.make_client(settings, Node(roster, k, tmp_path)) for k in range(2)]
    assert clients[0].module is clients[1].module and clients[0].data is not clients[1].data


def test_messages_that_its_run_does_not_have_are_refused(tmp_path: Path) -> None:
    client, told = client_of(tmp_path), {"round": 1, "checkpoint-rounds": "0"}
    client.instruction("train", {}).check({**told, "steps": 3}, "train message")
    for wrong in ({"steps": 4}, {"steps": -1}, {}, {"steps": 1, "write": True}):
        with pytest.raises(InputError):
            client.instruction("train", {}).check({**told, **wrong}, "train message")
