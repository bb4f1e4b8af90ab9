"""Random streams: apart from one another, and always the same."""

import hashlib

import numpy as np
import pytest
import torch

from fedsuite.randomness import rng_for, torch_generator_for

NAMES = [
    (0, "a", 0, 0), (1, "a", 0, 0), (0, "b", 0, 0), (0, "a", 1, 0), (0, "a", 0, 1), (0, "aa", 0, 0), (1, "a", 1, 1),
]  # fmt: skip


def test_a_stream_is_a_function_of_its_name():
    for name in NAMES:
        assert np.array_equal(rng_for(*name).random(5), rng_for(*name).random(5))


def test_streams_differ_by_seed_purpose_round_and_partition():
    first = {tuple(rng_for(*name).integers(2**62, size=2)) for name in NAMES}
    assert len(first) == len(NAMES)
    first = {torch.rand(1, generator=torch_generator_for(*name)).item() for name in NAMES}
    assert len(first) == len(NAMES)


def test_round_and_partition_do_not_swap_or_add_up():
    draws = {rng_for(0, "x", r, p).integers(2**62) for r in range(12) for p in range(12)}
    assert len(draws) == 144


def test_streams_are_those_of_earlier_versions():
    """Whoever changes these numbers makes every recorded run unrepeatable."""
    draws = rng_for(7, "mini-batches", 3, 5).integers(1_000_000, size=3)
    assert draws.tolist() == [345887, 402042, 746861]
    assert torch_generator_for(7, "dropout", 3, 5).initial_seed() == 3994792759162174837


def test_torch_streams_leave_the_global_generator_alone():
    torch.manual_seed(3)
    want = torch.rand(2)
    torch.manual_seed(3)
    torch.rand(4, generator=torch_generator_for(0, "x"))
    assert torch.equal(torch.rand(2), want)


@pytest.mark.parametrize("name", [(-1, "x", 0, 0), (0, "x", -1, 0), (0, "x", 0, -1)])
def test_negative_numbers_are_refused(name):
    with pytest.raises(ValueError, match=">= 0"):
        rng_for(*name)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**63 - 1])
@pytest.mark.parametrize(("round", "partition"), [(0, 0), (3, 2**40)])
def test_a_stream_is_that_of_the_four_numbers(seed: int, round: int, partition: int) -> None:
    """As NumPy itself takes them apart."""
    purpose = int.from_bytes(hashlib.sha256(b"mini-batches").digest()[:8], "little")
    expected = np.random.default_rng(np.random.SeedSequence([seed, purpose, round, partition]))
    found = rng_for(seed, "mini-batches", round, partition)
    assert found.bit_generator.state == expected.bit_generator.state
