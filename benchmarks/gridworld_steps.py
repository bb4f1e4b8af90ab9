"""Environment steps per CPU-second of Grid-World, over a million.

4,096 generated maps of 8 x 8 cells in envs side by side, H = 2, one thread. A step includes: both parties' own views
moved, their records of before and after the step, the network's inputs of both (3 x 3 and 5 x 5 windows, float32), the
reward function's rewards and ends, and new episodes in envs whose episode has ended. Random joint actions are drawn before;
networks are not timed.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import tempfile
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.report import cpu_seconds, finish, median
from fedsuite.fedrl.config import DataSettings, FedRLConfig
from fedsuite.fedrl.gridworld.walkers import NUM_ACTIONS
from fedsuite.fedrl.gridworld.world import GridWorld, open_gridworld, prepare

ENVS, STEPS_PER_CALL, REPEATS = 4096, 200, 9
REFERENCE_STEPS_PER_CPU_SECOND, GOAL = 1_000_000, 1.0


def make_run(world: GridWorld) -> Callable[[], None]:
    """A function that carries out STEPS_PER_CALL joint actions in every env."""
    actions = np.random.default_rng(0).integers(NUM_ACTIONS, size=(STEPS_PER_CALL, ENVS))
    views = [world.view(role, "train", ENVS) for role in ("alpha", "beta")]
    reward_function = world.reward_function("train", ENVS)
    count = world.num_episodes("train")

    def begin(envs: np.ndarray, first: int) -> int:
        rows = (first + np.arange(len(envs))) % count
        for part in (*views, reward_function):
            part.begin(envs, rows)
        return first + len(envs)

    def run() -> None:
        following = begin(np.arange(ENVS), 0)
        for joint in actions:
            step = reward_function.step(joint)
            for view in views:
                view.move(joint)
            following = begin(np.flatnonzero(step.ended), following)
            for view in views:
                view.inputs(view.records())

    return run


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        config = FedRLConfig(data=DataSettings(cache_dir=folder))
        prepare(config)
        world = open_gridworld(config)
    times = cpu_seconds(make_run(world), REPEATS)
    rate = STEPS_PER_CALL * ENVS / median(times)
    print(f"{world.num_episodes('train')} maps, {ENVS} envs, {STEPS_PER_CALL} steps a call")
    print(f"{rate:,.0f} environment steps per CPU-second (median of {REPEATS})")
    ratio = rate / REFERENCE_STEPS_PER_CPU_SECOND
    finish("gridworld_steps", ratio, GOAL, envs=ENVS, steps_per_cpu_second=round(rate))


if __name__ == "__main__":
    main()
