"""Episodes of a batch that are still under way, and where an action takes them."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from fedsuite.vln.environment import STOP, Pursuit, World
from fedsuite.vln.model.agent import Decided
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.rows import Chosen


class Acted(NamedTuple):
    """The teacher's action and the one that was taken [b], viewpoint and view after it [b], and who is still active [b]."""

    teacher: Tensor
    action: Tensor
    viewpoint: Tensor
    view: Tensor
    active: Tensor


def acted(
    world: World, viewpoint: Tensor, view: Tensor, active: Tensor, teacher: Tensor, chosen: Tensor
) -> Acted:
    """What follows from the chosen actions [b]; who is no longer active stays."""
    action = chosen.masked_fill(~active, STOP)
    return Acted(teacher, action, *world.step(viewpoint, view, action), active & (action != STOP))


@dataclass(frozen=True)
class Walkers:
    """row [b]: place of each in the batch; active [b]: False for one that has ended but was not yet removed; viewpoint, view
    and goal [b]; state, cell [b, H]; language: their words."""

    row: Tensor
    active: Tensor
    viewpoint: Tensor
    view: Tensor
    goal: Tensor
    state: Tensor
    cell: Tensor
    language: SharedContext
    factor: Tensor | None  # [b, F]
    pursuit: Pursuit | None = None  # of ways that are to be followed

    def rows(self, chosen: Chosen) -> "Walkers":
        """Some of them."""
        tensors = {k: chosen.of(v) for k, v in vars(self).items() if isinstance(v, Tensor)}
        ways = None if self.pursuit is None else self.pursuit.rows(chosen.of)
        return replace(self, language=self.language.rows(chosen.index), pursuit=ways, **tensors)

    def moved(self, decided: Decided, done: Acted) -> "Walkers":
        """After a decision."""
        at = replace(
            self, active=done.active, viewpoint=done.viewpoint, view=done.view, state=decided.state, cell=decided.cell
        )  # fmt: skip
        if self.pursuit is None:
            return at
        ways = self.pursuit.moved(done.viewpoint)
        return replace(at, pursuit=ways, goal=ways.aim)
