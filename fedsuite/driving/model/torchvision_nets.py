"""Larger networks of the comparison in Do et al. 2024: Inception-v3, MobileNet-V2 and a reduced VGG-16.

Inception-v3 (no auxiliary head) and MobileNet-V2 are torchvision's, with one output: 21,787,617 and 2,225,153
parameters. They are initialised at random, MobileNet-V2 by torchvision's law, Inception-v3 by torch's (torchvision's
own, a standard deviation of 0.1 in every layer, gives outputs of 1e9 until the running statistics have settled);
nothing is downloaded. Grey images are repeated over three channels, so that architecture and counts do not depend on
the camera.

The reduced VGG-16 of the comparison (7,501,587 parameters) is not published. Here: its 13 convolutions at half width,
one hidden layer of 400, no normalisation, He initialisation; 7,367,361 parameters at 200 pixels.
"""

from torch import Tensor, nn

from fedsuite.driving.model.layers import (
    Norm,
    Output,
    centred,
    check_images,
    check_size,
    replace_norms,
)

VGG_WIDTHS = ((32, 32), (64, 64), (128, 128, 128), (256, 256, 256), (256, 256, 256))
VGG_HIDDEN = 400


class PooledNetwork(nn.Module):
    """A trunk that ends in D pooled, non-negative features, then dropout and a linear head.

    Images float32 [B, C, H, W] in 0..255 -> Output.
    """

    def __init__(
        self,
        trunk: nn.Module,
        features: int,
        image_size: int,
        channels: int,
        norm: Norm,
        dropout: float,
    ) -> None:
        super().__init__()
        self.image_size, self.channels = image_size, channels
        self.trunk = trunk
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(features, 1)
        replace_norms(self, norm)

    def forward(self, images: Tensor) -> Output:
        check_images(images, self.channels, self.image_size)
        features = self.trunk(centred(images).expand(-1, 3, -1, -1))  # grey three times, no copy
        return Output(self.head(self.dropout(features)).squeeze(-1), features)


def inception(image_size: int, channels: int, norm: Norm, dropout: float) -> PooledNetwork:
    """Inception-v3 without auxiliary head, D = 2,048; images of at least 75 pixels."""
    check_size(image_size, 75, "inception_v3")
    from torchvision.models import inception_v3  # type: ignore[import-untyped]  # takes seconds

    trunk = inception_v3(weights=None, aux_logits=False, init_weights=False)
    trunk.dropout, trunk.fc = nn.Identity(), nn.Identity()
    return PooledNetwork(trunk, 2048, image_size, channels, norm, dropout)


def mobilenet(image_size: int, channels: int, norm: Norm, dropout: float) -> PooledNetwork:
    """MobileNet-V2, D = 1,280."""
    from torchvision.models import mobilenet_v2

    trunk = mobilenet_v2(weights=None)
    trunk.classifier = nn.Sequential()
    return PooledNetwork(trunk, 1280, image_size, channels, norm, dropout)


def vgg16_reduced(image_size: int, channels: int, norm: Norm, dropout: float) -> PooledNetwork:
    """VGG-16 at half width, D = 400. It has no normalisation, so `norm` changes nothing."""
    layers: list[nn.Module] = []
    width_in, side = 3, image_size
    for group in VGG_WIDTHS:
        for width in group:
            layers += [_he(nn.Conv2d(width_in, width, 3, padding=1)), nn.ReLU()]
            width_in = width
        layers.append(nn.MaxPool2d(2))
        side //= 2
    layers += [nn.Flatten(), _he(nn.Linear(width_in * side**2, VGG_HIDDEN)), nn.ReLU()]
    trunk = nn.Sequential(*layers)
    return PooledNetwork(trunk, VGG_HIDDEN, image_size, channels, norm, dropout)


def _he(layer: nn.Conv2d | nn.Linear) -> nn.Module:
    """13 layers without normalisation need He's scale, or the signal fades."""
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer
