"""FADNet, federated autonomous driving network (Nguyen et al. 2022), in the layout of its current public release.

ResNet-8's stem and blocks; three support taps, each a 1x1 convolution to 256 channels of the INPUT of a block, strided
to the side f of the final map, averaged over adjacent pairs of the flattened 256 f^2 values; one linear map 3 -> 1,
shared by all D = 128 f^2 positions, accumulates the taps; the prediction is the mean over the positions of
(block feature x accumulated support). There is no fully connected head:

    h [B, 128, f, f]  last block;   r = ReLU(linear f -> f along the width of h)   [B, D]
    s [B, D]          = w1 tap1 + w2 tap2 + w3 tap3 + bias
    prediction [B]    = mean over D of channel_dropout(r) * s

341,980 parameters at 200x200x1 (the paper's table says 317,729, which no release has). Images are scaled to [0, 1].
`plus` is the release's second variant, 336,709 parameters: taps in place of the blocks' shortcuts, r = ReLU(h),
and a linear D -> 1 in place of the mean.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedsuite.driving.model.layers import Norm, Output, ceil_div, check_images
from fedsuite.driving.model.resnet8 import WIDTHS, Stem, block_sizes, residual_blocks

TAP_CHANNELS = 2 * WIDTHS[-1]


class Tap(nn.Module):
    """Input of a block [B, C, n, n] -> support [B, D], D = 128 f^2, averaged over adjacent pairs."""

    def __init__(self, channels: int, size: int, final: int) -> None:
        super().__init__()
        # ceil(n / stride) = f for the smallest stride that does not give more: 7, 4 and 2 at 200 pixels.
        self.conv = nn.Conv2d(channels, TAP_CHANNELS, 1, stride=ceil_div(size, final))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).flatten(1).unflatten(1, (-1, 2)).mean(-1)


class FADNet(nn.Module):
    """Images float32 [B, C, H, W] in 0..255 -> Output; its features are r, before dropout."""

    def __init__(
        self, image_size: int, channels: int, norm: Norm, dropout: float, *, plus: bool = False
    ) -> None:
        super().__init__()
        sizes = block_sizes(image_size)
        final = sizes[-1]
        self.image_size, self.channels = image_size, channels
        self.stem = Stem(image_size, channels)
        self.blocks = residual_blocks(image_size, norm, shortcut=not plus)
        self.taps = nn.ModuleList(Tap(WIDTHS[i], sizes[i], final) for i in range(3))
        self.accumulate = nn.Linear(3, 1)
        self.width = None if plus else nn.Linear(final, final)
        self.dropout = nn.Dropout2d(dropout)
        self.head = nn.Linear(WIDTHS[-1] * final**2, 1) if plus else None

    def forward(self, images: Tensor) -> Output:
        check_images(images, self.channels, self.image_size)
        x = self.stem(images * (1.0 / 255.0))
        supports = []
        for tap, block in zip(self.taps, self.blocks, strict=True):
            supports.append(tap(x))
            x = block(x)
        maps = F.relu(x if self.width is None else self.width(x))
        support = self.accumulate(torch.stack(supports, dim=-1)).squeeze(-1)
        product = self.dropout(maps).flatten(1) * support
        predictions = product.mean(-1) if self.head is None else self.head(product).squeeze(-1)
        return Output(predictions, maps.flatten(1))
