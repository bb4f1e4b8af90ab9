"""What the decoder's cell read at decisions, and what its gradient tells of that.

The cell is a linear layer of [pose embedding, attended view, direction], so that the gradient of one decision gives the
attended view away exactly, and the rank of that of several counts them (fedsuite/privacy/attacks/inversion.py).

F visual width; I width of the cell's input; O = 4 H of its gates. An attended view [F] is the mean of a panorama's 36
features, weighted by the agent's attention, behind the dropout of the visit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsuite.privacy.attacks.inversion import (
    best_match,
    common_input,
    first_step_undone,
    rows_over_bias,
)
from fedsuite.randomness import torch_generator_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.environment import Episodes, World
from fedsuite.vln.model.agent import ActionDecoder, Agent
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.training.objective import compute_losses
from fedsuite.vln.training.rmsprop import ALPHA, EPSILON

InputOf = Callable[[np.ndarray, np.ndarray], np.ndarray]  # gradients [O, I] and [O] -> [I]
WEIGHT, BIAS = "decoder.cell.weight_ih", "decoder.cell.bias_ih"


def read_by(agent: Agent) -> slice | None:
    """Which numbers of the cell's input are the attended view; None of a decoder that has not EnvDrop's cell."""
    sizes = agent.sizes
    known = isinstance(agent.decoder, ActionDecoder)
    return slice(sizes.action, sizes.action + sizes.feature) if known else None


@dataclass
class Watch:
    """The attended views of an agent's decisions that it learns from; None: of one that has no such cell."""

    rows: list[np.ndarray] = field(default_factory=list)

    def on(self, agent: Agent) -> Agent:
        """The same agent, watched from now on."""
        if (columns := read_by(agent)) is None:
            return agent
        cell: Any = agent.decoder.cell
        weight, rows = cell.weight_ih, self.rows

        def before(_: torch.nn.Module, arguments: tuple[object, ...]) -> tuple[object, ...]:
            *others, gathered = arguments
            assert isinstance(gathered, Gathered)
            return (*others, _Noting(gathered, weight, columns, rows))

        agent.decoder.register_forward_pre_hook(before)
        return agent

    @property
    def views(self) -> np.ndarray:
        """[n, F]."""
        return np.concatenate(self.rows)


class _Noting(Gathered):
    """Notes some columns of what is multiplied with one weight, and leaves products to `inner`."""

    def __init__(
        self, inner: Gathered, weight: Tensor, columns: slice, rows: list[np.ndarray]
    ) -> None:
        self.inner, self.weight, self.columns, self.rows = inner, weight, columns, rows

    def times(self, x: Tensor, weight: Tensor) -> Tensor:
        if weight is self.weight and torch.is_grad_enabled():
            self.rows.append(x.detach()[:, self.columns].cpu().numpy())
        return self.inner.times(x, weight)


@dataclass(frozen=True)
class Seen:
    """Of the cell, in one step or visit: how its weights [O, I] and its bias [O] moved, or their gradients, of which columns
    `read` is for the attended view; views [n, F]: what was read at the decisions; control: how much the control variates of
    both have changed, which in a first visit is their mean gradient."""

    weight: np.ndarray
    bias: np.ndarray
    read: slice
    views: np.ndarray
    control: tuple[np.ndarray, np.ndarray] | None = None

    def like(self, view: np.ndarray) -> float:
        """Cosine of a view [F] with the nearest one of those that were read."""
        return best_match(view, self.views)

    def divided(self) -> np.ndarray:
        """The view [F] that explains the whole change best, exact for one decision and a plain step."""
        return self._told(common_input, self.weight, self.bias)

    def signs(self) -> np.ndarray:
        """The same from signs alone."""
        return self._told(common_input, np.sign(self.weight), np.sign(self.bias))

    def undone(self, rate: float, corrected: bool) -> np.ndarray:
        """The same from the gradient before RMSprop's first step from a fresh state, which is -rate g / (|g| + eps), and
        10 times as long with 10 eps if it is not corrected; rows agree but for rounding, so a median of them is taken."""
        times = 1.0 if corrected else (1 - ALPHA) ** -0.5
        weight, bias = (
            first_step_undone(change, rate * times, EPSILON * times)
            for change in (self.weight, self.bias)
        )
        return self._told(_median_input, weight, bias)

    def by_control(self) -> np.ndarray:
        """The same from control variates; zeros without."""
        none = np.zeros_like(self.weight), np.zeros_like(self.bias)
        return self._told(common_input, *(self.control or none))

    def _told(self, input_of: InputOf, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Zeros where no bias moved, so that nothing can be divided by its change."""
        inputs = input_of(weight, bias) if bias.any() else np.zeros(weight.shape[1])
        return np.asarray(inputs[self.read])


def _median_input(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.asarray(np.median(rows_over_bias(weight, bias), axis=0))


def together(parts: Sequence[Seen]) -> Seen:
    """What a sum of several tells: all that was read, and no change of a single one."""
    weight, bias = (np.sum([getattr(s, k) for s in parts], axis=0) for k in ("weight", "bias"))
    return Seen(weight, bias, parts[0].read, np.concatenate([s.views for s in parts]))


def plain_step(
    agent: Agent, world: World, episodes: Episodes, config: FedVLNConfig, draw: int = 0
) -> Seen:
    """The gradient of imitation on episodes, which a step of plain SGD sends; draw: of dropout, by the config's rates."""
    watch, device = Watch(), str(world.device)
    rates = config.agent.dropout, config.agent.feature_dropout
    draws = torch_generator_for(config.seed, "dropout of an attacked step", draw, 0, device)
    watched, columns = watch.on(agent), read_by(agent)
    assert columns is not None
    watched.zero_grad()
    dropout = Dropout(*rates, draws)
    compute_losses(watched, world, episodes, None, 1.0, config, dropout, draws).total.backward()
    cell: Any = watched.decoder.cell
    weight, bias = (p.grad.cpu().numpy() for p in (cell.weight_ih, cell.bias_ih))
    return Seen(weight, bias, columns, watch.views)
