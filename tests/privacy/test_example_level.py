"""DP-SGD: gradients of single examples, batches by chance, noise as said, and a ledger of steps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedsuite.averaging.privacy_settings import PrivacySettings
from fedsuite.errors import InputError
from fedsuite.privacy.example_level import (
    AT_ONCE,
    NoisedSteps,
    begin_visit,
    check_hides,
    clipped_sum,
    per_example_gradients,
    sampling_rate,
)
from fedsuite.privacy.ledger import read

OWN = PrivacySettings(unit="example", clip=0.5, noise_multiplier=1.0, noise="seeded", delta=1e-5)


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)
        )


def rows(n: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(n, 2, 5, generator=random), torch.randint(3, (n,), generator=random)


def loss_of(model: nn.Module):
    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])

    return loss


def one_by_one(model: nn.Module, x: Tensor, y: Tensor) -> list[dict[str, Tensor]]:
    """Gradients by plain backward passes."""
    found = []
    for i in range(len(y)):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        found.append({k: p.grad.double() for k, p in model.named_parameters()})
    return found


def steps(
    own: PrivacySettings = OWN, batch: int = 10, examples: int = 100, seed: int = 3
) -> NoisedSteps:
    return NoisedSteps(own, batch, examples, np.random.default_rng(seed))


def test_gradients_of_single_examples_are_those_of_single_passes() -> None:
    model, (x, y) = network(), rows(7)
    found = per_example_gradients(loss_of(model), dict(model.named_parameters()), (x, y))
    for i, want in enumerate(one_by_one(model, x, y)):
        for name, gradient in want.items():
            torch.testing.assert_close(found[name][i].double(), gradient, rtol=1e-4, atol=1e-6)


def test_each_is_clipped_by_the_norm_of_all_its_arrays() -> None:
    gradients = {
        "a": torch.tensor([[3.0, 0.0], [0.03, 0.0], [0.0, 0.0]], dtype=torch.float64),
        "b": torch.tensor([[4.0], [0.04], [0.0]], dtype=torch.float64),
    }
    found = clipped_sum(gradients, 1.0)
    torch.testing.assert_close(
        found["a"], torch.tensor([0.6 + 0.03, 0.0], dtype=torch.float64), atol=1e-12, rtol=0
    )
    torch.testing.assert_close(
        found["b"], torch.tensor([0.8 + 0.04], dtype=torch.float64), atol=1e-12, rtol=0
    )
    torch.testing.assert_close(
        clipped_sum(gradients, 9.0)["b"], torch.tensor([4.04], dtype=torch.float64)
    )
    with pytest.raises(ValueError, match="training diverged: the gradient of an example"):
        clipped_sum({"a": torch.tensor([[np.nan]])}, 1.0)


def test_one_example_more_moves_the_sum_by_the_clipping_norm_at_most() -> None:
    model, (x, y) = network(), rows(20)
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    each = per_example_gradients(loss_of(model), parameters, (x, y))
    whole = clipped_sum(each, 0.5)
    for k in range(20):
        rest = clipped_sum({n: torch.cat([g[:k], g[k + 1 :]]) for n, g in each.items()}, 0.5)
        moved = sum(float((whole[n] - rest[n]).square().sum()) for n in whole) ** 0.5
        assert moved <= 0.5 * (1 + 1e-9)


def test_a_noised_gradient_equals_a_program_of_its_own() -> None:
    """More examples than are held at once; the divisor is what a batch has on average, not what it has."""
    model, (x, y) = network(), rows(2 * AT_ONCE + 3)
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    found = steps().gradients(loss_of(model), parameters, (x, y))
    summed = {k: np.zeros(p.shape) for k, p in parameters.items()}
    for one in one_by_one(model, x, y):
        norm = np.sqrt(sum(float(g.square().sum()) for g in one.values()))
        for name, gradient in one.items():
            summed[name] += gradient.numpy() * min(1, 0.5 / norm)
    rng = np.random.default_rng(3)
    rng.integers(2**32, size=624, dtype=np.uint64)  # what torch draws from, masks.py
    rng.integers(2**63)
    for name in sorted(summed):
        want = (summed[name] + rng.normal(0, 0.5, summed[name].shape)) / 10
        np.testing.assert_allclose(found[name].numpy(), want, atol=1e-6)
        assert found[name].dtype == torch.float32


def test_a_batch_without_examples_is_noise_alone() -> None:
    model = network()
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    noise, wide = {}, steps(replace(OWN, clip=2.0), examples=1000)
    for _ in range(400):
        for name, value in wide.gradients(loss_of(model), parameters, rows(0)).items():
            noise.setdefault(name, []).append(value.numpy().ravel())
    drawn = np.concatenate([np.concatenate(v) for v in noise.values()])
    assert abs(drawn.std() / (1.0 * 2.0 / 10) - 1) < 5 / np.sqrt(2 * drawn.size)
    assert abs(drawn.mean()) < 5 * 0.2 / np.sqrt(drawn.size)


def test_who_is_in_a_batch_is_chance_by_itself() -> None:
    """Every example with q, independently: sizes of batches are binomial, some are empty."""
    own = steps(batch=3, examples=50)
    member = np.zeros((4000, 50), bool)
    for k in range(4000):
        member[k, own.rows()] = True
    sizes, q = member.sum(1), sampling_rate(3, 50)
    assert q == 0.06 and abs(sizes.mean() - 3) < 5 * np.sqrt(50 * q * (1 - q) / 4000)
    assert abs(sizes.var() / (50 * q * (1 - q)) - 1) < 0.15 and sizes.min() == 0
    assert np.abs(member.mean(0) - q).max() < 5 * np.sqrt(q * (1 - q) / 4000)
    assert sampling_rate(60, 50) == 1.0 and len(steps(batch=60, examples=50).rows()) == 50


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm1d(4), nn.InstanceNorm1d(4, track_running_stats=True)]
)
def test_networks_with_statistics_of_the_data_are_refused(layer: nn.Module) -> None:
    check_hides(network())
    with pytest.raises(
        InputError, match=r"privacy\.unit: example, but 1 \(\w+Norm1d\) keeps statistics"
    ):
        check_hides(nn.Sequential(nn.Conv1d(2, 4, 3), layer))


def test_a_visit_is_in_the_ledger_before_its_first_step(tmp_path: Path) -> None:
    """CDL's whole training as 90 visits of 40 steps: epsilon 4.47 at delta 1e-5."""
    own = replace(OWN, noise="secret")
    for number in range(1, 91):
        visit = begin_visit(own, tmp_path, number, 40, 32, 2806, lambda: np.random.default_rng(0))
    ledger = read(tmp_path)
    assert visit.epsilon == ledger.epsilon() == pytest.approx(4.47, abs=0.0051)
    assert {(r.unit, r.count, r.sampling, r.participants) for r in ledger.releases} == {
        ("example", 40, 32 / 2806, 0)
    }
    other = begin_visit(own, tmp_path, 91, 1, 32, 2806, lambda: np.random.default_rng(0))
    assert visit.rng.random() != other.rng.random()  # of the operating system, not of the function


def test_a_visit_above_the_limit_does_not_begin(tmp_path: Path) -> None:
    own = replace(OWN, max_epsilon=3.0)
    seeded = np.random.default_rng
    begin_visit(own, tmp_path, 1, 100, 32, 2806, seeded)
    with pytest.raises(InputError, match=r"privacy\.max-epsilon: round 2 would take .* above 3"):
        begin_visit(own, tmp_path, 2, 10**6, 32, 2806, seeded)
    assert len(read(tmp_path).releases) == 1
