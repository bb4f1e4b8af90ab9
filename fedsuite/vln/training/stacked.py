"""Training of several houses side by side: one walk of all, see fedsuite/vln/model/stacked.py, and a loss for each.

Optimizer, clipping, penalties and control variates are each house's own, as is the number of its steps: who has taken all
of them leaves the stack.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedsuite.vln.config import FedVLNConfig, ObjectiveSettings
from fedsuite.vln.environment import Episodes, World
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.recording import Recordings, rounded_rows
from fedsuite.vln.model.rows import Chosen
from fedsuite.vln.model.stacked import StackedAgent
from fedsuite.vln.model.stacked_batch import StackedBatch
from fedsuite.vln.model.stacked_dropout import StackedDropout, StackedPolicy
from fedsuite.vln.stacked_world import StackedWorld, stacked_episodes, stacked_world
from fedsuite.vln.training.decisions import Decisions, decisions_of
from fedsuite.vln.training.learner import AgentLessons, Source, Training, TrainingReport
from fedsuite.vln.training.objective import Losses, a2c, joined
from fedsuite.vln.training.rmsprop import RMSprop, step_together
from fedsuite.vln.training.rollout import Walk, walk

Drawn = tuple[Episodes | None, Episodes | None]  # forced, sampled


def train_stacked(
    trainings: Sequence[Training], recordings: Recordings | None = None
) -> list[TrainingReport]:
    """`train_locally` of every house; agents, optimizers and lessons must be objects of their own.

    recordings: of decisions, which are replayed then.
    """
    if len(trainings) == 1 and recordings is None:
        return [trainings[0].all_steps()]
    stacked = stacked_world([t.lessons.sources[0].world for t in trainings])
    for number in range(max(t.steps for t in trainings)):
        going = [h for h, t in enumerate(trainings) if number < t.steps]
        for h in going:
            trainings[h].lessons.draw()
        for part in range(max(len(trainings[h].lessons.sources) for h in going)):
            # Environment dropout and dropout of features are drawn in other shapes.
            for describes in (False, True):
                _backward(trainings, stacked, going, part, describes, recordings)
        _step([trainings[h] for h in going])
    return [t.lessons.measured(t.steps) for t in trainings]


def _backward(
    trainings: Sequence[Training],
    stacked: StackedWorld,
    going: Sequence[int],
    part: int,
    describes: bool,
    recordings: Recordings | None,
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
        StackedAgent([trainings[h].lessons.agent for h in numbers], recordings),
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


def _step(trainings: Sequence[Training]) -> None:
    """`Training.step` of every house, with fewer operations."""
    for training in trainings:
        training.gradients.shape(training.parameters)
    clip_together([training.lessons for training in trainings])
    optimizers = [training.optimizer for training in trainings]
    known = [one for one in optimizers if isinstance(one, RMSprop)]
    if len(known) == len(optimizers):
        step_together(known)
    else:
        for optimizer in optimizers:
            optimizer.step()
    for optimizer in optimizers:
        optimizer.zero_grad()


def clip_together(lessons: Sequence[AgentLessons]) -> None:
    """`AgentLessons.clip` of every house, by the numbers of torch's clip_grad_norm_."""
    modules = [m for one in lessons for m in (one.agent.encoder, one.agent.decoder)]
    gradients = [[p.grad for p in m.parameters() if p.grad is not None] for m in modules]
    if not any(gradients):  # where what moves is the critic alone
        return
    norms = torch._foreach_norm([slope for own in gradients for slope in own])
    parts = torch.stack(norms).split([len(own) for own in gradients])
    norm = torch.stack([torch.linalg.vector_norm(part) for part in parts])
    scales = (lessons[0].longest / (norm + 1e-6)).clamp(max=1.0)
    for own, scale in zip(gradients, scales, strict=True):
        if own:
            torch._foreach_mul_(own, scale)
    for one, length in zip(lessons, norm[::2].tolist(), strict=True):
        one.sums[2] += length


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
    rounded = None if agent.recordings is None else rounded_rows
    batch = StackedBatch([len(own) for own in parts], world.device, rounded)
    episodes = stacked_episodes(parts, stacked.first_row, batch.rows)
    slot = torch.arange(batch.rows, device=world.device)
    forced = (slot < torch.tensor(num_forced, device=world.device).unsqueeze(1)).flatten()
    limit = torch.where(forced, config.agent.max_actions, config.agent.sampled_max_actions)

    draws = None if config.objective.kind == "none" else actions
    policy = StackedPolicy(forced, batch, draws)
    rewarded = config.objective.kind == "a2c"
    dropout = StackedDropout(dropouts, batch)
    out = walk(agent, world, episodes, policy, limit, dropout, bootstrap=rewarded, batch=batch)
    decided = decisions_of(out, len(episodes))
    houses = _Houses(len(parts), len(slot), world.device)
    imitation = houses.sums(decided.imitation(forced), decided.row) / houses.at_least_one(
        num_forced
    )
    if rewarded:
        sampled = _by_reward(agent, world, out, decided, forced, houses, config.objective, dropout)
    else:
        own = houses.at_least_one([len(own) - n for own, n in pairs])
        sampled = houses.sums(decided.imitation(~forced), decided.row) / own
    total = torch.tensor(weights, device=world.device) * imitation
    total = total + config.objective.sampled_weight * sampled
    counts = houses.sums(decided.active, decided.row)
    found = zip(total, imitation.tolist(), sampled.tolist(), counts.tolist(), strict=True)
    return [Losses(*one) for one in found]


class _Houses:
    """Whose rows are whose, of S houses with B rows of a stacked batch each."""

    def __init__(self, houses: int, rows: int, device: torch.device) -> None:
        self.rows, self.number = rows, torch.arange(houses, device=device)

    def sums(self, values: Tensor, row: Tensor) -> Tensor:
        """Of values [N] of these rows [N], for every house: [S]."""
        own = self.number.unsqueeze(1) == row // self.rows
        return torch.where(own, values, 0).sum(1)

    def at_least_one(self, counts: Sequence[int]) -> Tensor:
        """[S]."""
        return torch.tensor(counts, device=self.number.device).clamp(min=1)

    def ordered(self, wanted: Tensor, row: Tensor) -> tuple[Chosen, list[int]]:
        """The wanted [N] of these rows, house by house, and how many are each house's."""
        counts = self.sums(wanted, row).tolist()
        whose = torch.where(wanted, row // self.rows, len(self.number))
        return Chosen(wanted, whose.argsort(stable=True)[: sum(counts)]), counts


def _by_reward(
    agent: StackedAgent,
    world: World,
    out: Walk,
    decided: Decisions,
    forced: Tensor,
    houses: _Houses,
    settings: ObjectiveSettings,
    dropout: StackedDropout,
) -> Tensor:
    """Of every house [S]: L_RL, with what its own critic makes of its decisions."""
    last = torch.zeros(len(forced), device=world.device)
    if out.unfinished is not None and out.last_hidden is not None:
        every = torch.ones_like(out.unfinished, dtype=torch.bool)
        cut, counts = houses.ordered(every, out.unfinished)
        with torch.no_grad():
            last[cut.of(out.unfinished)] = agent.values(cut.of(out.last_hidden), counts, dropout)
    counted = decided.active & ~forced.index_select(0, decided.row)
    target = decided.returns(world, counted, last, settings.discount)
    chosen, counts = houses.ordered(counted, decided.row)
    value = agent.values(chosen.of(decided.hidden), counts, dropout)
    parts = a2c(decided, target, value, chosen, settings)
    return houses.sums(parts, chosen.of(decided.row)) / houses.at_least_one(counts)
