"""Linear layers give their inputs away: one example exactly, in CDL and FedVLN, and what is left of several and of signs."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedsuite.driving.model.networks import build_network
from fedsuite.privacy.attacks.inversion import (
    best_match,
    common_input,
    first_step_undone,
    gradient_rank,
    label_of_one,
    rows_over_bias,
    sent_before_mixing,
    unexplained,
)
from fedsuite.privacy.likeness import cosine
from tests.bar_frames import bar_frames


def gradients_of(batch: int, outputs: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs [n, I] and the gradients of a layer behind which a tanh and a sum of squares lie."""
    torch.manual_seed(2)
    layer, x = torch.nn.Linear(7, outputs), torch.randn(batch, 7)
    torch.tanh(layer(x)).square().sum().backward()
    assert layer.weight.grad is not None and layer.bias.grad is not None
    return x.numpy(), layer.weight.grad.numpy(), layer.bias.grad.numpy()


def test_every_row_of_one_example_is_its_input() -> None:
    x, weight, bias = gradients_of(1)
    for row in (*rows_over_bias(weight, bias), common_input(weight, bias)):
        assert row == pytest.approx(x[0], abs=1e-5)
    assert unexplained(weight, bias) < 1e-6


def test_rows_of_several_are_means_by_their_share_of_the_bias() -> None:
    weight = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 2.0]])  # rows: 1 x_1 + 0 x_2, ...
    x = np.array([[1.0, 0.0, 2.0], [1.0, 3.0, 0.0]])
    delta = np.array([[1.0, 3.0], [2.0, -1.0]])  # [n, O]
    weight, bias = delta.T @ x, delta.sum(0)
    assert rows_over_bias(weight, bias) == pytest.approx(
        np.array([(x[0] + 2 * x[1]) / 3, (3 * x[0] - x[1]) / 2])
    )
    left = weight - np.outer(bias, bias @ weight / (bias @ bias))
    assert unexplained(weight, bias) == pytest.approx(np.sqrt((left**2).sum() / (weight**2).sum()))
    assert unexplained(weight, bias) > 0.3


@pytest.mark.parametrize(("batch", "rank"), [(1, 1), (3, 3), (6, 6), (20, 7)])
def test_rank_counts_examples_up_to_the_size_of_the_layer(batch: int, rank: int) -> None:
    _, weight, _ = gradients_of(batch, outputs=30)
    assert gradient_rank(weight) == rank
    assert gradient_rank(np.zeros((3, 4))) == 0


def test_rows_whose_bias_stood_still_are_left_out() -> None:
    weight, bias = np.ones((3, 2)), np.array([0.5, 0.0, 1e-30])
    assert rows_over_bias(weight, bias).shape == (1, 2)
    with pytest.raises(ValueError, match="did not move"):
        common_input(weight, np.zeros(3))
    with pytest.raises(ValueError, match="expected gradients"):
        common_input(weight, np.zeros(2))


def head_gradient(size: int, dropout: float = 0.0) -> dict[str, Any]:
    """A batch through ResNet-8: features [B, D], predictions, angles, weights and gradients of its head."""
    frames = bar_frames(3, size)
    network = build_network("resnet8", 40, 1, norm="group", dropout=dropout, seed=1)
    images, angles = torch.from_numpy(frames.images).float(), torch.from_numpy(frames.angles)
    output = network(images)
    F.mse_loss(output.predictions, angles).backward()
    head: Any = network.trunk.head
    return {
        "features": output.features.detach().numpy(),
        "predictions": output.predictions.detach().numpy(),
        "angles": frames.angles,
        "head": [head.weight.detach().numpy(), head.bias.detach().numpy()],
        "gradient": [head.weight.grad.numpy(), head.bias.grad.numpy()],
    }


def test_a_batch_of_one_gives_a_silo_s_features_and_angle_away() -> None:
    seen = head_gradient(1)
    found = common_input(*seen["gradient"])
    assert cosine(found, seen["features"][0]) == pytest.approx(1, abs=1e-6)
    assert label_of_one(*seen["head"], *seen["gradient"]) == pytest.approx(
        float(seen["angles"][0]), abs=1e-5
    )
    by_hand = seen["predictions"][0] - seen["gradient"][1][0] / 2
    assert by_hand == pytest.approx(seen["angles"][0], abs=1e-6)


def test_a_batch_of_several_gives_a_mixture() -> None:
    seen = head_gradient(2)
    found = common_input(*seen["gradient"])
    shares = 2 * (seen["predictions"] - seen["angles"]) / 2
    mixture = shares @ seen["features"] / shares.sum()
    assert found == pytest.approx(mixture, rel=1e-3, abs=1e-4)
    assert best_match(found, seen["features"]) < 0.9999


def test_of_features_behind_dropout_the_kept_ones_are_seen() -> None:
    torch.manual_seed(8)
    seen = head_gradient(1, dropout=0.5)
    found, features = common_input(*seen["gradient"]), seen["features"][0]
    kept = found != 0
    assert 0.3 < kept.mean() / (features > 0).mean() < 0.7
    assert found[kept] == pytest.approx(2 * features[kept], rel=1e-4)


@pytest.mark.parametrize("kind", ["adam", "rmsprop", "sgd"])
def test_a_first_step_sends_signs_of_which_the_support_survives(kind: str) -> None:
    seen = head_gradient(1)
    weight, bias = (torch.tensor(g) for g in seen["gradient"])
    leaves = [torch.zeros_like(t).requires_grad_() for t in (weight, bias)]
    for leaf, gradient in zip(leaves, (weight, bias), strict=True):
        leaf.grad = gradient.clone()
    makers = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD}
    makers[kind](leaves, lr=1e-3).step()
    sent = [leaf.detach().numpy() for leaf in leaves]
    features = seen["features"][0]
    found = common_input(*sent)
    if kind == "sgd":
        assert cosine(found, features) == pytest.approx(1, abs=1e-6)
        return
    rate = {"adam": 1e-3, "rmsprop": 1e-2}[kind]  # RMSprop's mean square begins as a hundredth
    large = np.abs(seen["gradient"][0]) > 1e-4
    assert sent[0][large] == pytest.approx(-rate * np.sign(seen["gradient"][0][large]), rel=2e-2)
    assert ((np.abs(found) > 0.5) == (features > 1e-4)).mean() > 0.99  # which features are on
    assert 0.4 < cosine(found, features) < 0.99  # how much, it does not tell


def test_what_a_first_step_lacks_tells_the_gradient() -> None:
    gradient = np.array([3e-6, -2e-8, 0.0, 5e-5, 1.0])
    change = -0.01 * gradient / (np.abs(gradient) + 1e-8)
    found = first_step_undone(change, 0.01, 1e-8)
    assert found[:4] == pytest.approx(gradient[:4], rel=1e-6)
    assert found[4] == pytest.approx(0.1)  # as large as float32 could tell


def test_a_neighbour_on_a_ring_takes_its_own_half_off() -> None:
    rng = np.random.default_rng(0)
    own, theirs = rng.normal(size=(2, 50)).astype(np.float32)
    mixed = (0.5 * own + 0.5 * theirs).astype(np.float32)
    assert sent_before_mixing(mixed, own, 0.5) == pytest.approx(theirs, abs=1e-6)
    with pytest.raises(ValueError, match="share"):
        sent_before_mixing(mixed, own, 0.0)
