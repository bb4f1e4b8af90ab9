"""ResNet-8, the trunk of DroNet with its steering head (Loquercio et al. 2018): 314,657 parameters at 200x200x1.

    stem     conv 5x5 stride 2 to 32 channels, max pool 3x3 stride 2 without padding
    blocks   three pre-activation residual blocks, stride 2, to 32, 64 and 128 channels:
             norm, ReLU, conv 3x3 stride 2, norm, ReLU, conv 3x3, plus a 1x1 stride 2 convolution of the block's input
    head     flatten, ReLU, dropout, linear D -> 1

At 200 pixels: 100, pool 49, blocks 25, 13, 7, so D = 128 * 7 * 7 = 6,272. Other sizes give another D, nothing else.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from fedsuite.driving.model.layers import (
    Norm,
    Output,
    SameConv2d,
    ceil_div,
    centred,
    check_images,
    norm_layer,
)

WIDTHS = (32, 32, 64, 128)  # channels of the stem and of the three blocks


def block_sizes(image_size: int) -> tuple[int, int, int, int]:
    """Side of the input of blocks 1, 2, 3 and of the final map, pixels."""
    first = (ceil_div(image_size, 2) - 3) // 2 + 1
    second = ceil_div(first, 2)
    third = ceil_div(second, 2)
    return first, second, third, ceil_div(third, 2)


class Stem(nn.Module):
    """Scaled images [B, C, H, W] -> [B, 32, h, w]."""

    def __init__(self, image_size: int, channels: int) -> None:
        super().__init__()
        self.conv = SameConv2d(channels, WIDTHS[0], 5, size=image_size, stride=2)
        self.pool = nn.MaxPool2d(3, stride=2)

    def forward(self, scaled: Tensor) -> Tensor:
        maps = self.conv(scaled)
        # Channels last in memory, which is faster on a CPU (pooling above all). A grey input cannot pass that format on, and
        # contiguous(memory_format=...) does not exist under vmap.
        return self.pool(maps.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2))


class ResidualBlock(nn.Module):
    """[B, C, size, size] -> [B, out, ceil(size / 2), same]; the shortcut starts before the first normalisation."""

    def __init__(
        self, channels: int, out: int, size: int, norm: Norm, *, shortcut: bool = True
    ) -> None:
        super().__init__()
        self.norm1 = norm_layer(norm, channels)
        self.conv1 = SameConv2d(channels, out, 3, size=size, stride=2)
        self.norm2 = norm_layer(norm, out)
        self.conv2 = SameConv2d(out, out, 3, size=ceil_div(size, 2))
        self.shortcut = SameConv2d(channels, out, 1, size=size, stride=2) if shortcut else None

    def forward(self, x: Tensor) -> Tensor:
        inner = self.conv1(F.relu(self.norm1(x)))
        inner = self.conv2(F.relu(self.norm2(inner)))
        return inner if self.shortcut is None else inner + self.shortcut(x)


def residual_blocks(image_size: int, norm: Norm, *, shortcut: bool = True) -> nn.ModuleList:
    sizes = block_sizes(image_size)
    return nn.ModuleList(
        ResidualBlock(WIDTHS[i], WIDTHS[i + 1], sizes[i], norm, shortcut=shortcut) for i in range(3)
    )


class Trunk(nn.Module):
    """All of ResNet-8 behind the stem: [B, 32, h, w] -> Output."""

    def __init__(self, image_size: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.blocks = residual_blocks(image_size, norm)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(WIDTHS[-1] * block_sizes(image_size)[-1] ** 2, 1)

    def forward(self, x: Tensor) -> Output:
        for block in self.blocks:
            x = block(x)
        features = F.relu(x.flatten(1))
        return Output(self.head(self.dropout(features)).squeeze(-1), features)


class ResNet8(nn.Module):
    """Images float32 [B, C, H, W] in 0..255 -> Output."""

    shares_stem = True

    def __init__(self, image_size: int, channels: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.image_size, self.channels = image_size, channels
        self.stem = Stem(image_size, channels)
        self.trunk = Trunk(image_size, norm, dropout)

    def forward(self, images: Tensor) -> Output:
        check_images(images, self.channels, self.image_size)
        return self.trunk(self.stem(centred(images)))
