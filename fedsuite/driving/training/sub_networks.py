"""What becomes of a silo's sub-network theta^s after it was copied from the backbone, as values of `objective.sub-network`.

    trained   theta^s descends w (1 - beta) L_cd-, as the paper says
    own       theta^s descends L_lr of its own silo as well; with beta = 1, L_lr alone: what the silo alone would become
    average   theta^s <- m theta^s + (1 - m) theta^b before every mixing step, theta^b as mixed: a mean over past mixings,
              after the mean teacher (Tarvainen & Valpola 2017)
    reset     theta^s := theta^b before every mixing step, and stands still in it: FedProx's pull, between outputs

The last two look at the backbone after a mixing rather than after an update: a backbone that has just been trained leans
toward its own silo's frames, one that was mixed is what neighbours agreed on. They have no gradients and no optimizer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from fedsuite.driving.config import ObjectiveSettings

# Changes a tensor of theta^s in place, given the same tensor of theta^b.
Begin = Callable[[Tensor, Tensor, ObjectiveSettings], object]


@dataclass(frozen=True)
class SubNetworkRule:
    """trained: it has gradients and an optimizer; regresses: it descends L_lr, too; begin: before the first update after
    a mixing, for every tensor, buffers included."""

    trained: bool = True
    regresses: bool = False
    begin: Begin = lambda sub, backbone, objective: None


def _average(sub: Tensor, backbone: Tensor, objective: ObjectiveSettings) -> object:
    if not sub.is_floating_point():  # a count of batches
        return sub.copy_(backbone)
    return sub.lerp_(backbone, 1.0 - objective.sub_network_momentum)


def _reset(sub: Tensor, backbone: Tensor, objective: ObjectiveSettings) -> object:
    return sub.copy_(backbone)


SUB_NETWORKS: Mapping[str, SubNetworkRule] = {
    "trained": SubNetworkRule(),
    "own": SubNetworkRule(regresses=True),
    "average": SubNetworkRule(trained=False, begin=_average),
    "reset": SubNetworkRule(trained=False, begin=_reset),
}
