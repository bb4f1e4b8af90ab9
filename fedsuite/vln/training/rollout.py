"""Episodes: agents walk in a World, all of a batch at once.

One loop serves training and evaluation. In training a batch may mix teacher-forced and sampled episodes, so that both
parts of the objective share one pass over the language encoder and one set of matrix products. Finished episodes leave
the batch as soon as a quarter of it is done; results are the same, only less is computed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsuite.vln.environment import STOP, Episodes, World
from fedsuite.vln.model.agent import Agent, Panorama
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.dropout import NO_DROPOUT, Dropout
from fedsuite.vln.model.gathered import Gathered

# Given logits [b, 1+K], teacher action [b] and row numbers [b], choose actions [b].
Policy = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Step:
    """One decision of the b episodes still in the batch.

    row [b] position in the batch; active [b] False for an episode that has ended but was not yet removed; logits [b, 1+K];
    teacher, action [b]; hidden [b, H]; before, after: viewpoint [b] around the action; view [b] before it.
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


@dataclass
class Walk:
    """A finished rollout: the steps, and which rows were cut off without a stop, with what is needed to go on."""

    steps: list[Step] = field(default_factory=list)
    unfinished: Tensor | None = None  # rows [m]
    last_hidden: Tensor | None = None  # [m, H], state of one more decoder step, no gradient


def observe(
    world: World, viewpoint: Tensor, view: Tensor, dropout: Dropout, factor: Tensor | None = None
) -> Panorama:
    """Gather what B agents see. Candidate features are those of the view that looks at the candidate.

    factor [B, F] multiplies the features, where there is one, instead of feature dropout.
    """
    near = world.observe(viewpoint, view)
    views = world.views.index_select(0, viewpoint)
    row = torch.arange(len(views), device=views.device).mul_(views.shape[1]).unsqueeze(1)
    candidate = views.flatten(0, 1).index_select(0, (row + near.view).flatten())
    candidate = candidate.unflatten(0, near.view.shape)
    heading = view % world.panorama_angle.shape[0]

    def dimmed(features: Tensor) -> Tensor:
        return dropout.features(features) if factor is None else features.mul_(factor.unsqueeze(1))

    return Panorama(
        views=dimmed(views),
        view_angle=world.panorama_angle.index_select(0, heading),
        candidate=dimmed(candidate),
        candidate_angle=near.angle,
        padding=near.padding,
        pose_angle=world.pose_angle.index_select(0, view),
    )


def walk(
    agent: Agent,
    world: World,
    episodes: Episodes,
    policy: Policy,
    limit: Tensor,
    dropout: Dropout = NO_DROPOUT,
    bootstrap: bool = False,
) -> Walk:
    """Roll all episodes out. limit [B]: decisions allowed per episode; teacher -1 (no path) is the caller's to exclude."""
    language, state, cell = agent.encoder(episodes.tokens, episodes.length, dropout)
    row = torch.arange(len(episodes), device=world.device)
    active = torch.ones_like(row, dtype=torch.bool)
    viewpoint, view, goal = episodes.start, episodes.start_view, episodes.goal
    factor = episodes.feature_factor
    out, ends, gathered = Walk(), [], Gathered()
    for time in range(int(limit.max())):
        see = observe(world, viewpoint, view, dropout, factor)
        logits, hidden, cell, state = agent.decoder(see, state, cell, language, dropout, gathered)
        teacher = world.teacher_action(viewpoint, goal)
        action = torch.where(active, policy(logits.detach(), teacher, row), STOP)
        after, new_view = world.step(viewpoint, view, action)
        out.steps.append(Step(row, active, logits, teacher, action, hidden, viewpoint, after, view))
        viewpoint, view = after, new_view
        active = active & (action != STOP)
        cut = active & (limit.index_select(0, row) <= time + 1)
        if bootstrap and bool(cut.any()):
            ends.append(
                _look_once_more(
                    agent, world, cut, row, viewpoint, view, factor, state, cell, language, dropout
                )
            )
        active = active & ~cut
        left = active.nonzero().squeeze(1)
        if len(left) == 0:
            break
        if 4 * len(left) <= 3 * len(row):
            row, viewpoint, view, goal = (
                x.index_select(0, left) for x in (row, viewpoint, view, goal)
            )
            state, cell, active = state[left], cell[left], active[left]
            language = language.rows(left)
            factor = None if factor is None else factor.index_select(0, left)
    if ends:
        out.unfinished = torch.cat([e[0] for e in ends])
        out.last_hidden = torch.cat([e[1] for e in ends])
    return out


@torch.no_grad()
def _look_once_more(
    agent: Agent,
    world: World,
    cut: Tensor,
    row: Tensor,
    viewpoint: Tensor,
    view: Tensor,
    factor: Tensor | None,
    state: Tensor,
    cell: Tensor,
    language: SharedContext,
    dropout: Dropout,
) -> tuple[Tensor, Tensor]:
    """Hidden state after one more look, for the value of episodes that were cut off: rows [m], hidden [m, H]."""
    index = cut.nonzero().squeeze(1)
    dim = None if factor is None else factor[index]
    see = observe(world, viewpoint[index], view[index], dropout, dim)
    _, hidden, _, _ = agent.decoder(
        see, state[index], cell[index], language.rows(index), dropout, Gathered()
    )
    return row[index], hidden


def greedy(logits: Tensor, teacher: Tensor, row: Tensor) -> Tensor:
    """The most likely action."""
    return logits.argmax(1)


def sample(logits: Tensor, generator: torch.Generator) -> Tensor:
    """One draw per row from softmax(logits)."""
    return torch.multinomial(torch.softmax(logits, 1), 1, generator=generator).squeeze(1)


@torch.no_grad()
def trajectories(
    agent: Agent, world: World, episodes: Episodes, max_actions: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Greedy evaluation: per episode the viewpoints visited (global rows, start first) and the view at each of them."""
    limit = torch.full((len(episodes),), max_actions, device=world.device)
    steps = walk(agent, world, episodes, greedy, limit).steps
    visited = [[int(v)] for v in episodes.start.tolist()]
    views = [[int(v)] for v in episodes.start_view.tolist()]
    for step in steps:
        moved = (step.action != STOP) & step.active
        _, view = world.step(step.before, step.view, step.action)
        rows, places, looks = step.row[moved], step.after[moved], view[moved]
        for r, p, v in zip(rows.tolist(), places.tolist(), looks.tolist(), strict=True):
            visited[r].append(p)
            views[r].append(v)
    return visited, views
