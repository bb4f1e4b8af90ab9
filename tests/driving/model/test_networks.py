"""Networks: published parameter counts, TensorFlow's padding, input scaling, seeds, and stacks of silos under vmap.

Counts come from the papers' tables and from DroNet's layout; for a stack the reference is one silo after another.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from fedsuite.driving.model.fadnet import FADNet
from fedsuite.driving.model.layers import (
    GROUPS,
    BatchNorm,
    GroupNorm,
    SameConv2d,
    centred,
    same_padding,
)
from fedsuite.driving.model.networks import (
    Output,
    build_network,
    count_parameters,
)
from fedsuite.driving.model.resnet8 import block_sizes
from fedsuite.errors import InputError


def pictures(size: int, batch: int = 4, channels: int = 1, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (batch, channels, size, size), generator=generator).float()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "channels", "count"),
    [
        ("resnet8", 1, 314_657),
        ("fadnet", 1, 341_980),
        ("fadnet_plus", 1, 336_709),
        ("inception_v3", 3, 21_787_617),
        ("inception_v3", 1, 21_787_617),
        ("mobilenet_v2", 3, 2_225_153),
        ("vgg16", 1, 7_367_361),
    ],
)
def test_parameter_counts_at_200_pixels(kind: str, channels: int, count: int) -> None:
    assert count_parameters(build_network(kind, 200, channels)) == count


def test_bits_of_resnet8_count_statistics_and_counters() -> None:
    def bits(network):
        return 8 * sum(t.numel() * t.element_size() for t in network.state_dict().values())

    assert bits(build_network("resnet8", 200, 1)) == 10_091_936
    grouped = build_network("resnet8", 200, 1, norm="group")
    assert bits(grouped) == 32 * 314_657
    assert not list(grouped.buffers())


def test_maps_of_resnet8_at_200_pixels() -> None:
    assert block_sizes(200) == (49, 25, 13, 7)


def test_taps_of_fadnet_at_200_pixels_have_the_released_strides() -> None:
    network = build_network("fadnet", 200, 1)
    assert isinstance(network, FADNet)
    assert [tap.conv.stride for tap in network.taps] == [(7, 7), (4, 4), (2, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["resnet8", "fadnet", "fadnet_plus", "mobilenet_v2", "vgg16"])
@pytest.mark.parametrize("size", [32, 47, 64, 75, 101])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_sizes(kind: str, size: int, norm: str) -> None:
    network = build_network(kind, size, 3, norm=norm)  # type: ignore[arg-type]
    predictions, features = network(pictures(size, batch=2, channels=3))
    assert predictions.shape == (2,)
    assert features.shape[0] == 2
    assert features.ndim == 2
    assert (features >= 0).all()
    assert features.std() > 0
    predictions.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.slow
def test_inception_from_75_pixels() -> None:
    output = build_network("inception_v3", 75, 1, norm="group", dropout=0.0)(pictures(75, batch=2))
    assert output.features.shape == (2, 2048)
    assert output.predictions.isfinite().all()
    with pytest.raises(InputError, match=r"image-size = 74: inception_v3 needs at least 75 pixels"):
        build_network("inception_v3", 74, 1)
    with pytest.raises(InputError, match=r"image-size = 31: resnet8 needs at least 32"):
        build_network("resnet8", 31, 1)


@pytest.mark.parametrize("kind", ["resnet8", "fadnet", "mobilenet_v2"])
def test_images_of_another_size(kind: str) -> None:
    with pytest.raises(ValueError, match=r"expected \[B, 1, 64, 64\], got \(4, 1, 32, 32\)"):
        build_network(kind, 64, 1)(pictures(32))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [(200, 5, 2, (1, 2)), (49, 3, 2, (1, 1)), (50, 3, 2, (0, 1)), (7, 3, 1, (1, 1)), (49, 1, 2, (0, 0))],
)  # fmt: skip
def test_padding_of_tensorflow(
    size: int, kernel: int, stride: int, padding: tuple[int, int]
) -> None:
    assert same_padding(size, kernel, stride) == padding


@pytest.mark.parametrize(("size", "kernel"), [(10, 5), (9, 3), (10, 3)])
def test_same_convolution_by_its_definition(size: int, kernel: int) -> None:
    conv = SameConv2d(1, 1, kernel, size=size, stride=2)
    image = torch.rand(1, 1, size, size)
    before = same_padding(size, kernel, 2)[0]
    out = math.ceil(size / 2)
    canvas = torch.zeros(size + 2 * kernel, size + 2 * kernel)
    canvas[kernel : kernel + size, kernel : kernel + size] = image[0, 0]
    expected = torch.empty(out, out)
    for row in range(out):
        for column in range(out):
            top, left = (2 * at - before + kernel for at in (row, column))
            window = canvas[top : top + kernel, left : left + kernel]
            expected[row, column] = (window * conv.weight[0, 0]).sum() + conv.bias[0]  # type: ignore[index]
    torch.testing.assert_close(conv(image)[0, 0], expected)


def test_dark_images_are_not_cut_off() -> None:
    assert centred(torch.tensor([0.0, 127.5, 255.0])).tolist() == [-1.0, 0.0, 1.0]
    network = build_network("resnet8", 32, 1).eval()
    dark = network(torch.full((1, 1, 32, 32), 10.0)).predictions
    assert not torch.equal(dark, network(torch.full((1, 1, 32, 32), 90.0)).predictions)


def test_resnet8_by_hand() -> None:
    network = build_network("resnet8", 64, 1, seed=5).eval()
    state = network.state_dict()

    def conv(name: str, x: Tensor, stride: int, pads: tuple[int, int]) -> Tensor:
        return F.conv2d(F.pad(x, pads * 2), state[f"{name}.weight"], state[f"{name}.bias"], stride)

    def active(name: str, x: Tensor) -> Tensor:
        names = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(state[f"{name}.{n}"] for n in names)).relu()

    images = pictures(64)
    x = F.max_pool2d(conv("stem.conv", images / 127.5 - 1, 2, (1, 2)), 3, 2)
    for i, pads in enumerate([(1, 1), (0, 1), (0, 1)]):  # maps of 15, 8, 4 pixels
        block = f"trunk.blocks.{i}"
        inner = conv(f"{block}.conv1", active(f"{block}.norm1", x), 2, pads)
        inner = conv(f"{block}.conv2", active(f"{block}.norm2", inner), 1, (1, 1))
        x = inner + conv(f"{block}.shortcut", x, 2, (0, 0))
    features = x.flatten(1).clamp(min=0)
    output = network(images)
    torch.testing.assert_close(output.features, features)
    head = state["trunk.head.weight"][0]
    torch.testing.assert_close(output.predictions, features @ head + state["trunk.head.bias"])


def test_fadnet_by_hand() -> None:
    network = build_network("fadnet", 64, 1, seed=5, dropout=0.0)
    assert isinstance(network, FADNet)
    images = pictures(64)
    x = network.stem(images / 255)
    support = network.accumulate.bias
    for i, (tap, block) in enumerate(zip(network.taps, network.blocks, strict=True)):
        flat = tap.get_submodule("conv")(x).reshape(len(images), -1)
        support = support + network.accumulate.weight[0, i] * (flat[:, ::2] + flat[:, 1::2]) / 2
        x = block(x)
    rows = torch.einsum("bchw,vw->bchv", x, network.width.weight) + network.width.bias  # type: ignore[union-attr]
    features = rows.clamp(min=0).reshape(len(images), -1)
    output = build_network("fadnet", 64, 1, seed=5, dropout=0.0)(images)
    torch.testing.assert_close(output.features, features)
    torch.testing.assert_close(output.predictions, (features * support).mean(1))


def test_fadnet_predicts_each_image_by_itself() -> None:
    network = build_network("fadnet", 64, 1).eval()
    images = pictures(64)
    torch.testing.assert_close(network(images).predictions[1:2], network(images[1:2]).predictions)


@pytest.mark.parametrize("kind", ["resnet8", "fadnet"])
def test_initial_weights_are_uniform_within_the_fan_in(kind: str) -> None:
    for module in build_network(kind, 200, 1).modules():
        if isinstance(module, nn.Conv2d):
            bound = 1 / math.sqrt(module.in_channels * module.kernel_size[0] ** 2)
            weights = module.weight.detach()
            assert weights.abs().max() <= bound
            assert module.bias is not None
            assert module.bias.abs().max() <= bound
            assert weights.std() == pytest.approx(bound / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("kind", ["resnet8", "fadnet", "mobilenet_v2"])
def test_seed_decides_the_weights_and_nothing_else_is_drawn(kind: str) -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first = build_network(kind, 64, 1, seed=7).state_dict()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(5)
    again, other = (build_network(kind, 64, 1, seed=s).state_dict() for s in (7, 8))
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert any(not torch.equal(first[k], other[k]) for k in first)


def test_grey_images_enter_torchvision_networks_three_times() -> None:
    grey, colour = (build_network("mobilenet_v2", 64, c, seed=1, dropout=0.0) for c in (1, 3))
    images = pictures(64)
    torch.testing.assert_close(
        grey(images).predictions, colour(images.repeat(1, 3, 1, 1)).predictions
    )


# --- stacks of silos ----------------------------------------------------------------------------

SILOS = 3


def one_step(network: nn.Module, images: Tensor, angles: Tensor) -> dict[str, Tensor]:
    """Gradients and statistics after one training step of one silo."""
    (network(images).predictions - angles).square().mean().backward()
    gradients = {k: p.grad for k, p in network.named_parameters() if p.grad is not None}
    return {**gradients, **dict(network.named_buffers())}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["resnet8", "fadnet", "fadnet_plus"])
@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("by_backward", [True, False])
def test_a_stack_of_silos_equals_the_silos(kind: str, norm: str, by_backward: bool) -> None:
    networks = [build_network(kind, 40, 1, norm, 0.0, seed) for seed in range(SILOS)]  # type: ignore[arg-type]
    images = torch.stack([pictures(40, seed=i) for i in range(SILOS)])
    angles = torch.linspace(-0.5, 0.5, SILOS * 4).reshape(SILOS, 4)
    parameters, buffers = stack_module_state(networks)
    shell = build_network(kind, 40, 1, norm, 0.0)  # type: ignore[arg-type]

    def loss(p: dict[str, Tensor], b: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return (functional_call(shell, (p, b), (x,)).predictions - y).square().mean()

    if by_backward:
        torch.vmap(loss, randomness="different")(
            parameters, buffers, images, angles
        ).sum().backward()
        gradients = {k: p.grad for k, p in parameters.items()}
    else:
        gradients = torch.vmap(torch.func.grad(loss), randomness="different")(
            parameters, buffers, images, angles
        )
    stacked = {**gradients, **buffers}
    for i, network in enumerate(networks):
        expected = one_step(network, images[i], angles[i])
        assert expected.keys() == stacked.keys()
        for name, value in expected.items():
            torch.testing.assert_close(stacked[name][i], value, rtol=1e-4, atol=1e-5, msg=name)
    if norm == "batch":
        assert all((n == 1).all() for k, n in buffers.items() if k.endswith("tracked"))


@pytest.mark.parametrize("kind", ["resnet8", "fadnet"])
def test_silos_of_a_stack_have_their_own_dropout(kind: str) -> None:
    network = build_network(kind, 40, 1, "group", 0.5)
    parameters, buffers = stack_module_state([network, network])
    images = pictures(40).expand(2, -1, -1, -1, -1)

    def call(p: dict[str, Tensor], b: dict[str, Tensor], x: Tensor) -> Output:
        return functional_call(network, (p, b), (x,))

    stack = torch.vmap(call, randomness="different")
    output = stack(parameters, buffers, images)
    assert not torch.allclose(output.predictions[0], output.predictions[1])
    torch.testing.assert_close(output.features[0], output.features[1])
    network.eval()
    output = stack(parameters, buffers, images)
    torch.testing.assert_close(output.predictions[0], output.predictions[1])


@pytest.mark.parametrize("kind", ["mobilenet_v2", "inception_v3"])
def test_torchvisions_networks_have_our_normalisation(kind: str) -> None:
    """Of batches or of groups, as it was asked for, and in a way that torch.vmap takes."""
    for norm, ours in (("batch", BatchNorm), ("group", GroupNorm)):
        modules = [*build_network(kind, 96, 1, norm=norm).modules()]
        assert sum(type(m) is ours for m in modules) > 40
        assert not any(type(m) is nn.BatchNorm2d for m in modules)


def test_group_normalisation_is_torchs_to_the_last_bit() -> None:
    """Whatever the layout in memory: contiguous, channels last, cut out, one pixel; forward and backward."""
    torch.manual_seed(0)
    norm = GroupNorm(GROUPS, 32)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    whole = torch.randn(4, 32, 9, 7)
    last = whole.contiguous(memory_format=torch.channels_last)
    for images in (whole, last, whole[:, :, ::2], last[:, :, 1:], whole[..., :1, :1], whole[:1]):
        x, y = (images.detach().requires_grad_() for _ in range(2))
        found, wanted = norm(x), F.group_norm(y, GROUPS, norm.weight, norm.bias, norm.eps)
        assert torch.equal(found, wanted) and found.stride() == wanted.stride()
        slope = torch.randn_like(found)
        (back,), (expected,) = (
            torch.autograd.grad(z, i, slope) for z, i in ((found, x), (wanted, y))
        )
        assert torch.equal(back, expected)
