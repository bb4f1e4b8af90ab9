"""What the steering networks share: their output, "same" padding as TensorFlow pads, normalisation, input scaling.

With input size n, kernel k and stride s, "same" padding gives ceil(n / s) outputs: in total
max(0, (ceil(n / s) - 1) s + k - n) zeros, the smaller half before and the rest after (DroNet, Loquercio et al. 2018,
was written for that; torch's symmetric padding shifts the image by a pixel wherever the total is odd).

Convolutions and linear layers keep torch's initial law: weight and bias uniform in +-1 / sqrt(fan_in).
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedsuite.errors import InputError

Norm = Literal["batch", "group"]
SMALLEST = 32  # pixels, of every network
GROUPS = 8  # divides every channel count of the networks here


class Output(NamedTuple):
    """predictions [B]: steering, left positive; features [B, D]: last representation, after ReLU, before dropout."""

    predictions: Tensor
    features: Tensor


def ceil_div(size: int, by: int) -> int:
    """ceil(size / by), which is also the output size of a "same" convolution of stride `by`."""
    return -(-size // by)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after one axis of `size` pixels."""
    total = max(0, (ceil_div(size, stride) - 1) * stride + kernel - size)
    return total // 2, total - total // 2


class SameConv2d(nn.Conv2d):
    """Convolution [B, C, size, size] -> [B, out, ceil(size / stride), same], padded as TensorFlow does."""

    def __init__(self, channels: int, out: int, kernel: int, *, size: int, stride: int = 1) -> None:
        before, after = same_padding(size, kernel, stride)
        # One call is cheaper than padding first; only an odd total needs the extra copy.
        super().__init__(channels, out, kernel, stride, padding=before if before == after else 0)
        self.extra = (before, after, before, after) if before != after else None

    def forward(self, input: Tensor) -> Tensor:
        if self.extra is not None:
            input = F.pad(input, self.extra)
        return super().forward(input)


class BatchNorm(nn.BatchNorm2d):
    """torch's, called in training in a way that torch.vmap takes on a GPU too: not all versions take F.batch_norm there."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        if input.shape[0] * input.shape[2] * input.shape[3] == 1:
            raise ValueError(f"expected more than one value per channel, got {tuple(input.shape)}")
        assert self.num_batches_tracked is not None and self.momentum is not None
        self.num_batches_tracked.add_(1)
        own = self.weight, self.bias, self.running_mean, self.running_var
        return torch.native_batch_norm(input, *own, True, self.momentum, self.eps)[0]


class GroupNorm(nn.GroupNorm):
    """torch's, called in a way that torch.vmap takes: torch before 2.14 does not take F.group_norm of pictures there."""

    def forward(self, input: Tensor) -> Tensor:
        n, c, h, w = input.shape
        # Channels last in memory stay there.
        if input.device.type == "cpu" and input.stride(1) == 1:
            input = input.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        else:
            input = input.contiguous()
        sizes = n, c, h * w, self.num_groups
        return torch.native_group_norm(input, self.weight, self.bias, *sizes, self.eps)[0]


def norm_layer(norm: Norm, channels: int) -> nn.Module:
    """BatchNorm with running statistics, or GroupNorm, which has no buffers and mixes like any other weight."""
    return GroupNorm(GROUPS, channels) if norm == "group" else BatchNorm(channels)


def centred(images: Tensor) -> Tensor:
    """[B, C, H, W] in 0..255 -> [-1, 1]. No ReLU follows: it would turn the darker half of all greys into 0."""
    return images * (2.0 / 255.0) - 1.0


def channels_last(images: Tensor) -> Tensor:
    """[B, C, H, W] in channels-last memory, in which convolutions on a CPU take half the time.

    Of a grey image both formats have the same memory and torch decides by strides: say them, or the format is lost.
    """
    images = images.contiguous(memory_format=torch.channels_last)
    _, c, h, w = images.shape
    return images.as_strided(images.shape, (c * h * w, 1, w * c, c))


def check_images(images: Tensor, channels: int, size: int) -> None:
    """The right shape, or an error that says which was expected."""
    if images.ndim != 4 or tuple(images.shape[1:]) != (channels, size, size):
        raise ValueError(
            f"images: expected [B, {channels}, {size}, {size}], got {tuple(images.shape)}; "
            "build the network with the data's image size and channels"
        )


def check_size(size: int, least: int, network: str) -> None:
    """InputError for images too small for an architecture."""
    if size < least:
        raise InputError(
            f"image-size = {size}: {network} needs at least {least} pixels; prepare larger images or choose resnet8"
        )


def count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def replace_norms(module: nn.Module, norm: Norm) -> None:
    """Put our own normalisation where `module` holds BatchNorm2d, at any depth, in place; it has learnt nothing yet."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            size, eps = child.num_features, child.eps
            own = BatchNorm(size, eps, child.momentum)
            setattr(module, name, GroupNorm(GROUPS, size, eps) if norm == "group" else own)
        else:
            replace_norms(child, norm)
