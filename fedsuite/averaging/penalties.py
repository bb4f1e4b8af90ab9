"""Local penalties: what keeps a client's training near a model, its anchor, as a term that is added to its loss.

A penalty is a value chosen by configuration: `local-penalty = "proximal"`, or "module:NAME" of one's own, which is called
with the strength (`penalty-strength`) and gives a Penalty. It acts before gradients are clipped. The anchor is where the
visit started, or what a LocalMethod says (fedsuite/averaging/local_method.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedsuite.errors import InputError, one_line
from fedsuite.settings.values import check_callable, chosen, shown

# (parameters now, those of the anchor), by name -> a scalar.
Penalty = Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True)
class Proximal:
    """FedProx (Li et al. 2020, 1812.06127): mu / 2 ||w - w_anchor||^2; strength: mu."""

    strength: float

    def __call__(self, now: Mapping[str, Tensor], anchor: Mapping[str, Tensor]) -> Tensor:
        gaps = [(now[k] - v).square().sum() for k, v in anchor.items()]
        return 0.5 * self.strength * torch.stack(gaps).sum()


PENALTIES: Mapping[str, Callable[[float], Penalty] | None] = {"none": None, "proximal": Proximal}


def chosen_penalty(key: str, name: str, strength: float) -> Penalty | None:
    """The penalty that `key = name` stands for; None for none."""
    make: Any = chosen(key, name, PENALTIES, ("strength",))
    if name in PENALTIES:
        return None if make is None else make(strength)
    try:
        made: Penalty = make(strength)
    except Exception as error:
        why = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(
            f"{key}: {shown(name)} makes no penalty of strength {strength:g} ({why}); correct it"
        ) from error
    check_callable(key, name, made, ("now", "anchor"))
    return made
