"""Where a client computes: the key "device" (cpu, cuda, or auto = a GPU if torch sees one).

A GPU is told to repeat itself to the last bit, as a CPU does. Its products keep float32's whole mantissa unless the key
"precision" says otherwise; torch by itself would shorten those of convolutions.
"""

import os

import torch

from fedsuite.errors import InputError


def check_device(device: str) -> None:
    """InputError if a GPU is asked for that is not there."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "device: cuda was asked for, but torch sees no GPU; set device=cpu or auto"
        )


def device_of(device: str, precision: str = "float32") -> str:
    """cpu or cuda; from then on this process's GPU repeats itself, and multiplies with `precision`."""
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if device not in ("auto", "cuda"):
        return device
    _repeat_to_the_last_bit()
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    return "cuda"


def _repeat_to_the_last_bit() -> None:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True)
    # Filling new memory is for finding errors, and takes a third of all kernels.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
