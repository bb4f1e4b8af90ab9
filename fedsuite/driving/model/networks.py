"""Steering networks by name, built the same way from a seed, whatever else has drawn random numbers.

Every network maps float32 images [B, C, H, W] in 0..255 to Output(predictions [B], features [B, D]) and scales its
input itself. The predicted angle is left positive, in the unit of the labels. All of them run under
torch.func.functional_call, and under torch.vmap with parameters AND buffers stacked over silos: BatchNorm then updates
every silo's running statistics in place, and randomness="different" gives every silo its own dropout mask.

With BatchNorm, training needs more than one image per batch where the last map is a single pixel (ResNet-8 up to
37 pixels).
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from fedsuite.driving.model.fadnet import FADNet
from fedsuite.driving.model.layers import Norm, Output, count_parameters
from fedsuite.driving.model.resnet8 import ResNet8
from fedsuite.driving.model.torchvision_nets import inception, mobilenet, vgg16_reduced
from fedsuite.errors import InputError
from fedsuite.randomness import torch_generator_for

__all__ = ["Norm", "Output", "build_network", "count_parameters"]


_MAKERS: Mapping[str, Callable[[int, int, Norm, float], nn.Module]] = {
    "resnet8": ResNet8,
    "fadnet": FADNet,
    "fadnet_plus": partial(FADNet, plus=True),
    "inception_v3": inception,
    "mobilenet_v2": mobilenet,
    "vgg16": vgg16_reduced,
}


def build_network(
    kind: str,
    image_size: int,
    channels: int,
    norm: Norm = "batch",
    dropout: float = 0.5,
    seed: int = 0,
) -> nn.Module:
    """A network with random initial weights, in training mode; equal arguments give equal bytes.

    norm: BatchNorm, or GroupNorm, which keeps no statistics of the data; dropout: probability before the output; torch's
    global generator is left as it was. InputError: images too small for the architecture.
    """
    smallest = 75 if kind == "inception_v3" else 32
    if image_size < smallest:
        raise InputError(
            f"image-size = {image_size}: {kind} needs at least {smallest} pixels; "
            "prepare larger images or choose resnet8"
        )
    state = torch_generator_for(seed, "steering network").initial_seed()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(state)
        return _MAKERS[kind](image_size, channels, norm, dropout)
