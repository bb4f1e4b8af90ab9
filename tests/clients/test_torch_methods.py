"""APFL's visit of a torch network with BatchNorm and dropout against a loop that is written without the project's."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from clients.numpy_client_app import NAMES
from clients.torch_client import TorchClient
from fedsuite.arrays import Arrays, module_arrays, under_prefix
from fedsuite.averaging.requirements import check_averaging
from fedsuite.averaging.settings import FedAvgSettings
from fedsuite.errors import InputError
from fedsuite.privacy.complaints import check_privacy
from fedsuite.randomness import rng_for
from fedsuite.roster.members import roster_of
from fedsuite.settings.config import read_config
from simulations.systems import Node

ROWS, STEPS, BATCH, RATE, ALPHA, SPEED, SEED = 30, 5, 10, 0.1, 0.4, 0.1, 7
VALUES = {
    "seed": SEED, "num-rounds": 4, "training.batch-size": BATCH, "training.learning-rate": RATE,
    "training.local-steps": STEPS, "federation.local-method": "apfl", "federation.own-weight": ALPHA,
    "federation.own-weight-rate": SPEED,
}  # fmt: skip
Tensors = dict[str, Tensor]


def network() -> torch.nn.Sequential:
    """The same at every call, and whatever ran before: with one start in fifty alpha hardly moves."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = (
            torch.nn.Linear(4, 6),
            torch.nn.BatchNorm1d(6),
            torch.nn.Dropout(),
            torch.nn.Linear(6, 1),
        )
    return torch.nn.Sequential(*layers)


def rows() -> tuple[Tensor, Tensor]:
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(ROWS, 4)).astype(np.float32))
    return x, x[:, :1] - x[:, 1:2]


def client_of(folder: Path, **changes: object) -> TorchClient:
    config = read_config(FedAvgSettings, VALUES | changes)
    node = Node(roster_of(["oak"], [ROWS]), 0, folder)
    return TorchClient(network(), torch.nn.functional.mse_loss, rows(), config, node)


def visit(client: TorchClient, number: int, received: Arrays) -> Arrays:
    told = {NAMES: "\n".join(received), "round": number, "checkpoint-rounds": "0", "steps": STEPS}
    arrays, _, metrics = client.fit(list(received.values()), told)
    assert metrics["steps"] == STEPS and metrics["loss"] > 0
    return dict(zip(received, arrays, strict=True))


def mixed(own: Tensors, shared: Tensors, alpha: float) -> Tensors:
    floats = {k: alpha * own[k] + (1 - alpha) * shared[k] for k in shared}
    return {k: v if shared[k].is_floating_point() else shared[k].clone() for k, v in floats.items()}


class Twin:
    """w, v and alpha of one client, which goes on from `w` in every visit."""

    def __init__(self, start: Arrays) -> None:
        self.net, self.alpha = network().train(), ALPHA
        self.trained = set(dict(self.net.named_parameters()))
        self.v = {k: torch.from_numpy(a.copy()) for k, a in start.items()}

    def slope(self, model: Tensors, x: Tensor, y: Tensor) -> tuple[Tensors, Tensors]:
        """Gradients, and the buffers afterwards."""
        own = {k: t.clone().requires_grad_(k in self.trained) for k, t in model.items()}
        loss = torch.nn.functional.mse_loss(functional_call(self.net, own, (x,)), y)
        names = sorted(self.trained)
        found = dict(zip(names, torch.autograd.grad(loss, [own[k] for k in names]), strict=True))
        return found, {k: t for k, t in own.items() if k not in self.trained}

    def visit(self, number: int, received: Arrays) -> Tensors:
        w = {k: torch.from_numpy(a.copy()) for k, a in received.items()}
        torch.manual_seed(int(rng_for(SEED, "local training", number, 0).integers(2**63)))
        rng, x, y = rng_for(SEED, "mini-batches", number, 0), *rows()
        orders = [rng.permutation(ROWS) for _ in range(1 + STEPS * BATCH // ROWS)]
        order = torch.from_numpy(np.concatenate(orders))
        for step in range(STEPS):
            batch = order[step * BATCH : (step + 1) * BATCH]
            before = torch.get_rng_state()
            at_w, buffers = self.slope(w, x[batch], y[batch])
            after = torch.get_rng_state()
            torch.set_rng_state(before)  # the same entries are dropped
            at_mix, own_buffers = self.slope(mixed(self.v, w, self.alpha), x[batch], y[batch])
            torch.set_rng_state(after)
            rise = sum(float((g * (self.v[k] - w[k])).sum()) for k, g in at_mix.items())
            w = {k: w[k] - RATE * g for k, g in at_w.items()} | buffers
            self.v = {k: self.v[k] - RATE * self.alpha * g for k, g in at_mix.items()} | own_buffers
            self.alpha = min(1.0, max(0.0, self.alpha - SPEED * rise))
        return w


def test_apfl_is_the_papers_loop(tmp_path: Path) -> None:
    """Two visits; between them the server's model is not what the client sent."""
    client, start = client_of(tmp_path), module_arrays(network())
    twin, received = Twin(start), start
    for number in (1, 2):
        sent, wanted = visit(client, number, received), twin.visit(number, received)
        stored = client.private.load(number + 1)
        assert stored is not None
        own = under_prefix(stored[0], "method.own.")
        for name, value in wanted.items():
            np.testing.assert_allclose(sent[name], value.numpy(), atol=1e-6)
            np.testing.assert_allclose(own[name], twin.v[name].numpy(), atol=1e-6)
        assert stored[0]["method.weight"] == pytest.approx(twin.alpha, abs=1e-5)
        assert 0 < twin.alpha < 1 and abs(twin.alpha - ALPHA) > 1e-3
        received = {k: np.asarray(a * 0.9, a.dtype) for k, a in sent.items()}


def test_the_model_that_is_sent_is_fedavgs(tmp_path: Path) -> None:
    """Dropout and BatchNorm included; and everybody else's random numbers are where they were."""
    start = module_arrays(network())
    plain = visit(client_of(tmp_path / "a", **{"federation.local-method": "plain"}), 1, start)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    sent = visit(client_of(tmp_path / "b"), 1, start)
    assert {k: v.tobytes() for k, v in sent.items()} == {k: v.tobytes() for k, v in plain.items()}
    client = client_of(tmp_path / "c")
    torch.set_rng_state(before)
    visit(client, 1, start)
    assert torch.equal(torch.get_rng_state(), before)


def test_methods_that_train_more_than_once_are_refused_where_the_ledger_counts_one() -> None:
    config = read_config(FedAvgSettings, VALUES | {"privacy.unit": "example"})
    check_averaging(config)
    with pytest.raises(InputError, match=r"local-method: apfl .* counts one"):
        check_privacy(config)
