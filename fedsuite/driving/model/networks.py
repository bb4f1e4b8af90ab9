"""Steering networks by name, built the same way from a seed, whatever else has drawn random numbers.

Every network maps float32 images [B, C, H, W] in 0..255 to Output(predictions [B], features [B, D]) and scales its
input itself. The predicted angle is left positive, in the unit of the labels. All of them run under
torch.func.functional_call, and under torch.vmap with parameters AND buffers stacked over silos: BatchNorm then updates
every silo's running statistics in place, and randomness="different" gives every silo its own dropout mask.

With BatchNorm, training needs more than one image per batch where the last map is a single pixel (ResNet-8 up to
37 pixels).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, get_args

import torch
from torch import nn

from fedsuite.driving.model.fadnet import FADNet
from fedsuite.driving.model.layers import Norm, Output, count_parameters, model_bits
from fedsuite.driving.model.resnet8 import ResNet8
from fedsuite.driving.model.torchvision_nets import inception, mobilenet, vgg16_reduced
from fedsuite.errors import InputError
from fedsuite.randomness import torch_generator_for

__all__ = ["NetworkKind", "Norm", "Output", "build_network", "count_parameters", "model_bits"]

NetworkKind = Literal["resnet8", "fadnet", "fadnet_plus", "inception_v3", "mobilenet_v2", "vgg16"]
Maker = Callable[[int, int, Norm, float], nn.Module]


def _fadnet_plus(image_size: int, channels: int, norm: Norm, dropout: float) -> nn.Module:
    return FADNet(image_size, channels, norm, dropout, plus=True)


_MAKERS: Mapping[str, Maker] = MappingProxyType(
    {
        "resnet8": ResNet8,
        "fadnet": FADNet,
        "fadnet_plus": _fadnet_plus,
        "inception_v3": inception,
        "mobilenet_v2": mobilenet,
        "vgg16": vgg16_reduced,
    }
)


def minimum_size(kind: str) -> int:
    """Smallest image side that `kind` takes, pixels."""
    return 75 if kind == "inception_v3" else 32


def build_network(
    kind: NetworkKind,
    image_size: int,
    channels: int,
    norm: Norm = "batch",
    dropout: float = 0.5,
    seed: int = 0,
) -> nn.Module:
    """A network with random initial weights, in training mode; equal arguments give equal bytes.

    Args:
        kind: which architecture.
        image_size: side of the square images, pixels.
        channels: 1 (grey) or 3 (RGB).
        norm: BatchNorm, or GroupNorm, which keeps no statistics of the data.
        dropout: probability before the output.
        seed: of the initial weights; torch's global generator is left as it was.

    Raises:
        InputError: a value outside of what the architecture takes.
    """
    _check(kind, image_size, channels, norm, dropout)
    state = torch_generator_for(seed, "steering network").initial_seed()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(state)
        return _MAKERS[kind](image_size, channels, norm, dropout)


def _check(kind: str, image_size: int, channels: int, norm: str, dropout: float) -> None:
    if kind not in _MAKERS:
        raise InputError(f"network = {kind!r}: expected one of {', '.join(_MAKERS)}")
    if image_size < minimum_size(kind):
        raise InputError(
            f"image-size = {image_size}: {kind} needs at least {minimum_size(kind)} pixels; "
            "prepare larger images or choose resnet8"
        )
    if channels not in (1, 3):
        raise InputError(f"channels = {channels}: expected 1 (grey) or 3 (RGB)")
    if norm not in get_args(Norm):
        raise InputError(f"norm = {norm!r}: expected one of {', '.join(get_args(Norm))}")
    if not 0.0 <= dropout < 1.0:
        raise InputError(f"dropout = {dropout}: expected a probability in [0, 1)")
