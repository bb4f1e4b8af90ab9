"""Training of several houses side by side: one walk of all, see fedsuite/vln/model/stacked.py, and a loss for each.

Optimizer, clipping, penalties and control variates are each house's own, as is the number of its steps: who has taken all
of them leaves the stack.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedsuite.vln.config import FedVLNConfig, ObjectiveSettings
from fedsuite.vln.environment import STOP, Episodes, World
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.rows import Chosen
from fedsuite.vln.model.stacked import (
    StackedAgent,
    StackedBatch,
    StackedDropout,
    sample_stacked,
)
from fedsuite.vln.stacked_world import StackedWorld, stacked_episodes, stacked_world
from fedsuite.vln.training.learner import Source, Training, TrainingReport
from fedsuite.vln.training.objective import (
    Losses,
    a2c,
    decisions_of,
    joined,
    values_at_the_cut,
)
from fedsuite.vln.training.rollout import Walk, walk

Drawn = tuple[Episodes | None, Episodes | None]  # forced, sampled


def train_stacked(trainings: Sequence[Training]) -> list[TrainingReport]:
    """`train_locally` of every house; agents, optimizers and lessons must be objects of their own."""
    if len(trainings) == 1:
        return [trainings[0].all_steps()]
    stacked = stacked_world([t.lessons.sources[0].world for t in trainings])
    for number in range(max(t.steps for t in trainings)):
        going = [h for h, t in enumerate(trainings) if number < t.steps]
        for h in going:
            trainings[h].lessons.draw()
        for part in range(max(len(trainings[h].lessons.sources) for h in going)):
            # Environment dropout and dropout of features are drawn in other shapes.
            for describes in (False, True):
                _backward(trainings, stacked, going, part, describes)
        for h in going:
            trainings[h].step()
    return [t.lessons.measured(t.steps) for t in trainings]


def _backward(
    trainings: Sequence[Training],
    stacked: StackedWorld,
    going: Sequence[int],
    part: int,
    describes: bool,
) -> None:
    """Add the gradients of a part of the data, of the houses where its instructions are made up (`describes`) or not."""
    own: list[tuple[int, Source]] = [
        (h, mine[part])
        for h in going
        if part < len(mine := trainings[h].lessons.sources)
        and (mine[part].data.speaker is not None) == describes
    ]
    if not own:
        return
    numbers, sources = zip(*own, strict=True)
    losses = stacked_losses(
        StackedAgent([trainings[h].lessons.agent for h in numbers]),
        replace(stacked, first_row=[stacked.first_row[h] for h in numbers]),
        [source.drawn for source in sources],
        [source.data.teacher_weight for source in sources],
        sources[0].config,
        [source.dropout for source in sources],
        [source.actions for source in sources],
    )
    torch.stack([one.total for one in losses]).sum().backward()
    for h, one in zip(numbers, losses, strict=True):
        trainings[h].lessons.count(one)


def stacked_losses(
    agent: StackedAgent,
    stacked: StackedWorld,
    drawn: Sequence[Drawn],
    weights: Sequence[float],
    config: FedVLNConfig,
    dropouts: Sequence[Dropout],
    actions: Sequence[torch.Generator],
) -> list[Losses]:
    """`compute_losses` of every house. Of each: mini-batches by the rows of its own world, teacher weight and streams."""
    world, pairs = stacked.world, [joined(*one) for one in drawn]
    parts, num_forced = [episodes for episodes, _ in pairs], [n for _, n in pairs]
    batch = StackedBatch([len(own) for own in parts], world.device)
    episodes = stacked_episodes(parts, stacked.first_row)
    slot = torch.arange(len(episodes) // len(parts), device=world.device)
    forced = (slot < torch.tensor(num_forced, device=world.device).unsqueeze(1)).flatten()
    limit = torch.where(forced, config.agent.max_actions, config.agent.sampled_max_actions)

    def policy(logits: Tensor, teacher: Tensor, row: Tensor) -> Tensor:
        if config.objective.kind == "none":
            return teacher
        drawn = sample_stacked(logits, batch, actions)
        return torch.where(forced.index_select(0, row), teacher, drawn)

    rewarded = config.objective.kind == "a2c"
    dropout = StackedDropout(dropouts, batch)
    out = walk(agent, world, episodes, policy, limit, dropout, bootstrap=rewarded, batch=batch)
    imitation = _imitations(out, forced, num_forced)
    if rewarded:
        sampled = _by_reward(agent, world, out, forced, config.objective, dropouts)
    else:
        sizes = [len(own) - n for own, n in pairs]
        sampled = _imitations(out, ~forced, sizes)
    counts = torch.stack([s.active.view(len(parts), -1).sum(1) for s in out.steps]).sum(0)
    total = torch.tensor(weights, device=world.device) * imitation
    total = total + config.objective.sampled_weight * sampled
    found = zip(total, imitation.tolist(), sampled.tolist(), counts.tolist(), strict=True)
    return [Losses(*one) for one in found]


def _imitations(out: Walk, wanted: Tensor, sizes: Sequence[int]) -> Tensor:
    """Of every house [S] the cross-entropy with the teacher, summed over the steps of the wanted [N] episodes, divided by
    their number."""
    total = out.steps[0].logits.new_zeros(len(sizes))
    for step in out.steps:
        counts = step.active & wanted.index_select(0, step.row) & (step.teacher >= STOP)
        label = torch.where(counts, step.teacher, -100)
        each = cross_entropy(step.logits, label, reduction="none", ignore_index=-100)
        total = total + each.view(len(sizes), -1).sum(1)
    return total / torch.tensor(sizes, device=total.device).clamp(min=1)


def _by_reward(
    agent: StackedAgent,
    world: World,
    out: Walk,
    forced: Tensor,
    settings: ObjectiveSettings,
    dropouts: Sequence[Dropout],
) -> Tensor:
    """Of every house [S]: what its own critic makes of its decisions."""
    number = torch.arange(len(dropouts), device=world.device)
    house = number.repeat_interleave(len(forced) // len(dropouts))
    own = [(h, agent.agents[h].critic, dropout) for h, dropout in enumerate(dropouts)]
    last = [values_at_the_cut(critic, out, house == h, dropout) for h, critic, dropout in own]
    decided = decisions_of(world, out, forced, torch.stack(last).sum(0), settings)
    whose = house.index_select(0, decided.row)
    chosen = [Chosen(decided.counted & (whose == h)) for h, *_ in own]
    return torch.stack([a2c(critic, decided, chosen[h], settings, drop) for h, critic, drop in own])
