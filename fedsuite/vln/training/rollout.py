"""Episodes: agents walk in a World, all of a batch at once.

One loop serves training and evaluation. In training a batch may mix teacher-forced and sampled episodes, so that both
parts of the objective share one pass over the language encoder and one set of matrix products. Finished episodes leave
the batch as soon as a quarter of it is done; results are the same, only less is computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedsuite.vln.environment import STOP, Episodes, Pursuit, World, pursuit
from fedsuite.vln.model.agent import Agent, Decided, Panorama
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.dropout import NO_DROPOUT, Dropout
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.rows import Batch, Chosen
from fedsuite.vln.model.sight import observe
from fedsuite.vln.model.stacked import StackedAgent

# Given what b agents see, the teacher's actions [b] and who is active [b]: what they see and are taught instead, and whom
# that is about [b]. To see what such tampering does; nothing of an honest run tampers.
Tampered = tuple[Panorama, Tensor, Tensor]
Tamper = Callable[[Panorama, Tensor, Tensor], Tampered]
# Given logits [b, 1+K], teacher action [b] and row numbers [b], choose actions [b].
Policy = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Step:
    """One decision of the b episodes still in the batch.

    row [b] position in the batch; active [b] False for an episode that has ended but was not yet removed; logits [b, 1+K];
    teacher, action [b]; hidden [b, H]; before, after: viewpoint [b] around the action; view [b] before it; aim [b]: where
    the teacher was heading, the goal or the next place of a way; rest_m [b]: length of a way behind the aim, None = no way;
    stamped [b]: True where a Tamper changed something, None = there is none.
    """

    row: Tensor
    active: Tensor
    logits: Tensor
    teacher: Tensor
    action: Tensor
    hidden: Tensor
    before: Tensor
    after: Tensor
    view: Tensor
    aim: Tensor
    rest_m: Tensor | None
    stamped: Tensor | None = None


@dataclass
class Walk:
    """A finished rollout: the steps, and which rows were cut off without a stop, with what is needed to go on."""

    steps: list[Step] = field(default_factory=list)
    unfinished: Tensor | None = None  # rows [m]
    last_hidden: Tensor | None = None  # [m, H], state of one more decoder step, no gradient


@dataclass(frozen=True)
class _Walkers:
    """The b episodes still in the batch: place in it, where they are, look and head for [b]; state, c [b, H]; words."""

    row: Tensor
    viewpoint: Tensor
    view: Tensor
    goal: Tensor
    state: Tensor
    cell: Tensor
    language: SharedContext
    factor: Tensor | None  # [b, F]
    pursuit: Pursuit | None = None  # of ways that are to be followed

    def rows(self, chosen: Chosen) -> "_Walkers":
        """Some of them."""
        tensors = {k: chosen.of(v) for k, v in vars(self).items() if isinstance(v, Tensor)}
        ways = None if self.pursuit is None else self.pursuit.rows(chosen.of)
        return replace(self, language=self.language.rows(chosen.index), pursuit=ways, **tensors)

    def moved(self, viewpoint: Tensor, view: Tensor, state: Tensor, cell: Tensor) -> "_Walkers":
        """After a decision."""
        at = replace(self, viewpoint=viewpoint, view=view, state=state, cell=cell)
        if self.pursuit is None:
            return at
        ways = self.pursuit.moved(viewpoint)
        return replace(at, pursuit=ways, goal=ways.aim)

    def look(self, agent: Agent | StackedAgent, world: World, dropout: Dropout) -> Any:
        """What they see, as the decoder wants it."""
        look = agent.look if isinstance(agent, StackedAgent) else observe
        return look(world, self.viewpoint, self.view, dropout, self.factor)

    def decide(
        self, agent: Agent | StackedAgent, see: Any, dropout: Dropout, gathered: Gathered
    ) -> Decided:
        decided: Decided = agent.decoder(
            see, self.state, self.cell, self.language, dropout, gathered
        )
        return decided


def walk(
    agent: Agent | StackedAgent,
    world: World,
    episodes: Episodes,
    policy: Policy,
    limit: Tensor,
    dropout: Dropout = NO_DROPOUT,
    bootstrap: bool = False,
    tamper: Tamper | None = None,
    batch: Batch | None = None,
) -> Walk:
    """Roll all episodes out. limit [B]: decisions allowed per episode; teacher -1 (no path) is the caller's to exclude.

    batch: who is in it; a StackedBatch for a StackedAgent.
    """
    batch = batch or Batch()
    language, state, cell = agent.encoder(episodes.tokens, episodes.length, dropout)
    row = torch.arange(len(episodes), device=world.device)
    active = batch.begin(len(episodes), world.device)
    ways = None if episodes.way is None else pursuit(world, episodes.way)
    places = episodes.start, episodes.start_view, episodes.goal if ways is None else ways.aim
    at = _Walkers(row, *places, state, cell, language, episodes.feature_factor, ways)
    out, ends, gathered = Walk(), [], Gathered()
    fewest, most = (int(decisions) for decisions in limit.aminmax())
    for time in range(most):
        see, stamped = at.look(agent, world, dropout), None
        teacher = world.teacher_action(at.viewpoint, at.goal)
        if tamper is not None:
            see, teacher, stamped = tamper(see, teacher, active)
        logits, hidden, cell, state = at.decide(agent, see, dropout, gathered)
        action = torch.where(active, policy(logits.detach(), teacher, at.row), STOP)
        after, view = world.step(at.viewpoint, at.view, action)
        decision = (at.row, active, logits, teacher, action, hidden, at.viewpoint, after, at.view)
        rest_m = None if at.pursuit is None else at.pursuit.rest_m
        out.steps.append(Step(*decision, at.goal, rest_m, stamped))
        at = at.moved(after, view, state, cell)
        active = active & (action != STOP)
        if time + 1 >= fewest:
            cut = active & (limit.index_select(0, at.row) <= time + 1)
            if bootstrap and bool(cut.any()):
                with torch.no_grad(), batch.ending(cut) as some:
                    end, those = at.rows(some), some.of(cut)
                    see = end.look(agent, world, dropout)
                    hidden = end.decide(agent, see, dropout, Gathered()).hidden
                    ends.append((end.row[those], hidden[those]))
            active = active & ~cut
        staying = batch.staying(active)
        if staying is not None and len(staying) == 0:
            break
        if staying is not None:
            at, active = at.rows(staying), staying.of(active)
    if ends:
        out.unfinished, out.last_hidden = map(torch.cat, zip(*ends, strict=True))
    return out


def greedy(logits: Tensor, teacher: Tensor, row: Tensor) -> Tensor:
    """The most likely action."""
    return logits.argmax(1)


def sample(logits: Tensor, generator: torch.Generator) -> Tensor:
    """One draw per row from softmax(logits)."""
    return torch.multinomial(torch.softmax(logits, 1), 1, generator=generator).squeeze(1)


@torch.no_grad()
def greedy_steps(
    agent: Agent,
    world: World,
    episodes: Episodes,
    max_actions: int,
    tamper: Tamper | None = None,
) -> list[Step]:
    """The decisions of a greedy evaluation."""
    limit = torch.full((len(episodes),), max_actions, device=world.device)
    return walk(agent, world, episodes, greedy, limit, tamper=tamper).steps


def trajectories(
    agent: Agent, world: World, episodes: Episodes, max_actions: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Greedy evaluation: per episode the viewpoints visited (global rows, start first) and the view at each of them."""
    return visited_by(greedy_steps(agent, world, episodes, max_actions), world, episodes)


def visited_by(
    steps: Sequence[Step], world: World, episodes: Episodes
) -> tuple[list[list[int]], list[list[int]]]:
    """Viewpoints and views of walks, as `trajectories` has them."""
    visited = [[int(v)] for v in episodes.start.tolist()]
    views = [[int(v)] for v in episodes.start_view.tolist()]
    row, before, view, action, active = (
        torch.cat([getattr(step, name) for step in steps])
        for name in ("row", "before", "view", "action", "active")
    )
    moves = torch.stack([row, *world.step(before, view, action)])[:, (action != STOP) & active]
    for r, place, look in moves.T.tolist():
        visited[r].append(place)
        views[r].append(look)
    return visited, views
