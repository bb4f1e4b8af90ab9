"""Steps per CPU-second of the vectorised environment at batch 1024, over what the Matterport3D Simulator reaches.

A step executes the action of every agent and gives what a decision needs: candidates with their views and relative angles,
the teacher's action and the distance to the goal. View features are not gathered (the simulator without rendering has
none). The original's batch API reaches about 137,000 steps per CPU-second (batch 64, actions and states only).
Houses are generated; --connectivity uses other graphs, for example all 90 of R2R.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch

from benchmarks.report import cpu_seconds, finish, median
from fedsuite.vln.data.graph import load_graph
from fedsuite.vln.environment import World, build_world
from fedsuite.vln.generator.houses import HouseSettings, write_houses
from simulations.app.machine import keep_freed_memory

ORIGINAL_STEPS_PER_CPU_SECOND = 137_000
BATCH, STEPS_PER_CALL, REPEATS, GOAL = 1024, 200, 9, 40


def joined_world(connectivity: Path) -> World:
    """All scans of a folder, without features."""
    graphs = [load_graph(connectivity, s) for s in (connectivity / "scans.txt").read_text().split()]
    return build_world(
        graphs, [np.zeros((len(g.viewpoint_ids), 36, 0), np.float32) for g in graphs]
    )


def random_walk(world: World, steps: int, generator: torch.Generator) -> int:
    """BATCH agents walk at random towards random goals of their houses; returns environment steps."""
    first = torch.tensor(world.first_row)
    house = torch.randint(len(world.scans), (BATCH,), generator=generator)
    size = first[house + 1] - first[house]

    def place() -> torch.Tensor:
        return first[house] + (torch.rand(BATCH, generator=generator) * size).long()

    viewpoint, goal = place(), place()
    view = torch.randint(36, (BATCH,), generator=generator)
    draws = torch.rand(steps, BATCH, generator=generator)
    for step in range(steps):
        count = world.candidate_count.index_select(0, viewpoint)
        action = (draws[step] * (count + 1)).long()
        viewpoint, view = world.step(viewpoint, view, action)
        world.observe(viewpoint, view)
        world.teacher_action(viewpoint, goal)
        world.goal_distance_m(viewpoint, goal)
    return steps * BATCH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connectivity", type=Path, help="folder of connectivity files")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.connectivity is None:
            write_houses(HouseSettings(num_seen=20, num_unseen=4), Path(folder))
        world = joined_world(arguments.connectivity or Path(folder) / "connectivity")
    generator = torch.Generator().manual_seed(0)
    times = cpu_seconds(lambda: random_walk(world, STEPS_PER_CALL, generator), REPEATS)
    rate = STEPS_PER_CALL * BATCH / median(times)
    print(f"{len(world.scans)} houses, {world.first_row[-1]} panoramas, batch {BATCH}")
    print(f"{rate:,.0f} environment steps per CPU-second (median of {REPEATS})")
    finish(
        "vln_env_steps",
        rate / ORIGINAL_STEPS_PER_CPU_SECOND,
        GOAL,
        steps_per_cpu_second=round(rate),
    )


if __name__ == "__main__":
    main()
