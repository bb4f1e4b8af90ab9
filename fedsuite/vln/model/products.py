"""Products of many rows with a weight, and the gradient of the weight, by oneDNN, the library of torch's convolutions.

  times_transposed    y  = x W^T       x [.., B, I], W [.., O, I], y [.., B, O]
  gradient_of_weight  dW = dy^T x      dy [.., B, O], x [.., B, I], dW [.., O, I]

Other products of torch go to MKL, which on AMD processors takes about twice as long. oneDNN makes a kernel for every new
shape and keeps it until the process ends, some 0.4 MB each. B differs from batch to batch, so rows of zeros are added until
B is one of eight sizes an octave.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LARGE = 1 << 22  # multiplications
_FEWEST = 16  # rows, and the least distance between two sizes


def times_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """x [.., B, I], W [.., O, I] -> [.., B, O]; has no gradient."""
    rows, (outputs, inputs) = x.shape[-2], weight.shape[-2:]
    if not _for_onednn(x, rows, outputs * inputs):
        # torch's own product of two stacks reshapes them first, several calls for one.
        return torch.bmm(x, weight.mT) if x.dim() == weight.dim() == 3 else x @ weight.mT
    if weight.dim() > 2:
        return torch.stack([times_transposed(*pair) for pair in zip(x, weight, strict=True)])
    return _onednn(_filled([x]), weight)[:rows]


def gradient_of_weight(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """dy [.., B, O] and x [.., B, I], each in parts along B -> [.., O, I]; has no gradient."""
    rows = sum(part.shape[-2] for part in outputs)
    if not _for_onednn(inputs[0], rows, outputs[0].shape[-1] * inputs[0].shape[-1]):
        return torch.cat(list(outputs), -2).mT @ torch.cat(list(inputs), -2)
    if outputs[0].dim() > 2:
        pairs = zip(zip(*outputs, strict=True), zip(*inputs, strict=True), strict=True)
        return torch.stack([gradient_of_weight(*pair) for pair in pairs])
    return _onednn(_filled(outputs).mT, _filled(inputs).mT)


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """layer(x); of several agents' layers with weights [S, O, I], each on its rows of x [S B, I], agent by agent."""
    if layer.weight.dim() == 2:
        return layer(x)
    rows = x.unflatten(0, (len(layer.weight), -1))
    return torch.baddbmm(layer.bias.unsqueeze(1), rows, layer.weight.mT).flatten(0, 1)


def per_row(vector: Tensor, like: Tensor) -> Tensor:
    """A vector [O] for all rows; of several agents' vectors [S, O], each for its B of the rows of `like` [S B, ..]."""
    return vector if vector.dim() == 1 else vector.repeat_interleave(len(like) // len(vector), 0)


def stacked(weights: Sequence[Tensor]) -> Tensor:
    """Weights of several agents, one of each, as one [S, ..]. Each gets a gradient of its own: those of torch.stack are
    parts of one tensor, and where two stacks are added, weights of both would get the same part and add to it twice."""
    together: Tensor = _Stacked.apply(*weights)
    return together


def with_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """A module of the same kind that has these tensors as its parameters."""
    # With its parameters, which are not to be copied, taken as copied already.
    shell = copy.deepcopy(module, {id(p): p for p in module.parameters()})
    for name, weight in weights.items():
        where, _, last = name.rpartition(".")
        owner = shell.get_submodule(where)
        del owner._parameters[last]
        setattr(owner, last, weight)
    return shell


class _Stacked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> Tensor:
        return torch.stack(weights)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        return gradient.clone().unbind()


def _for_onednn(x: Tensor, rows: int, size: int) -> bool:
    """size: numbers in the weight."""
    known = x.device.type == "cpu" and x.dtype == torch.float32
    large = rows >= _FEWEST and rows * size >= _LARGE
    return known and large and torch.backends.mkldnn.is_available()


def _filled(parts: Sequence[Tensor]) -> Tensor:
    """The parts [.., I] joined, with rows of zeros up to the next of the sizes that have kernels."""
    rows = sum(map(len, parts))
    step = max(1 << rows.bit_length() >> 4, _FEWEST)
    missing = -rows % step
    if missing == 0 and len(parts) == 1:
        return parts[0]
    return torch.cat([*parts, parts[0].new_zeros(missing, parts[0].shape[1])])


def _onednn(x: Tensor, weight: Tensor) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    return product
