"""On a GPU: an optimizer step of the published agent against its matrix rate, and houses and CDL's silos stacked against one
by one.

    python -m benchmarks.gpu_steps [--device cuda] [--houses 1 4 12] [--silos 11 79] [--size 200] [--batch 32]

Agent: as in vln_optimizer_step, with views of width 2048 (ResNet-152), on one generated house; the rate is that of a square
torch.mm in float32. Houses: a step of each of so many by `train_stacked`, launched and replayed (CUDA graphs), over one
house after another, and the walks on all their instructions by `walk_together`, over those of one house after another;
operations are kernels on a GPU; on a CPU calls of torch's operators that are no views, a replay being one, and agents are
narrow there, which changes no number of operations; busy: the share of the time in which a GPU has a kernel at work.
Silos: two mixing steps on a ring by the learner of a client (batches of random frames, gradients, Adam, mixing),
torch.vmap over stacked silos over one silo after another. All with repeatable sums, as runs have them, and the agent
without as well. The result is the ratio of the largest number of silos, plain training; `--silos` or `--houses` with no
number leaves them out.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from benchmarks import vln_optimizer_step as agent_step
from benchmarks.cdl_round import settings
from benchmarks.gpu_timing import measured, seconds
from benchmarks.pretended_graphs import PretendedGraphs
from benchmarks.report import finish, median
from fedsuite.arrays import module_arrays
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.driving.training.learner import Learner, Site
from fedsuite.driving.training.silo_networks import SiloNetworks
from fedsuite.settings.config import with_keys
from fedsuite.settings.devices import check_device, device_of
from fedsuite.vln.data.dataset import House, join_houses
from fedsuite.vln.evaluation.joint_walks import Walks, walk_together
from fedsuite.vln.model.agent import AgentSizes, build_agent
from fedsuite.vln.model.recording import Recordings
from fedsuite.vln.training.learner import (
    AgentLessons,
    Training,
    TrainingData,
    train_locally,
    walk_all,
)
from fedsuite.vln.training.rmsprop import RMSprop
from fedsuite.vln.training.stacked import train_stacked

GOAL, SQUARE, FRAMES = 0.5, 8192, 64
WIDE = AgentSizes(vocabulary=992, feature=2048)
NARROW = AgentSizes(vocabulary=992, feature=8, angle=8, hidden=16, word=8, action=8)
Train = Callable[[Sequence[Training]], object]


def agent(device: str, square_side: int) -> dict[str, float]:
    """Milliseconds of a step, repeatable and not, and TFLOP/s of it and of a matrix product."""
    agent_step.SIZES = WIDE
    with tempfile.TemporaryDirectory() as folder:
        house = agent_step.generated_house(Path(folder))
    world, samples = join_houses([house], device), house.samples["train"]
    network = build_agent(agent_step.SIZES, seed=0).to(device)
    optimizer = RMSprop(network.parameters(), 1e-4, bias_correction=True)
    parts, counts, number = [TrainingData(samples, 0.2)], list[float](), 0

    def step() -> None:
        nonlocal number
        number += 1
        train_locally(network, optimizer, world, parts, agent_step.CONFIG, 1, number, 0)

    times = {}
    with agent_step.counting(counts):
        for name, repeatable in (("repeatable", True), ("free", False)):
            torch.use_deterministic_algorithms(repeatable)
            times[name] = seconds(step, 15, device)
    torch.use_deterministic_algorithms(True)
    square = torch.rand(square_side, square_side, device=device)
    rate = 2 * square_side**3 / seconds(lambda: torch.mm(square, square), 5, device)
    found = {f"agent-ms-{name}": 1000 * value for name, value in times.items()}
    achieved = median(counts) / times["repeatable"]
    return {**found, "agent-tflops": achieved / 1e12, "mm-tflops": rate / 1e12}


def houses(number: int, device: str, repeats: int) -> dict[str, float]:
    """Milliseconds and operations of a step of every house, one house after another and stacked, of one house."""

    def one_by_one(trainings: Sequence[Training]) -> None:
        for training in trainings:
            training.all_steps()

    found: dict[str, float] = {}
    pretended = PretendedGraphs(_disable_current_modes) if device == "cpu" else None
    replayed = partial(train_stacked, recordings=Recordings(pretended))
    ways: dict[str, Train] = {"single": one_by_one, "stacked": train_stacked, "replayed": replayed}
    for name, train in ways.items():
        step = step_of(train, number, device)
        found |= measured(name, step, number, repeats, device, pretended)
    ratios = {f"{way}-ratio": found[f"{way}-ms"] / found["single-ms"] for way in [*ways][1:]}
    return found | ratios


def step_of(train: Train, number: int, device: str) -> Callable[[], None]:
    """Takes a step of each of so many houses, as `train` does; whatever that is, with the same agents and mini-batches."""
    house = one_house()
    parts, world = [TrainingData(house.samples["train"], 0.2)], join_houses([house], device)
    agents = [build_agent(agent_step.SIZES, seed).to(device) for seed in range(number)]
    own = [(a, RMSprop(a.parameters(), 1e-4, bias_correction=True)) for a in agents]
    visits = count()

    def step() -> None:
        visit = next(visits)
        lessons = [
            AgentLessons(agent, world, parts, agent_step.CONFIG, (visit, h))
            for h, (agent, _) in enumerate(own)
        ]
        train([Training(one, o, 1) for one, (_, o) in zip(lessons, own, strict=True)])

    return step


def walks(number: int, device: str, repeats: int) -> dict[str, float]:
    """The same of the walks on each house's instructions."""
    house, asked = one_house(), list[Walks]()
    network = build_agent(agent_step.SIZES, seed=0).to(device).eval()
    for n in range(number):
        scan = f"house{n}"
        samples = [replace(s, scan=scan) for s in house.samples["train"]]
        own = replace(house, graph=replace(house.graph, scan=scan), samples={})
        asked.append(Walks(network, join_houses([own], device), samples, agent_step.CONFIG))

    def one_by_one() -> None:
        for one in asked:
            walk_all(one.agent, one.world, one.samples, one.config)

    found = measured("single", one_by_one, number, repeats, device)
    found |= measured("together", lambda: walk_together(asked), number, repeats, device)
    return {**found, "ratio": found["together-ms"] / found["single-ms"]}


@cache
def one_house() -> House:
    """With views that are random, and read from memory."""
    with tempfile.TemporaryDirectory() as folder:
        return agent_step.generated_house(Path(folder))


def mixing_step(silos: int, loss: str, stacked: str, precision: str, given: argparse.Namespace) -> float:  # fmt: skip
    """Milliseconds of a mixing step on a ring of `silos`."""
    device, rng = device_of(given.device, precision), np.random.default_rng(0)
    config = settings(Path("unused"), silos, 10, given.size, given.batch, loss)
    config = with_keys(config, {"training.stacked": stacked, "network.batch-norm": "group"})
    frames = [
        Frames(
            rng.integers(0, 256, (FRAMES, 1, given.size, given.size), np.uint8),
            rng.normal(0, 0.3, FRAMES).astype(np.float32),
        )
        for _ in range(silos)
    ]
    network = initial_network(config).to(device)
    names, arrays = names_of(network, config), module_arrays(network)
    networks = SiloNetworks(config, names, arrays, silos, device)
    learner = Learner(config, network, networks, Site(tuple(range(silos)), tuple(frames), device))
    near = np.eye(silos)
    ring = near / 2 + (np.roll(near, 1, 1) + np.roll(near, -1, 1)) / 4
    number = 0

    def two_steps() -> None:
        nonlocal number
        learner.train(number, 2, lambda _: ring)
        number += 2

    return 1000 * seconds(two_steps, 3, device) / 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--houses", type=int, nargs="*", default=[1, 4, 12])
    parser.add_argument("--repeats", type=int, default=5, help="of a step of houses")
    parser.add_argument("--silos", type=int, nargs="*", default=[11, 79])
    parser.add_argument("--size", type=int, default=200, help="image side, pixels")
    parser.add_argument("--batch", type=int, default=32)
    given = parser.parse_args()
    check_device(given.device)
    torch.set_num_threads(1)
    details = agent(device_of(given.device), SQUARE if given.device == "cuda" else 1024)
    ratio = 0.0
    if given.device == "cpu":
        agent_step.SIZES = NARROW
    for number in given.houses:
        own = houses(number, device_of(given.device), given.repeats)
        print(f"{number} houses: " + ", ".join(f"{k} {v:.3g}" for k, v in own.items()))
        details |= {f"houses-{number}-{k}": v for k, v in own.items()}
        own = walks(number, device_of(given.device), given.repeats)
        print(f"{number} houses walk: " + ", ".join(f"{k} {v:.3g}" for k, v in own.items()))
        details |= {f"walks-{number}-{k}": v for k, v in own.items()}
    for silos in given.silos:
        for loss in ("none", "kl"):
            for precision in ("float32", "tf32"):
                stacked, single = (
                    mixing_step(silos, loss, kind, precision, given) for kind in ("yes", "no")
                )
                print(f"{silos} silos, {loss}, {precision}: {stacked:.0f} ms, {single:.0f} ms")
                details[f"stacked-ms-{silos}-{loss}-{precision}"] = stacked
                details[f"ratio-{silos}-{loss}-{precision}"] = stacked / single
                ratio = stacked / single if (loss, precision) == ("none", "float32") else ratio
    where = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    finish("gpu_steps", ratio, GOAL, device=where, **{k: round(v, 3) for k, v in details.items()})


if __name__ == "__main__":
    main()
