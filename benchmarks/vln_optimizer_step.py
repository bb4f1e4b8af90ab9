"""Time of one optimizer step of the published agent, over that of its arithmetic at the speed of a plain matrix product.

A step is what a house does in local training: two mini-batches of 64 episodes, one teacher-forced and one sampled (A2C),
losses, gradients, clipping, RMSprop. Sizes as published with CLIP features: F = 512, A = 128, H = 512, V = 992, words of
E = 256, poses of a = 64; dropout on, weights random, one generated house with random views of width F.

Floating-point operations, 2 a multiply-add, only for episodes still under way (K candidates, L words, F' = F + A):

  per word           16 (H/2) (E + H/2)                                    both directions of the LSTM
  per episode        2 H H                                                 initial state
  per decision       2 A a + 2 H F' + 4 36 (F + 4)                         pose, attention over the views
                     + 8 H (a + F' + H)                                    LSTM cell
                     + 2 H H + 4 L H + 4 H H                               attention over the words, h~
                     + 2 H F' + 2 K (F + 4)                                candidates
  sampled decision   + 2 H H + 2 H                                         critic

times 3 for forward and backward. Angles count with 4 numbers where their repeats are never multiplied. Everything else
(embedding, dropout, gathers, softmax, clipping, the optimizer) counts nothing, so that the result lies above 1. The speed
is that of a large square torch.mm in float32, measured between the steps with the same number of threads.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.report import finish, median
from fedsuite.vln.config import FedVLNConfig, ObjectiveSettings
from fedsuite.vln.data.dataset import House, join_houses, load_house
from fedsuite.vln.data.prepare import prepare_houses
from fedsuite.vln.environment import Episodes, World
from fedsuite.vln.generator.houses import HouseSettings, write_houses
from fedsuite.vln.model.agent import AgentSizes, build_agent
from fedsuite.vln.training import objective
from fedsuite.vln.training.learner import TrainingData, train_locally
from fedsuite.vln.training.rmsprop import RMSprop
from fedsuite.vln.training.rollout import Walk
from simulations.app.machine import keep_freed_memory

SIZES = AgentSizes(vocabulary=992, feature=512)
CONFIG = FedVLNConfig(objective=ObjectiveSettings(kind="a2c", batch_size=64))
SQUARE, STEPS, WARM_UP = 2048, 15, 3
GOAL = 1.5


def generated_house(folder: Path) -> House:
    """A house of usual size with its own instructions; views are random."""
    settings = HouseSettings(
        num_seen=1, num_unseen=1, paths_per_house=60, unseen_paths=1, feature_size=8
    )
    write_houses(settings, folder)
    prepare_houses(folder, folder / "houses", CONFIG.data.min_word_count)
    scan = (folder / "connectivity" / "scans.txt").read_text().split()[0]
    house = load_house(folder / "houses", folder / "connectivity", folder / "views", scan, 80)
    shape = (*house.views.shape[:2], SIZES.feature)
    return replace(house, views=np.random.default_rng(0).random(shape, np.float32))


def operations(world: World, episodes: Episodes, num_forced: int, out: Walk) -> float:
    """Floating-point operations of one optimizer step (formula above)."""
    s = SIZES
    h, f4, wide, a = s.hidden, s.feature + 4, s.feature + s.angle, s.action
    total = (
        int(episodes.length.sum()) * 16 * (h // 2) * (s.word + h // 2) + len(episodes) * 2 * h * h
    )
    decision = 2 * s.angle * a + 4 * h * wide + 4 * 36 * f4 + 8 * h * (a + wide + h) + 6 * h * h
    for step in out.steps:
        row = step.row[step.active]
        words = int(episodes.length[row.cpu()].sum())
        candidates = int(world.candidate_count[step.before[step.active]].sum())
        sampled = int((row >= num_forced).sum())
        total += (
            len(row) * decision + 4 * words * h + 2 * candidates * f4 + sampled * 2 * h * (h + 1)
        )
    return 3.0 * total


@contextmanager
def counting(counts: list[float]) -> Iterator[None]:
    """Append the operations of every rollout of the objective to `counts`."""
    module: Any = objective
    original = module.walk

    def counted(agent, world, episodes, *rest, **options):  # type: ignore[no-untyped-def]
        out = original(agent, world, episodes, *rest, **options)
        counts.append(operations(world, episodes, CONFIG.objective.batch_size, out))
        return out

    module.walk = counted
    try:
        yield
    finally:
        module.walk = original


def seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Time of one call."""
    start = clock()
    work()
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default 1)")
    threads: int = parser.parse_args().threads
    torch.set_num_threads(threads)
    keep_freed_memory()
    # CPU time is not disturbed by other programs; with several threads only wall-clock time means anything.
    clock = time.process_time if threads == 1 else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        house = generated_house(Path(folder))
    world, samples = join_houses([house]), house.samples["train"]
    agent = build_agent(SIZES, seed=0)
    optimizer = RMSprop(agent.parameters(), CONFIG.objective.learning_rate, bias_correction=True)
    square = torch.rand(SQUARE, SQUARE)
    parts = [TrainingData(samples, CONFIG.objective.teacher_weight)]
    counts: list[float] = []
    times, rates, decisions = [], [], []
    with counting(counts):
        for number in range(WARM_UP + STEPS):
            start = clock()
            report = train_locally(agent, optimizer, world, parts, CONFIG, 1, number, 0)
            times.append(clock() - start)
            rates.append(2 * SQUARE**3 / seconds(lambda: torch.mm(square, square), clock))
            decisions.append(float(report.decisions))
    rate = median(rates[WARM_UP:])
    ratios = [t * rate / n for t, n in zip(times[WARM_UP:], counts[WARM_UP:], strict=True)]
    words = sum(len(s.tokens) for s in samples) / len(samples)
    print(
        f"{threads} thread(s); {words:.1f} words an instruction, {median(decisions):.0f} decisions a step"
    )
    print(f"{median(counts) / 1e9:.1f} GFLOP a step, torch.mm {rate / 1e9:.1f} GFLOP/s")
    print(f"{1000 * median(times[WARM_UP:]):.0f} ms a step (median of {STEPS})")
    finish(
        "vln_optimizer_step",
        median(ratios),
        GOAL,
        threads=threads,
        milliseconds=round(1000 * median(times[WARM_UP:])),
        gflop=round(median(counts) / 1e9, 2),
        gflop_per_second=round(rate / 1e9, 1),
    )


if __name__ == "__main__":
    main()
