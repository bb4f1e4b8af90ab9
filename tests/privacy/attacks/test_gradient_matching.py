"""Pictures from gradients: found where the first layer is linear; needed labels are asked for; distances by hand."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from fedsuite.privacy.attacks.gradient_matching import (
    DLG,
    GEIPING,
    IDLG,
    Method,
    angular,
    reconstruct,
    squared,
    total_variation,
)
from fedsuite.privacy.likeness import grey_psnr, psnr, ssim

SIDE = 12
BARE = dataclasses.replace(GEIPING, variation=0.0)


class Victim:
    """A network whose first layer is linear, one picture with its label, and the gradient that it leaves."""

    def __init__(self, batch: int = 1) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(SIDE * SIDE, 16), nn.Sigmoid(), nn.Linear(16, 1)
        ).double()
        generator = torch.Generator().manual_seed(1)
        self.pictures = torch.rand(batch, 1, SIDE, SIDE, generator=generator, dtype=torch.float64)
        self.labels = torch.linspace(0.3, 0.7, batch, dtype=torch.float64)
        self.weights = list(self.net.parameters())
        self.seen = torch.autograd.grad(self.loss(self.pictures, self.labels), self.weights)

    def loss(self, pictures: Tensor, labels: Tensor) -> Tensor:
        return (self.net(pictures)[:, 0] - labels).square().mean()


@pytest.mark.parametrize(
    ("method", "least"),
    [(DLG, 60), (IDLG, 60), (BARE, 60), (GEIPING, 35)],
    ids=lambda v: str(v)[:16],
)
def test_a_linear_first_layer_is_inverted(method: Method, least: float) -> None:
    victim = Victim()
    labels = victim.labels if method.knows_labels else None
    found = reconstruct(
        victim.loss, victim.weights, victim.seen, (1, 1, SIDE, SIDE), labels,
        dataclasses.replace(method, steps=min(method.steps, 1000)), torch.Generator().manual_seed(3),
    )  # fmt: skip
    truth = victim.pictures[0].numpy()
    assert psnr(found.pictures[0].numpy(), truth) > least
    assert grey_psnr(truth) < 12
    assert ssim(found.pictures[0].numpy(), truth) > 0.99
    assert found.labels[0].item() == pytest.approx(0.3, abs=1e-6)
    assert found.distance < 1e-4


def test_a_gradient_of_another_picture_gives_another_picture() -> None:
    victim, other = Victim(), Victim()
    other.pictures = 1 - other.pictures
    seen = torch.autograd.grad(other.loss(other.pictures, other.labels), other.weights)
    generator = torch.Generator().manual_seed(3)
    found = reconstruct(
        victim.loss, victim.weights, seen, (1, 1, SIDE, SIDE), victim.labels, IDLG, generator
    )
    assert psnr(found.pictures[0].numpy(), victim.pictures[0].numpy()) < 12
    assert psnr(found.pictures[0].numpy(), other.pictures[0].numpy()) > 60


def test_equal_generators_give_equal_pictures() -> None:
    victim = Victim()
    short = dataclasses.replace(GEIPING, steps=5)
    given = victim.loss, victim.weights, victim.seen, (1, 1, SIDE, SIDE), victim.labels, short
    one, two, third = (reconstruct(*given, torch.Generator().manual_seed(s)) for s in (3, 3, 4))
    assert torch.equal(one.pictures, two.pictures) and not torch.equal(one.pictures, third.pictures)
    assert float(one.pictures.min()) >= 0 and float(one.pictures.max()) <= 1


def test_distances_by_hand() -> None:
    one = [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]
    two = [torch.tensor([0.0, 5.0]), torch.tensor([[5.0]])]
    assert squared(one, two).item() == 9 + 25 + 1
    assert angular(one, two).item() == pytest.approx(1 - 20 / (5 * 50**0.5))
    assert angular(one, [7 * t for t in one]).item() == pytest.approx(0, abs=1e-6)
    picture = torch.tensor([[[[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]]])
    assert total_variation(picture).item() == pytest.approx(1 / 3 + 2.5 / 4)


def test_labels_that_are_needed_are_asked_for() -> None:
    victim = Victim()
    with pytest.raises(ValueError, match="iDLG needs the labels"):
        reconstruct(
            victim.loss,
            victim.weights,
            victim.seen,
            (1, 1, SIDE, SIDE),
            None,
            IDLG,
            torch.Generator(),
        )
