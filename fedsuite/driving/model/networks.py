"""Steering networks by name, built the same way from a seed, whatever else has drawn random numbers.

Every network maps float32 images [B, C, H, W] in 0..255 to Output(predictions [B], features [B, D]) and scales its
input itself. The predicted angle is left positive, in the unit of the labels. All of them run under
torch.func.functional_call, and under torch.vmap with parameters AND buffers stacked over silos: BatchNorm then updates
every silo's running statistics in place, and randomness="different" gives every silo its own dropout mask.

Each is a row of `STEERING_NETWORKS`, a function or class of (image_size, channels, norm, dropout); `network.model =
"module:NAME"` names one's own, whose `norm` is to be heeded (`layers.norm_layer`). One with `shares_stem = True` may
have what is under `stem.` in common with the sub-network.

With BatchNorm, training needs more than one image per batch where the last map is a single pixel (ResNet-8 up to
37 pixels).
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from fedsuite.driving.model.fadnet import FADNet
from fedsuite.driving.model.layers import SMALLEST, Norm, Output, check_size, count_parameters
from fedsuite.driving.model.resnet8 import ResNet8
from fedsuite.driving.model.torchvision_nets import inception, mobilenet, vgg16_reduced
from fedsuite.errors import InputError
from fedsuite.randomness import torch_generator_for
from fedsuite.settings.values import chosen, shown

__all__ = ["Norm", "Output", "build_network", "count_parameters"]

TAKES = ("image_size", "channels", "norm", "dropout")
STEERING_NETWORKS: Mapping[str, Callable[[int, int, Norm, float], nn.Module]] = {
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
    global generator is left as it was. InputError: images too small for the architecture, or no such network.
    """
    make = chosen("network.model", kind, STEERING_NETWORKS, TAKES)
    check_size(image_size, SMALLEST, kind)
    state = torch_generator_for(seed, "steering network").initial_seed()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(state)
        made: nn.Module = make(image_size, channels, norm, dropout)
    if not isinstance(made, nn.Module):
        raise InputError(
            f"network.model: {shown(kind)} makes a {type(made).__name__}, expected a torch.nn.Module"
        )
    return made
