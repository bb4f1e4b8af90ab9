"""Two networks per silo: the backbone, which is shared with other silos and steers, and the sub-network, which stays.

Do et al. 2024 draw and count two complete networks (629,314 parameters with ResNet-8 at 200x200x1). Their public code
shares ResNet-8's stem and pool between two copies of the rest (628,482): `share_stem`, where the sub-network's loss
reaches the shared stem too. In both cases `pair.backbone` is a complete network, the only one that travels and infers.
State names begin with "backbone." or "sub.".
"""

import copy
from typing import NamedTuple

from torch import Tensor, nn

from fedsuite.driving.layers import Norm, Output
from fedsuite.driving.networks import NetworkKind, build_network
from fedsuite.driving.resnet8 import ResNet8, Trunk
from fedsuite.errors import InputError


class PairOutput(NamedTuple):
    """What both networks say about the same images."""

    backbone: Output
    sub: Output


class TwoNetworks(nn.Module):
    """Two complete networks: images float32 [B, C, H, W] in 0..255 -> PairOutput."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.sub = copy.deepcopy(backbone)

    def forward(self, images: Tensor) -> PairOutput:
        return PairOutput(self.backbone(images), self.sub(images))


class SharedStem(nn.Module):
    """A complete ResNet-8 and a second trunk on its stem: images [B, C, H, W] in 0..255 -> PairOutput."""

    def __init__(self, backbone: ResNet8) -> None:
        super().__init__()
        self.backbone = backbone
        self.sub: Trunk = copy.deepcopy(backbone.trunk)

    def forward(self, images: Tensor) -> PairOutput:
        shared = self.backbone.stem_output(images)
        return PairOutput(self.backbone.trunk(shared), self.sub(shared))


Pair = TwoNetworks | SharedStem


def build_pair(
    kind: NetworkKind,
    image_size: int,
    channels: int,
    norm: Norm = "batch",
    dropout: float = 0.5,
    seed: int = 0,
    share_stem: bool = False,
) -> Pair:
    """A backbone as `build_network` makes it and a sub-network that begins as its copy.

    Raises:
        InputError: as `build_network`; or `share_stem` with an architecture that has no such stem.
    """
    backbone = build_network(kind, image_size, channels, norm, dropout, seed)
    if not share_stem:
        return TwoNetworks(backbone)
    if not isinstance(backbone, ResNet8):
        raise InputError(
            f"share-stem = true: only resnet8 can share its stem, got {kind}; set share-stem = false"
        )
    return SharedStem(backbone)


def copy_backbone(pair: Pair) -> None:
    """Copy the backbone's parameters and buffers into the sub-network's own tensors.

    By value, so that an optimiser of the sub-network goes on holding the tensors it updates. With a shared stem
    there is no second stem to fill.
    """
    source = pair.backbone.trunk if isinstance(pair, SharedStem) else pair.backbone
    pair.sub.load_state_dict(source.state_dict())
