"""Server optimizers against values worked out apart, Flower's own where both are the same, torch's SGD, and slow twins."""

import numpy as np
import pytest
import torch

from fedsuite.averaging.distances import lengths
from fedsuite.averaging.merging import ServerStep, capped, mean, server_step
from fedsuite.averaging.server_optimizers import SERVER_OPTIMIZERS

START = np.array([1.0, -2.0])
DELTAS = np.array([(0.1, -0.2), (0.3, 0.1), (-0.05, 0.02)])
# (name, constants, w after each of three steps): optimizer equations worked in float64.
GOLDEN = {
    "none": ("none", ServerStep(1.0), [(1.1, -2.2), (1.4, -2.1), (1.35, -2.08)]),
    "momentum": ("momentum", ServerStep(1.0), [(1.1, -2.2), (1.49, -2.28), (1.791, -2.332)]),
    "nesterov": ("nesterov", ServerStep(0.7), [(1.133, -2.266), (1.5887, -2.2464), (1.74333, -2.26516)]),
    "adam": (
        "adam", ServerStep(0.01),
        [(1.009050283, -2.009512605), (1.021005236, -2.012947106), (1.030165656, -2.015181619)],
    ),
    "adam, corrected": (
        "adam", ServerStep(0.01, corrected=True),
        [(1.009900990, -2.009950249), (1.019021535, -2.012600456), (1.025000383, -2.014075308)],
    ),
    "yogi": (
        "yogi", ServerStep(0.01),
        [(1.009049876, -2.009512492), (1.020998923, -2.012933777), (1.030111510, -2.015166160)],
    ),
    "adagrad": (
        "adagrad", ServerStep(0.1),
        [(1.099005000, -2.099501250), (1.193573804, -2.054979443), (1.178005132, -2.046110329)],
    ),
}  # fmt: skip


def walk(name, step, deltas=DELTAS, start=START):
    """The model after every step."""
    model, state, seen = {"w": start.copy()}, {}, []
    for delta in deltas:
        model, state = server_step(model, {"w": delta}, step, SERVER_OPTIMIZERS[name], state)
        seen.append(model["w"])
    return np.array(seen)


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_values(case):
    name, step, want = GOLDEN[case]
    np.testing.assert_allclose(walk(name, step), want, rtol=0, atol=6e-10)


@pytest.mark.parametrize(("epsilon", "eta", "want"), [
    (1e-300, 4.4, (0.78, -1.56)), (1e-3, 4.074074074, (0.7962962963, -1.592592593)),
])  # fmt: skip
def test_fedexp_by_hand(epsilon, eta, want):
    """w = (1, -2), p = (1/4, 3/4), w_k = (1.4, -2.2), (0.8, -1.8)."""
    server, p = {"w": START}, np.array([0.25, 0.75])
    clients = [{"w": np.array([1.4, -2.2])}, {"w": np.array([0.8, -1.8])}]
    spread = float(p @ lengths(server, clients) ** 2)
    delta = mean(server, clients, p)
    step = ServerStep(1.0, tau=epsilon, mean_square=lambda: spread)
    moved, state = server_step(server, delta, step, SERVER_OPTIMIZERS["fedexp"])
    np.testing.assert_allclose(moved["w"], want, atol=1e-9)
    np.testing.assert_allclose(moved["w"] - START, eta * delta["w"], atol=1e-9)
    assert state == {}


def test_fedexp_is_never_slower_than_the_mean():
    """Clients that agree: s = ||Delta||^2, so eta' = max(1, 1/2)."""
    step = ServerStep(1.0, mean_square=lambda: float(DELTAS[0] @ DELTAS[0]))
    assert (
        walk("fedexp", step, DELTAS[:1]).tolist()
        == walk("none", ServerStep(1.0), DELTAS[:1]).tolist()
    )


@pytest.mark.parametrize(("name", "nesterov"), [("momentum", False), ("nesterov", True)])
def test_momentum_is_torchs_sgd_on_the_negative_change(name, nesterov):
    rng = np.random.default_rng(0)
    deltas = rng.normal(size=(20, 5))
    w = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    sgd = torch.optim.SGD([w], lr=0.3, momentum=0.8, nesterov=nesterov)
    own = walk(name, ServerStep(0.3, momentum=0.8), deltas, np.zeros(5))
    for delta, moved in zip(deltas, own, strict=True):
        w.grad = torch.tensor(-delta)
        sgd.step()
        np.testing.assert_allclose(moved, w.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("yogi", [False, True])
@pytest.mark.parametrize("corrected", [False, True])
def test_adaptive_ones_number_by_number(yogi, corrected):
    rng = np.random.default_rng(1)
    deltas, b1, b2, tau = rng.normal(size=(30, 4)), 0.8, 0.95, 0.01
    step = ServerStep(0.05, b1, b2, tau, corrected)
    own = walk("yogi" if yogi else "adam", step, deltas, np.zeros(4))
    for at in range(4):
        w, m, v = 0.0, 0.0, 0.0 if corrected else tau**2
        for t, d in enumerate(deltas[:, at], 1):
            m = b1 * m + (1 - b1) * d
            v += (1 - b2) * d**2 * -np.sign(v - d**2) if yogi else (1 - b2) * (d**2 - v)
            top, root = (m / (1 - b1**t), (v / (1 - b2**t)) ** 0.5) if corrected else (m, v**0.5)
            w += 0.05 * top / (root + tau)
            assert own[t - 1, at] == pytest.approx(w, rel=1e-10)


@pytest.mark.parametrize("name", sorted(SERVER_OPTIMIZERS))
def test_whole_numbers_get_the_mean_and_types_stay(name):
    server = {"w": np.ones(2, np.float32), "n": np.asarray(3), "own": np.zeros(1, np.float32)}
    delta = {"w": np.full(2, 0.25), "n": np.asarray(4.0)}
    step = ServerStep(1.0, mean_square=lambda: 0.5)
    moved, state = server_step(server, delta, step, SERVER_OPTIMIZERS[name])
    assert moved["n"] == 7 and moved["n"].dtype == np.int64 and moved["own"] is not server["own"]
    assert moved["w"].dtype == np.float32 and moved["w"][0] > 1
    assert all(v.dtype == np.float64 for k, v in state.items() if k != "t")


@pytest.mark.parametrize("name", sorted(SERVER_OPTIMIZERS))
def test_state_goes_on_where_it_was_kept(name):
    """Six steps in one go are three and three."""
    deltas = np.random.default_rng(2).normal(size=(6, 3))
    step = ServerStep(0.1, mean_square=lambda: 1.0)
    model, state = {"w": np.zeros(3)}, {}
    for number, delta in enumerate(deltas):
        if number == 3:
            state = {k: np.array(v.tolist()) for k, v in state.items()}  # as if read from a file
        model, state = server_step(model, {"w": delta}, step, SERVER_OPTIMIZERS[name], state)
    assert model["w"].tolist() == walk(name, step, deltas, np.zeros(3))[-1].tolist()


def test_a_cap_and_an_optimizer_go_together():
    clients = [{"w": np.array([1.0])}, {"w": np.array([9.0])}]
    server = {"w": np.zeros(1)}
    delta = mean(server, clients, capped([0.1, 0.9], 0.5))
    assert server_step(server, delta, ServerStep(1.0), SERVER_OPTIMIZERS["nesterov"])[0]["w"] == 9.5
