"""Grid-World's networks against plain torch layers, their sizes, and optimiser states that survive a stop."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedsuite.arrays import load_arrays, module_arrays
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.networks import (
    POSITION_HIDDEN,
    TwoLayers,
    WindowNetwork,
    new_mlp,
)
from fedsuite.randomness import torch_generator_for
from tests.harness import changed


def generator(seed: int = 0) -> torch.Generator:
    return torch_generator_for(seed, "test of networks")


def network(sides: tuple[int, ...], history: int = 2, kernels: str = "window") -> WindowNetwork:
    return WindowNetwork(sides, history, 32, kernels, 16, generator())


def shared_mlp(parties: int, actions: int, **changes: int | str) -> TwoLayers:
    config = changed(FedRLConfig(), parties=parties, **changes)
    return new_mlp(config, actions, "mlp")


def position_network() -> TwoLayers:
    return TwoLayers(4, POSITION_HIDDEN, 16, generator())


def windows(sides: tuple[int, ...], history: int, count: int, seed: int = 1) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [(torch.rand(count, history, s, s, generator=draw) > 0.3).float() for s in sides]


def num_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


class Twin(nn.Module):
    """The same function out of torch's own layers; torch flattens filters first, the network positions first."""

    def __init__(self, net: WindowNetwork) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList()
        for own in net.convolutions:
            filters, history, side, _ = own.weight.shape
            layer = nn.Conv2d(history, filters, side, padding="same")
            layer.load_state_dict(own.state_dict())
            self.convolutions.append(layer)
        self.hidden = copy.deepcopy(net.hidden)
        self.output = copy.deepcopy(net.output)

    def forward(self, *inputs: Tensor) -> Tensor:
        seen = [
            torch.relu(c(w)).permute(0, 2, 3, 1).flatten(1)
            for c, w in zip(self.convolutions, inputs, strict=True)
        ]
        q: Tensor = self.output(torch.relu(self.hidden(torch.cat(seen, 1))))
        return q


@pytest.mark.parametrize(
    ("sides", "count"), [((5,), 210_800), ((3,), 78_704), ((5, 3), 285_136), ((3, 5), 285_136)]
)
def test_sizes_of_the_published_networks(sides: tuple[int, ...], count: int) -> None:
    assert num_parameters(network(sides)) == count


@pytest.mark.parametrize(
    ("actions", "hidden", "count"), [(16, None, 1584), (4, 32, 420), (2, None, 30)]
)
def test_sizes_of_the_shared_mlp(actions: int, hidden: int | None, count: int) -> None:
    mlp = shared_mlp(2, actions, mlp_hidden=hidden or 0)
    assert num_parameters(mlp) == count


def test_position_network_has_64_hidden_units() -> None:
    net = position_network()
    assert num_parameters(net) == 4 * 64 + 64 + 64 * 16 + 16
    x = torch.rand(3, 4)
    state = net.state_dict()
    expected = torch.relu(x @ state["hidden.weight"].T + state["hidden.bias"])
    expected = expected @ state["output.weight"].T + state["output.bias"]
    assert torch.allclose(net(x), expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["window", "3x3"])
@pytest.mark.parametrize("sides", [(3,), (5,), (3, 5), (5, 3)])
@pytest.mark.parametrize("history", [1, 4])
def test_values_and_gradients_are_those_of_plain_convolutions(
    sides: tuple[int, ...], history: int, kernels: str
) -> None:
    net = network(sides, history, kernels)
    twin = Twin(net)
    inputs = windows(sides, history, 32)
    weight = torch.randn(32, 16, generator=torch.Generator().manual_seed(2))
    outputs = [model(*inputs) for model in (net, twin)]
    assert torch.allclose(*outputs, atol=1e-5)
    for q in outputs:
        (weight * q).sum().backward()
    for (name, own), other in zip(net.named_parameters(), twin.parameters(), strict=True):
        assert own.grad is not None and other.grad is not None
        scale = float(other.grad.abs().max())
        assert torch.allclose(own.grad, other.grad, atol=1e-5 * scale), name


def test_large_batches_in_pieces_give_the_same_values() -> None:
    net, inputs = network((5, 3), history=16), windows((5, 3), 16, 1000)  # 10,000 numbers a record
    with torch.no_grad():
        assert torch.allclose(net(*inputs), Twin(net)(*inputs), atol=1e-5)


def test_a_batch_of_none() -> None:
    assert network((3,))(torch.zeros(0, 2, 3, 3)).shape == (0, 16)


def test_initial_weights() -> None:
    net = network((5, 3))
    for name, weight in net.state_dict().items():
        if name.endswith("bias"):
            assert torch.equal(weight, torch.full_like(weight, 0.1)), name
        elif "convolution" in name:
            filters, history, side, _ = weight.shape
            limit = (6 / ((filters + history) * side * side)) ** 0.5
            assert 0.97 * limit < weight.abs().max() <= limit, name
            assert abs(float(weight.std()) - limit / 3**0.5) < 0.03 * limit, name
        else:
            # A normal cut at two standard deviations keeps 0.8796 of its own.
            assert 0.19 < weight.abs().max() <= 0.2, name
            assert abs(float(weight.std()) - 0.08796) < 0.003, name
            assert abs(float(weight.mean())) < 0.005, name


def test_weights_depend_on_the_generator_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = [
        network((3, 5)),
        shared_mlp(2, 16),
        position_network(),
    ]
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(6)
    again = [
        network((3, 5)),
        shared_mlp(2, 16),
        position_network(),
    ]
    for one, other in zip(first, again, strict=True):
        for name, weight in one.state_dict().items():
            assert torch.equal(weight, other.state_dict()[name]), name
    changed = WindowNetwork((3, 5), 2, 32, "window", 16, generator(1))
    assert not torch.equal(changed.hidden.weight, network((3, 5)).hidden.weight)


def test_names_of_arrays_and_their_way_back() -> None:
    net = network((3, 5))
    arrays = module_arrays(net)
    assert list(arrays) == [
        f"{layer}.{kind}"
        for layer in ("convolutions.0", "convolutions.1", "hidden", "output")
        for kind in ("weight", "bias")
    ]
    other = WindowNetwork((3, 5), 2, 32, "window", 16, generator(1))
    load_arrays(other, arrays)
    inputs = windows((3, 5), 2, 4)
    assert torch.equal(net(*inputs), other(*inputs))


def test_shared_mlp_joins_parties_in_order() -> None:
    mlp = shared_mlp(3, 4, mlp_start="published")
    q = [torch.randn(5, 4, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    state = mlp.state_dict()
    hidden = sum(q[i] @ state["hidden.weight"][:, 4 * i : 4 * i + 4].T for i in range(3))
    hidden = torch.relu(hidden + state["hidden.bias"])
    expected = hidden @ state["output.weight"].T + state["output.bias"]
    assert torch.allclose(mlp(*q), expected, atol=1e-5)
    assert not torch.allclose(mlp(*q[::-1]), expected, atol=1e-3)


def test_wrong_inputs_are_named() -> None:
    net = network((3, 5))
    with pytest.raises(ValueError, match="shorter"):
        net(*windows((3,), 2, 4))
    with pytest.raises(ValueError, match=r"expected windows \[B, 2, 3, 3\], got \[4, 2, 5, 5\]"):
        net(*windows((5, 3), 2, 4))


def test_adam_is_the_textbook_one() -> None:
    weight = nn.Parameter(torch.tensor([1.0, -2.0]))
    adam = torch.optim.Adam([weight], 0.1, fused=True)
    w, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for k in range(1, 6):
        adam.zero_grad()
        (weight**3).sum().backward()
        adam.step()
        g = 3 * w**2
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w = w - 0.1 * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
    assert np.allclose(weight.detach().numpy(), w, atol=1e-5)
