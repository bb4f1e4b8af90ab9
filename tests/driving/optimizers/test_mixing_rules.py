"""Update rules across mixings: figures worked out by hand, a plain loop over silos, and where they end."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from fedsuite.driving.config import TrainingSettings
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS, RuleOptimizer
from fedsuite.driving.optimizers.mixing_rules import AVERAGE, RULES, TRACKER, largest_mode
from fedsuite.driving.topology import load_network
from tests.harness import changed
from tests.schedules import make_schedule

# Silo i has f_i = h_i / 2 (x - b_i)^2; every one hears one other.
H, B = np.array([1.0, 2.0, 0.5]), np.array([1.0, -1.0, 4.0])
RING = np.array([[0.5, 0, 0.5], [0.5, 0.5, 0], [0, 0.5, 0.5]])
OPTIMUM = (H * B).sum() / H.sum()
ETA = 0.1
Model = dict[str, np.ndarray]  # [N, ...] by name
Gradient = Callable[[Model], Model]


def scalar_gradient(x: Model) -> Model:
    return {"x": H[:, None] * (x["x"] - B[:, None])}


def played(
    name: str,
    start: Model,
    gradient: Gradient,
    steps: int,
    updates: int = 1,
    a: np.ndarray = RING,
    **own: float,
) -> tuple[Model, RuleOptimizer | torch.optim.Optimizer, list[torch.Tensor]]:
    """Models after `steps` mixings, and the optimizer once it has seen the last of them."""
    settings = changed(
        TrainingSettings(), optimizer=name, learning_rate=ETA, weight_decay=0.0, local_updates=updates
    )  # fmt: skip
    tensors = {k: torch.tensor(v).requires_grad_() for k, v in start.items()}
    method = LOCAL_OPTIMIZERS[name]
    optimizer = method.make([*tensors.values()], changed(settings, **own))
    weights = torch.tensor(a)

    def mixed(value: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ij,j...->i...", weights, value.detach())

    for _ in range(steps):
        if isinstance(optimizer, RuleOptimizer):
            optimizer.begin()
        for _ in range(updates):
            slopes = gradient({k: v.detach().numpy() for k, v in tensors.items()})
            for k, v in tensors.items():
                v.grad = torch.tensor(slopes[k])
            optimizer.step()
        for v in tensors.values():
            with torch.no_grad():
                v.copy_(mixed(v))
            for kind in method.sent:
                optimizer.state[v][kind] = mixed(optimizer.state[v][kind])
    if isinstance(optimizer, RuleOptimizer):
        optimizer.begin()
    found = {k: v.detach().numpy() for k, v in tensors.items()}
    return found, optimizer, [*tensors.values()]


DSGD_LIMIT = (0.4301994, 0.2393162, 0.1823362)
# After three steps; at the end.
GOLDEN: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "sgd": ((0.238375, 0.046875, -0.0105), DSGD_LIMIT),
    "nesterov": ((0.702361, 0.020229375, -0.020983875), (1.5555556, -0.3333333, 0.2222222)),
    "qg-momentum": ((0.24875875, 0.06144375, -0.010455), DSGD_LIMIT),
    "qg-nesterov": ((0.4509616037, 0.0872958563, -0.0164970825), (0.5616640, 0.1919912, 0.1087073)),
    "gradient-tracking": ((0.074, 0.163125, 0.026375), (OPTIMUM,) * 3),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_three_steps_worked_out_by_hand_and_where_it_ends(name: str) -> None:
    begin = {"x": np.zeros((3, 1))}
    three, limit = GOLDEN[name]
    x, _, _ = played(name, begin, scalar_gradient, 3)
    np.testing.assert_allclose(x["x"][:, 0], three, atol=1e-9)
    x, _, _ = played(name, begin, scalar_gradient, 400)
    np.testing.assert_allclose(x["x"][:, 0], limit, atol=1e-7)


def test_the_quasi_global_buffer_of_three_steps_worked_out_by_hand() -> None:
    _, optimizer, (p,) = played("qg-momentum", {"x": np.zeros((3, 1))}, scalar_gradient, 3)
    found = optimizer.state[p][AVERAGE][:, 0]
    np.testing.assert_allclose(found, (-0.21283375, -0.06574375, 0.00823), atol=1e-9)


def test_the_mean_of_trackers_is_the_mean_of_gradients() -> None:
    """The invariant of gradient tracking, after every mixing; y of three steps by hand."""
    for steps in (1, 2, 3):
        x, optimizer, (p,) = played(
            "gradient-tracking", {"x": np.zeros((3, 1))}, scalar_gradient, steps
        )
        state = optimizer.state[p]
        np.testing.assert_allclose(state[TRACKER].mean(), state["last"].mean(), atol=1e-12)
    y = state[TRACKER] + torch.tensor(scalar_gradient(x)["x"]) - state["last"]
    np.testing.assert_allclose(y[:, 0], (-0.321, -0.3, 0.0344375), atol=1e-9)


def twin(name: str, start: Model, gradient: Gradient, steps: int, updates: int) -> Model:
    """The same by loops over silos, with the equations as they stand in the papers; whole models as one vector each."""
    names, n = sorted(start), len(RING)
    beta = 0.9

    def joined(model: Model) -> list[np.ndarray]:
        return [np.concatenate([model[k][i].ravel() for k in names]) for i in range(n)]

    def parted(vectors: list[np.ndarray]) -> Model:
        cuts = np.cumsum([start[k][0].size for k in names])[:-1]
        parts = [np.split(v, cuts) for v in vectors]
        return {
            k: np.stack([p[j].reshape(start[k].shape[1:]) for p in parts])
            for j, k in enumerate(names)
        }

    def mix(vectors: list[np.ndarray]) -> list[np.ndarray]:
        return [sum(RING[i, j] * vectors[j] for j in range(n)) for i in range(n)]

    x = joined(start)
    hat = [np.zeros_like(v) for v in x]
    g = joined(gradient(parted(x)))
    y = [v.copy() for v in g]
    for _ in range(steps):
        z = [v.copy() for v in x]
        for _ in range(updates):
            g = joined(gradient(parted(z)))
            for i in range(n):
                if name == "gradient-tracking":
                    z[i] -= ETA * y[i]
                else:
                    m = beta * hat[i] + g[i]
                    z[i] -= ETA * (g[i] + beta * m if name == "qg-nesterov" else m)
        new = mix(z)
        for i in range(n):
            d = x[i] - new[i]
            hat[i] = beta * hat[i] + (1 - beta) * d / (ETA * updates)
        x = new
        later = joined(gradient(parted(x)))
        y = [a + b - c for a, b, c in zip(mix(y), later, g, strict=True)]
    return parted(x)


def bent(x: Model) -> Model:
    """Gradients of a loss that is no quadratic, different for every silo and not parted by parameters."""
    total = sum(v.reshape(3, -1).sum(1) for v in x.values())
    shift = np.array([0.3, -0.7, 1.1])
    return {
        k: np.tanh(v - shift.reshape(3, *[1] * (v.ndim - 1)))
        + 0.05 * total.reshape(3, *[1] * (v.ndim - 1))
        for k, v in x.items()
    }


@pytest.mark.parametrize(
    ("name", "updates"),
    [
        ("qg-momentum", 1), ("qg-momentum", 3), ("qg-nesterov", 1), ("qg-nesterov", 2),
        ("gradient-tracking", 1),
    ],
)  # fmt: skip
def test_equals_a_plain_loop_over_silos(name: str, updates: int) -> None:
    rng = np.random.default_rng(0)
    start = {"a": rng.normal(size=(3, 2, 2)), "b": rng.normal(size=(3, 5))}
    found, _, _ = played(name, start, bent, 7, updates)
    expected = twin(name, start, bent, 7, updates)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-10)


def ring_of(size: int) -> np.ndarray:
    return 0.5 * (np.eye(size) + np.roll(np.eye(size), -1, axis=1))


@pytest.mark.parametrize(
    ("name", "size", "mode"),
    [("qg-momentum", 3, 0.9007), ("qg-momentum", 11, 1.0390), ("qg-nesterov", 11, 1.0313)],
)
def test_mixing_alone_grows_or_shrinks_as_foretold(name: str, size: int, mode: float) -> None:
    """Without gradients: the length of the differences between silos, over many steps; momentum swings on long rings."""
    a = ring_of(size)
    apart = a - np.full((size, size), 1 / size)  # without the mean of all, which stays
    assert largest_mode(RULES[name], apart, 0.9) == pytest.approx(mode, abs=1e-4)
    assert largest_mode(RULES[name], a, 0.9) == pytest.approx(max(mode, 1.0), abs=1e-4)
    start = np.random.default_rng(0).normal(size=(size, 1))
    start -= start.mean()

    def still(x: Model) -> Model:
        return {"x": np.zeros_like(x["x"])}

    lengths = [
        np.linalg.norm(played(name, {"x": start}, still, n, a=a)[0]["x"]) for n in (150, 250)
    ]
    assert (lengths[1] / lengths[0]) ** (1 / 100) == pytest.approx(mode, abs=0.02)


def test_tracking_shrinks_as_the_mixing_matrix_does() -> None:
    """A directed ring of N: the eigenvalues are (1 + exp(2 pi i k / N)) / 2, of modulus cos(pi k / N)."""
    a = ring_of(7)
    apart = a - np.full((7, 7), 1 / 7)
    assert largest_mode(RULES["gradient-tracking"], apart, 0.9) == pytest.approx(np.cos(np.pi / 7))


def test_trees_and_servers_suit_quasi_global_momentum_and_any_overlay_tracking() -> None:
    for name in ("ring", "mst", "delta_mbst", "star", "complete"):
        for network in ("gaia", "nws"):
            a = make_schedule(load_network(network), name).matrix(0)
            grows = {rule: largest_mode(RULES[rule], a, 0.9) > 1 + 1e-6 for rule in RULES}
            swings = name == "ring"
            assert grows == {
                "qg-momentum": swings, "qg-nesterov": swings, "gradient-tracking": False,
            }, (name, network)  # fmt: skip


def test_weight_decay_is_part_of_the_gradient() -> None:
    begin = {"x": np.full((3, 1), 2.0)}
    decayed, _, _ = played("qg-momentum", begin, scalar_gradient, 4, weight_decay=0.3)
    by_hand, _, _ = played(
        "qg-momentum", begin, lambda x: {"x": scalar_gradient(x)["x"] + 0.3 * x["x"]}, 4
    )
    np.testing.assert_allclose(decayed["x"], by_hand["x"], atol=1e-12)


def test_a_parameter_without_gradient_stays() -> None:
    p, q = (torch.ones(3, 2).requires_grad_() for _ in range(2))
    for name, method in LOCAL_OPTIMIZERS.items():
        optimizer = method.make([p, q], TrainingSettings())
        if isinstance(optimizer, RuleOptimizer):
            optimizer.begin()
        before, p.grad, q.grad = p.detach().clone(), torch.ones(3, 2), None
        optimizer.step()
        assert torch.equal(q, torch.ones(3, 2)) and not torch.equal(p, before), name
