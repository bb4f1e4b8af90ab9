"""A network run with other tensors than its own, and dropout whose masks follow from a seed.

One module serves all silos of a client: its parameters and buffers are replaced for the length of a call.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fedsuite.driving.model.networks import Output
from fedsuite.randomness import rng_for

Tensors = Mapping[str, Tensor]


class StatelessNetwork:
    """A network called with other tensors in place of its own, as by torch.func.functional_call, at a tenth of its cost."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.network = network
        self.slots: dict[str, dict[str, Tensor | None]] = {}
        for path, module in network.named_modules():
            dot = "." if path else ""
            for kind in (module._parameters, module._buffers):
                self.slots |= {f"{path}{dot}{n}": kind for n, v in kind.items() if v is not None}

    def __call__(self, tensors: Tensors, images: Tensor) -> Output:
        own = self._swap(tensors)
        try:
            output: Output = self.network(images)
        finally:
            self._swap(own)
        return output

    def _swap(self, tensors: Mapping[str, Tensor | None]) -> dict[str, Tensor | None]:
        before: dict[str, Tensor | None] = {}
        for name, tensor in tensors.items():
            slot, key = self.slots[name], name.rpartition(".")[2]
            before[name], slot[key] = slot[key], tensor
        return before


@contextmanager
def dropout_seed(seed: int, number: int, silo: int, device: str) -> Iterator[None]:
    """Seeds torch's global generator inside the block, as dropout knows no other, and puts it back."""
    devices: Sequence[int] = [torch.cuda.current_device()] if device != "cpu" else []
    drawn = int(rng_for(seed, "dropout", number, silo).integers(2**62))
    with torch.random.fork_rng(devices=devices):
        # torch.manual_seed would also keep a note for every GPU that is not in use yet, and those pile up.
        torch.default_generator.manual_seed(drawn)
        if device != "cpu":
            torch.cuda.manual_seed(drawn)
        yield
