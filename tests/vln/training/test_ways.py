"""Paths that are followed place by place (R4R), against a twin that walks one episode in plain Python."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, Sample, join_houses, make_episodes
from fedsuite.vln.environment import STOP, pursuit
from fedsuite.vln.evaluation.houses import walk_metrics
from fedsuite.vln.evaluation.metrics import goal_progress_m
from fedsuite.vln.metrics import metrics_of
from fedsuite.vln.training.decisions import rewards
from fedsuite.vln.training.objective import joined
from fedsuite.vln.training.rollout import walk
from tests.harness import changed

LIMIT = 30


def there_and_back(sample: Sample) -> Sample:
    return replace(sample, path=(*sample.path, *sample.path[-2::-1]), follows=True)


@pytest.fixture
def ways(oak: House) -> list[Sample]:
    """Paths that come back, of several lengths."""
    return [there_and_back(s) for s in oak.samples["train"][:15:3]]


class Twin:
    """One walk along a way: where the teacher goes, and what a decision is worth."""

    def __init__(self, house: House, path: tuple[int, ...]) -> None:
        self.graph, self.path, self.reached = house.graph, path, 0

    @property
    def aim(self) -> int:
        return self.path[min(self.reached + 1, len(self.path) - 1)]

    def left_m(self, place: int) -> float:
        after = self.path[min(self.reached + 1, len(self.path) - 1) :]
        d = self.graph.distance_m
        return float(d[place, after[0]] + sum(d[a, b] for a, b in pairwise(after)))

    def teacher(self, place: int) -> int | None:
        """The next place, None to stop."""
        return None if place == self.aim else self.graph.shortest_path(place, self.aim)[1]

    def reward(self, before: int, after: int, stops: bool) -> float:
        if stops:
            return 2.0 if self.left_m(before) < 3.0 else -2.0
        return float(np.sign(np.float32(self.left_m(before)) - np.float32(self.left_m(after))))

    def moved(self, place: int) -> None:
        if place == self.aim and self.reached < len(self.path) - 1:
            self.reached += 1


def forced(logits, teacher, row):
    return teacher


@pytest.mark.parametrize("ways_first", [True, False])
def test_the_teacher_walks_every_place(small_agent, oak, ways, ways_first) -> None:
    """Also where a step's other mini-batch has ordinary goals."""
    world, others = join_houses([oak]), list(oak.samples["train"][15:18])
    parts = [ways, others] if ways_first else [others, ways]
    episodes, _ = joined(*(make_episodes(part, world) for part in parts))
    samples = [s for part in parts for s in part]
    limit = torch.full((len(samples),), LIMIT)
    steps = walk(small_agent, world, episodes, forced, limit).steps
    visited = [[s.path[0]] for s in samples]
    for step in steps:
        moved = step.active & (step.action != STOP)
        for row, after in zip(step.row[moved].tolist(), step.after[moved].tolist(), strict=True):
            visited[row].append(after)
    assert visited == [list(s.path) for s in samples]
    assert len(steps[-1].row) < len(samples), "finished episodes have to leave the batch"


def test_off_the_way_and_back(small_agent, oak, ways) -> None:
    """Random moves: the teacher heads for the first place that was not visited in order, and rewards are of what is left."""
    world, batch = join_houses([oak]), len(ways)
    drawn = torch.randint(1, 100, (batch, LIMIT), generator=torch.Generator().manual_seed(5))
    drawn[torch.arange(batch), torch.tensor([1, 6, 9, 12, 15])] = 0
    time = iter(range(LIMIT))

    def policy(logits, teacher, row):
        """The teacher's action at every other decision, so that places are reached."""
        t = next(time)
        random = 1 + drawn[row, t] % (torch.isfinite(logits).sum(1) - 1)
        return torch.where(drawn[row, t] == 0, STOP, teacher if t % 3 else random)

    episodes = make_episodes(ways, world)
    steps = walk(small_agent, world, episodes, policy, torch.full((batch,), LIMIT)).steps
    twins, seen, advanced = [Twin(oak, s.path) for s in ways], set(), 0
    for step in steps:
        found = rewards(world, step.before, step.after, step.action, step.aim, step.rest_m)
        for i in step.active.nonzero().flatten().tolist():
            twin, before, after = twins[int(step.row[i])], int(step.before[i]), int(step.after[i])
            wanted, action = twin.teacher(before), int(step.teacher[i])
            there = None if action == STOP else int(world.candidate[before, action - 1])
            assert there == wanted and int(step.aim[i]) == twin.aim
            want = twin.reward(before, after, int(step.action[i]) == STOP)
            assert float(found[i]) == want
            seen.add(want)
            twin.moved(after)
            advanced += twin.reached
    assert seen >= {-2.0, -1.0, 1.0} and advanced > 20


def test_a_stop_on_the_goal_too_early_is_none(oak, ways) -> None:
    """The way comes back to its start: stopping there at once is worth -2, at the end 2."""
    world = join_houses([oak])
    long = next(s for s in ways if len(s.path) > 4)
    twin, start = Twin(oak, long.path), torch.tensor([long.path[0]])
    assert twin.left_m(long.path[0]) > 3
    at = pursuit(world, make_episodes([long], world).via)
    stop = torch.tensor([STOP])
    assert rewards(world, start, start, stop, at.aim, at.rest_m).tolist() == [-2.0]
    for place in long.path[1:]:
        at = at.moved(torch.tensor([place]))
    assert rewards(world, start, start, stop, at.aim, at.rest_m).tolist() == [2.0]


def test_progress_towards_a_region(oak) -> None:
    """Of NDH: metres that the nearest place of the region has come nearer."""
    d = oak.graph.distance_m
    samples = [
        replace(s, goals=s.path[-1 - n % 2 :]) for n, s in enumerate(oak.samples["train"][:15])
    ]
    walks = [list(s.path[: 1 + n % len(s.path)]) for n, s in enumerate(samples)]  # some stay
    walks += [[*w, w[0]] for w in walks]  # and some go back
    samples += samples
    want = [
        min(d[w[0], g] for g in s.goals) - min(d[w[-1], g] for g in s.goals)
        for w, s in zip(walks, samples, strict=True)
    ]
    assert len(set(want)) > 3
    assert np.array_equal(goal_progress_m(d, walks, [s.goals for s in samples]), want)
    views = [[0] * len(w) for w in walks]
    plain = FedVLNConfig()
    ndh = changed(plain, dataset="ndh")
    assert np.array_equal(walk_metrics(oak, samples, walks, views, ndh)["gp"], want)
    assert "gp" not in walk_metrics(oak, samples, walks, views, plain)
    assert metrics_of(ndh).row("val_unseen.gp").heading == "GP (m)"
    assert metrics_of(plain).row("val_unseen.gp").heading == "val_unseen.gp" or "gp" not in [
        m.name for m in metrics_of(plain).rows
    ]
