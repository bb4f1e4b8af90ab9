"""Where a client computes: the key "device" (cpu, cuda, or auto = a GPU if torch sees one)."""

import torch

from fedsuite.errors import InputError


def check_device(device: str) -> None:
    """InputError if a GPU is asked for that is not there."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "device: cuda was asked for, but torch sees no GPU; set device=cpu or auto"
        )


def device_of(device: str) -> str:
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device
