"""Episodes: agents walk in a World, all of a batch at once.

One loop serves training and evaluation. In training a batch may mix teacher-forced and sampled episodes, so that both
parts of the objective share one pass over the language encoder and one set of matrix products. Finished episodes leave
the batch as soon as a quarter of it is done; results are the same, only less is computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedsuite.vln.environment import STOP, Episodes, World, pursuit
from fedsuite.vln.model.agent import Agent, Decided, Panorama
from fedsuite.vln.model.dropout import NO_DROPOUT, Dropout
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.rows import Batch
from fedsuite.vln.model.sight import observe
from fedsuite.vln.model.stacked import StackedAgent
from fedsuite.vln.model.walkers import Acted, Walkers, acted

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


def decided_by(
    agent: Agent | StackedAgent, at: Walkers, see: Panorama, dropout: Dropout, gathered: Gathered
) -> Decided:
    """What they decide who see this."""
    found: Decided = agent.decoder(see, at.state, at.cell, at.language, dropout, gathered)
    return found


def turn(
    agent: Agent | StackedAgent,
    world: World,
    at: Walkers,
    policy: Policy,
    dropout: Dropout,
    gathered: Gathered,
    tamper: Tamper | None,
) -> tuple[Decided, Acted, Tensor | None]:
    """They look, decide and act; last: whom a Tamper changed."""
    if isinstance(agent, StackedAgent) and tamper is None:
        whole = agent.turn(world, at, policy, dropout, gathered)
        if whole is not None:
            return *whole, None
    see, stamped = observe(world, at.viewpoint, at.view, dropout, at.factor), None
    teacher = world.teacher_action(at.viewpoint, at.goal)
    if tamper is not None:
        see, teacher, stamped = tamper(see, teacher, at.active)
    decided = decided_by(agent, at, see, dropout, gathered)
    chosen = policy(decided.logits.detach(), teacher, at.row)
    return decided, acted(world, at.viewpoint, at.view, at.active, teacher, chosen), stamped


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
    at = Walkers(row, active, *places, state, cell, language, episodes.feature_factor, ways)
    out, ends, gathered = Walk(), [], Gathered()
    fewest, most = (int(decisions) for decisions in limit.aminmax())
    for time in range(most):
        decided, done, stamped = turn(agent, world, at, policy, dropout, gathered, tamper)
        taken = done.teacher, done.action, decided.hidden, at.viewpoint, done.viewpoint, at.view
        rest_m = None if at.pursuit is None else at.pursuit.rest_m
        out.steps.append(Step(at.row, at.active, decided.logits, *taken, at.goal, rest_m, stamped))
        at = at.moved(decided, done)
        if time + 1 >= fewest:
            cut = at.active & (limit.index_select(0, at.row) <= time + 1)
            if bootstrap and bool(cut.any()):
                with torch.no_grad(), batch.ending(cut) as some:
                    end, those = at.rows(some), some.of(cut)
                    see = observe(world, end.viewpoint, end.view, dropout, end.factor)
                    hidden = decided_by(agent, end, see, dropout, Gathered()).hidden
                    ends.append((end.row[those], hidden[those]))
            at = replace(at, active=at.active & ~cut)
        staying = batch.staying(at.active)
        if staying is not None and len(staying) == 0:
            break
        if staying is not None:
            at = at.rows(staying)
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
