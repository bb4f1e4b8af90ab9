"""Which device a run's key `device` stands for, and what a process's GPU is set to."""

import os
from collections.abc import Iterator

import pytest
import torch

from fedsuite.errors import InputError
from fedsuite.settings.devices import check_device, device_of


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """torch says that there is one; what is set for it is put back."""
    flags = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [own.allow_tf32 for own in flags]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", SET.append)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    SET.clear()
    yield monkeypatch
    for own, value in zip(flags, before, strict=True):
        own.allow_tf32 = value


SET: list[bool] = []


@pytest.mark.parametrize("device", ["auto", "cuda"])
@pytest.mark.parametrize(("precision", "tf32"), [("float32", False), ("tf32", True)])
def test_a_gpu_repeats_itself_in_the_precision_that_is_set(
    gpu: pytest.MonkeyPatch, device: str, precision: str, tf32: bool
) -> None:
    check_device(device)
    assert device_of(device, precision) == "cuda"
    assert torch.backends.cuda.matmul.allow_tf32 is torch.backends.cudnn.allow_tf32 is tf32
    assert SET == [True] and torch.backends.cudnn.benchmark is False
    assert torch.utils.deterministic.fill_uninitialized_memory is False  # type: ignore[attr-defined]
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_another_device_is_taken_as_it_is_and_nothing_is_set(
    gpu: pytest.MonkeyPatch, device: str
) -> None:
    assert device_of(device) == device
    assert SET == [] and "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def test_without_a_gpu(gpu: pytest.MonkeyPatch) -> None:
    gpu.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto") == "cpu" and SET == []
    with pytest.raises(InputError, match="device: cuda was asked for, but torch sees no GPU"):
        check_device("cuda")
