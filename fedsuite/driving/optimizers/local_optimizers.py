"""Local optimizers of a silo's two networks, as values of `training.optimizer`.

Those of torch know nothing of neighbours. The others follow a rule of mixing_rules.py for the backbone; the sub-network,
which is never mixed, then has the optimizer of torch that is nearest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedsuite.driving.config import TrainingSettings
from fedsuite.driving.optimizers.mixing_rules import RULES, Constants, Rule

Make = Callable[[Sequence[Tensor], TrainingSettings], torch.optim.Optimizer]


class RuleOptimizer(torch.optim.Optimizer):
    """A rule over stacked parameters [S, ...]; its state is saved and loaded like that of torch's optimizers."""

    def __init__(
        self, params: Sequence[Tensor], rule: Rule, constants: Constants, weight_decay: float
    ) -> None:
        super().__init__(params, {"weight_decay": weight_decay})
        self.rule, self.constants = rule, constants

    @torch.no_grad()
    def begin(self) -> None:
        """Before the first update of a mixing step, with parameters and sent arrays as the last mixing left them."""
        for p in self.param_groups[0]["params"]:
            self.rule.begin(self.state[p], p.detach(), self.constants)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        group = self.param_groups[0]
        for p in group["params"]:
            if p.grad is not None:
                g = p.grad + group["weight_decay"] * p
                p.copy_(self.rule.step(self.state[p], p.detach(), g, self.constants))


@dataclass(frozen=True)
class LocalOptimizer:
    """make: for stacked parameters; beside: the name of the sub-network's, "" for the same; rule: None if neighbours do not
    matter to it, and then any mixing will do; relays: whether models are relayed (topology/relay.py) in place of A."""

    make: Make
    beside: str = ""
    rule: Rule | None = None
    relays: bool = False

    @property
    def sent(self) -> tuple[str, ...]:
        """Arrays of its state that are mixed with the model: each is a message more over every link."""
        return self.rule.sent if self.rule else ()


def _adam(params: Sequence[Tensor], own: TrainingSettings) -> torch.optim.Optimizer:
    return torch.optim.Adam(params, own.learning_rate, weight_decay=own.weight_decay, fused=True)


def _sgd(params: Sequence[Tensor], own: TrainingSettings) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, own.learning_rate, weight_decay=own.weight_decay)


def _nesterov(params: Sequence[Tensor], own: TrainingSettings) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        params, own.learning_rate, own.momentum, weight_decay=own.weight_decay, nesterov=True
    )


def _by_rule(name: str, beside: str) -> LocalOptimizer:
    rule = RULES[name]

    def make(params: Sequence[Tensor], own: TrainingSettings) -> torch.optim.Optimizer:
        constants = Constants(own.learning_rate, own.momentum, own.local_updates)
        return RuleOptimizer(params, rule, constants, own.weight_decay)

    return LocalOptimizer(make, beside, rule)


LOCAL_OPTIMIZERS: Mapping[str, LocalOptimizer] = {
    "adam": LocalOptimizer(_adam),
    "sgd": LocalOptimizer(_sgd),
    "nesterov": LocalOptimizer(_nesterov),
    "qg-momentum": _by_rule("qg-momentum", "sgd"),
    "qg-nesterov": _by_rule("qg-nesterov", "nesterov"),
    "gradient-tracking": _by_rule("gradient-tracking", "sgd"),
    "relay-sgd": LocalOptimizer(_sgd, relays=True),
}
