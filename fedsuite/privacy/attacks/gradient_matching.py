"""Pictures from a gradient by optimisation: find pictures whose gradient is the one that was seen.

    x* = argmin_x D(g(x), g) + weight TV(x)     g(x) = dL(F(x), y)/dtheta of dummy pictures x [B, C, H, W] in 0..1

    DLG       D = |g(x) - g|^2, labels y unknown and found with x, L-BFGS          (Zhu et al. 2019, 1906.08935, equation 4)
    iDLG      the same with labels known: for the squared error from inversion.py  (Zhao et al. 2020, 2001.02610)
    GEIPING   D = 1 - cosine(g(x), g), TV > 0, Adam on signs of the gradient, x kept in 0..1, the rate a tenth after 3/8,
              5/8 and 7/8 of the steps                                          (Geiping et al. 2020, 2003.14053, equation 4)

TV: mean absolute difference of neighbouring pixels. An attack of this kind that fails proves nothing: another start, more
steps or a better prior may succeed. It counts only where the same attack has inverted a network that can be inverted, and
where it is better than a grey picture (fedsuite/privacy/likeness.py).

The loss has to be twice differentiable.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Pictures [B, C, H, W] and labels [B] -> the training loss, a scalar, with a graph to the weights.
Loss = Callable[[Tensor, Tensor], Tensor]
Distance = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]
DECAYS = (3 / 8, 5 / 8, 7 / 8)
BFGS_MEMORY = 100


@dataclass(frozen=True)
class Method:
    """steps: of L-BFGS (each of at most 20 evaluations) or of Adam; rate; variation: weight of TV; signed: Adam on signs."""

    name: str
    distance: Distance
    steps: int
    rate: float
    signed: bool = False
    variation: float = 0.0
    knows_labels: bool = True


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """pictures [B, C, H, W]; labels [B]; distance: D between their gradient and the one that was seen."""

    pictures: Tensor
    labels: Tensor
    distance: float


def squared(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """Sum of squared differences over all arrays."""
    return torch.stack([(a - b).square().sum() for a, b in zip(one, other, strict=True)]).sum()


def angular(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """1 - cosine over all arrays together."""
    product = torch.stack([(a * b).sum() for a, b in zip(one, other, strict=True)]).sum()
    lengths = [
        torch.stack([a.square().sum() for a in arrays]).sum().sqrt() for arrays in (one, other)
    ]
    return 1 - product / (lengths[0] * lengths[1]).clamp_min(1e-30)


def total_variation(pictures: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels, down and across."""
    down = (pictures[..., 1:, :] - pictures[..., :-1, :]).abs().mean()
    across = (pictures[..., 1:] - pictures[..., :-1]).abs().mean()
    return down + across


DLG = Method("DLG", squared, steps=100, rate=1.0, knows_labels=False)
IDLG = Method("iDLG", squared, steps=100, rate=1.0)
GEIPING = Method("Geiping", angular, steps=1000, rate=0.1, signed=True, variation=1e-3)


def reconstruct(
    loss: Loss,
    weights: Sequence[Tensor],
    seen: Sequence[Tensor],
    shape: tuple[int, ...],
    labels: Tensor | None,
    method: Method,
    generator: torch.Generator,
) -> Reconstruction:
    """Search pictures of `shape` [B, C, H, W] whose gradient in `weights` is `seen`; labels [B], or None where the method
    finds them. ValueError for a method that needs labels and gets none."""
    if method.knows_labels and labels is None:
        raise ValueError(f"{method.name} needs the labels; take DLG, which finds them")
    start = torch.rand(shape, generator=generator, dtype=weights[0].dtype)
    pictures = start.to(weights[0]).requires_grad_()
    if method.knows_labels and labels is not None:
        answers, free = labels.to(weights[0]), [pictures]
    else:
        answers = weights[0].new_zeros(shape[0]).requires_grad_()
        free = [pictures, answers]

    def objective() -> Tensor:
        own = torch.autograd.grad(loss(pictures, answers), weights, create_graph=True)
        found = method.distance(own, seen)
        return found + method.variation * total_variation(pictures) if method.variation else found

    (_descend_signed if method.signed else _descend_bfgs)(objective, free, method)
    own = torch.autograd.grad(loss(pictures, answers), weights)
    distance = float(method.distance(own, seen))
    return Reconstruction(pictures.detach(), answers.detach(), distance)


def _descend_bfgs(objective: Callable[[], Tensor], free: list[Tensor], method: Method) -> None:
    optimizer = torch.optim.LBFGS(
        free, method.rate, max_iter=20, history_size=BFGS_MEMORY, tolerance_grad=0.0,
        tolerance_change=0.0, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Tensor:
        found = objective()
        for one, gradient in zip(free, torch.autograd.grad(found, free), strict=True):
            one.grad = gradient.contiguous()  # which L-BFGS wants; of colours it is not
        return found.detach()

    for _ in range(method.steps):
        optimizer.step(closure)


def _descend_signed(objective: Callable[[], Tensor], free: list[Tensor], method: Method) -> None:
    optimizer = torch.optim.Adam(free, method.rate)
    milestones = [int(share * method.steps) for share in DECAYS]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.1)
    for _ in range(method.steps):
        for one, gradient in zip(free, torch.autograd.grad(objective(), free), strict=True):
            one.grad = gradient.sign()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            free[0].clamp_(0.0, 1.0)
