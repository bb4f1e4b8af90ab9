"""What masks a gradient of DP-SGD is drawn as secretly as its noise, and never from the run's seed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedsuite.averaging.privacy_settings import PrivacySettings
from fedsuite.privacy.example_level import AT_ONCE, NoisedSteps
from fedsuite.privacy.masks import draws_of
from tests.privacy import private_regression
from tests.privacy.private_regression import play

CPU = torch.device("cpu")
QUIET = PrivacySettings(unit="example", clip=1e6, noise_multiplier=1e-15)
WHOLE = {"unit": "example", "batch-size": 1000, "clip": 10.0, "noise_multiplier": 1e-6}


def test_torch_draws_as_a_mersenne_twister_of_that_state_does() -> None:
    """NumPy's own, whose 624 words are the next of the generator; torch's is afterwards where it was."""
    before = torch.get_rng_state()
    with draws_of(np.random.default_rng(4), CPU):
        found = torch.empty(1500, dtype=torch.int32).random_(0, 2**20)
    words = np.random.default_rng(4).integers(2**32, size=624, dtype=np.uint64)
    twin = np.random.MT19937()
    state = {"key": words.astype(np.uint32), "pos": 624}
    twin.state = {"bit_generator": "MT19937", "state": state}
    np.testing.assert_array_equal(found.numpy(), twin.random_raw(1500) % 2**20)
    assert torch.equal(before, torch.get_rng_state())


def gradients(own: int, public: int) -> Tensor:
    """Of a network that is nothing but dropout before a sum; more examples than are held at once."""
    model = nn.Sequential(nn.Linear(40, 1, bias=False), nn.Flatten())

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, parameters, (nn.functional.dropout(x[None], 0.5),)).sum()

    torch.manual_seed(public)
    steps = NoisedSteps(QUIET, 10, 100, np.random.default_rng(own))
    return steps.gradients(loss, {"0.weight": torch.zeros(1, 40)}, (torch.ones(AT_ONCE + 4, 40),))[
        "0.weight"
    ]


def test_masks_follow_the_generator_of_the_noise_alone() -> None:
    """Torch's seed says nothing of them; each of the 20 examples has a mask of its own, kept numbers are doubled."""
    assert torch.equal(gradients(1, 7), gradients(1, 8))
    assert not torch.equal(gradients(1, 7), gradients(2, 7))
    kept = gradients(1, 7).numpy() * 10 / 2  # how many of the 20 kept a number
    np.testing.assert_allclose(kept, kept.round(), atol=1e-4)
    assert 6 < kept.mean() < 14 and len(np.unique(kept.round())) > 4


@pytest.mark.parametrize("dropped", [False, True])
def test_masks_of_a_client_are_no_bytes_of_the_run(
    dropped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every example in every batch and no noise to speak of: secret runs are equal but for their masks."""

    class Masked(private_regression.Counting):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(nn.functional.dropout(x, 0.5 * dropped, self.training))

    monkeypatch.setattr(private_regression, "Counting", Masked)
    from safetensors.numpy import load_file

    runs = [play(tmp_path, f"r{k}", **WHOLE, noise="secret", num_rounds=1) for k in (1, 2)]
    one, two = (load_file(run.model)["weight"] for run in runs)
    assert np.allclose(one, two, atol=1e-5) != dropped
    runs = [play(tmp_path, f"s{k}", **WHOLE, num_rounds=1) for k in (1, 2)]
    one, two = (load_file(run.model)["weight"] for run in runs)
    assert one.tobytes() == two.tobytes()
