"""CPU seconds of a mixing step of CDL on a ring through the app, over those of a bare PyTorch loop on the same frames.

App: one client with all N silos, ten mixing steps a message, run in this process; counted is all that a round costs:
messages, private state written to disk, history, checkpoints. Bare: two networks and two Adam optimizers a silo, the same
initial weights, batches, losses and mixing matrix, weights and images in channels_last; no Flower and nothing kept. One
torch thread, CPU time of the process: waiting for the disk is not counted. After every round of the app come as many steps
of the bare loop, so that both meet the same machine; the first round of each is not counted. Evaluation happens before and
after, and is not counted either.

    python -m benchmarks.cdl_round [--silos 11 22 79] [--mixings 30] [--size 64] [--batch 16] [--loss kl]
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.report import finish, median
from fedsuite.arrays import module_arrays
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.batches import stacked_batch
from fedsuite.driving.data.frames import Silo
from fedsuite.driving.data.sources import open_silos, prepare_sources, silos_folder
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network, make_plan
from fedsuite.driving.training.contrastive import (
    REGRESSION_LOSSES,
    chain_of,
    contrastive_terms,
    total_loss,
)
from fedsuite.driving.training.learner import Learner, Site
from fedsuite.driving.training.silo_networks import SiloNetworks
from fedsuite.settings.config import read_config, with_keys
from simulations.app.machine import keep_freed_memory
from simulations.engines.inprocess import run_inprocess
from simulations.systems import to_run_config

NETWORK_OF = {11: "gaia", 22: "nws", 79: "exodus"}
MIXINGS_PER_ROUND = 10
GOAL = 1.05


def settings(folder: Path, silos: int, mixings: int, size: int, batch: int, loss: str) -> CDLConfig:
    """`mixings` counted ones; two more rounds: the first, and the last, which also evaluates."""
    underlay = next(name for n, name in sorted(NETWORK_OF.items()) if silos <= n)
    return read_config(
        CDLConfig,
        {
            "name": f"cdl-round-{silos}", "results-dir": str(folder / "runs"),
            "num-rounds": 2 + mixings // MIXINGS_PER_ROUND, "evaluate-every": 0, "checkpoint-every": 2,
            "data": {
                "cache-dir": str(folder / "cache"), "num-silos": silos, "train-frames": 64, "test-frames": 4,
                "image-size": size,
            },
            "network.batch-norm": "average", "network.dropout": 0.2, "objective.loss": loss, "training.batch-size": batch,
            "federation": {
                "underlay": underlay, "silos-per-client": silos, "mixings-per-round": MIXINGS_PER_ROUND,
            },
        },
    )  # fmt: skip


class BareSilo:
    """One silo: networks theta^b and theta^s, and their optimizers."""

    def __init__(self, config: CDLConfig) -> None:
        def fresh() -> torch.nn.Module:
            return initial_network(config).to(memory_format=torch.channels_last)

        self.backbone, self.sub = fresh(), fresh() if config.objective.contrastive else None
        networks = [n for n in (self.backbone, self.sub) if n is not None]
        rate, decay = config.training.learning_rate, config.training.weight_decay
        self.optimizers = [
            torch.optim.Adam(n.parameters(), rate, weight_decay=decay, fused=True) for n in networks
        ]


class BareLoop:
    """Ring CDL as a script would write it."""

    def __init__(self, config: CDLConfig, silos: tuple[Silo, ...], a: np.ndarray) -> None:
        self.config, self.a, self.frames = config, a, [s.train for s in silos]
        self.silos = [BareSilo(config) for _ in silos]
        self.chain = chain_of(config.objective, config.data.angle_end)
        self.steps = 0

    def mixing_step(self) -> None:
        """One local update of every silo, then theta_i^b <- sum_j A_ij theta_j^b."""
        c = self.config
        images, angles = stacked_batch(
            self.frames,
            range(len(self.silos)),
            self.steps,
            c.training.batch_size,
            c.seed,
            c.training.flip,
        )
        pixels, targets = torch.from_numpy(images), torch.from_numpy(angles)
        for i, silo in enumerate(self.silos):
            own = pixels[i].float().contiguous(memory_format=torch.channels_last)
            self._update(silo, own, targets[i])
            if self.steps == 0 and silo.sub is not None:
                silo.sub.load_state_dict(silo.backbone.state_dict())
        self._mix()
        self.steps += 1

    def _update(self, silo: BareSilo, images: Tensor, angles: Tensor) -> None:
        contrasts = silo.sub is not None and self.steps > 0
        optimizers = silo.optimizers if contrasts else silo.optimizers[:1]
        for optimizer in optimizers:
            optimizer.zero_grad()
        output = silo.backbone(images)
        objective = self.config.objective
        loss = REGRESSION_LOSSES[objective.regression](output.predictions, angles)
        if contrasts and silo.sub is not None:
            terms = contrastive_terms(objective, self.chain, output, silo.sub(images))
            loss = total_loss(objective, loss, terms, 1.0)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()

    @torch.no_grad()
    def _mix(self) -> None:
        """Running variances with the part between silos: second moments are mixed in their place."""
        states = [s.backbone.state_dict() for s in self.silos]
        names = [n for n, v in states[0].items() if v.is_floating_point()]
        variances = [(n, n[:-3] + "mean") for n in names if n.endswith("running_var")]
        for state in states:
            for variance, mean in variances:
                state[variance] += state[mean] ** 2
        rows = [[state[n] for n in names] for state in states]
        mixed = []
        for weights in self.a:
            first, *others = (int(j) for j in np.flatnonzero(weights))
            total = torch._foreach_mul(rows[first], float(weights[first]))
            for j in others:
                torch._foreach_add_(total, rows[j], alpha=float(weights[j]))
            mixed.append(total)
        for row, state, total in zip(rows, states, mixed, strict=True):
            torch._foreach_copy_(row, total)
            for variance, mean in variances:
                state[variance] -= state[mean] ** 2


def interleaved(config: CDLConfig) -> tuple[list[float], list[float]]:
    """CPU seconds of a mixing step, round by round: of the app, of the bare loop."""
    plan = make_plan(config)
    silos = open_silos(silos_folder(config.data, plan.num_data_silos), False)
    bare = BareLoop(config, silos, plan.mixing.matrix(0))
    app_s: list[float] = []
    bare_s: list[float] = []
    left = time.process_time()

    def on_event(event: Mapping[str, Any]) -> None:
        nonlocal left
        if event["kind"] != "round":
            return
        back = time.process_time()
        app_s.append((back - left) / MIXINGS_PER_ROUND)
        for _ in range(MIXINGS_PER_ROUND if 0 < event["round"] < config.num_rounds else 0):
            bare.mixing_step()
        left = time.process_time()
        bare_s.append((left - back) / MIXINGS_PER_ROUND)

    run_inprocess(to_run_config(config), on_event)
    return app_s[2:-1], bare_s[2:-1]  # without round 0, the first one, and the last one


def stacked_ratio(config: CDLConfig, device: str, repeats: int = 3) -> float:
    """Seconds of an update with stacked gradients (torch.vmap) over those with one silo's after another."""

    def sync() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    def seconds(stacked: str) -> Callable[[], float]:
        own = with_keys(config, {"training.stacked": stacked})
        frames = tuple(
            s.train
            for s in open_silos(silos_folder(own.data, make_plan(own).num_data_silos), False)
        )
        network = initial_network(own).to(device)
        names = names_of(network, own)
        networks = SiloNetworks(own, names, module_arrays(network), len(frames), device)
        site = Site(tuple(range(len(frames))), frames, device)
        learner = Learner(own, network, networks, site)
        learner.train(0, 1, lambda _: np.eye(len(frames)))
        step = 1

        def once() -> float:
            nonlocal step
            sync()
            start = time.perf_counter()
            learner.train(step, 1, lambda _: np.eye(len(frames)))
            sync()
            step += 1
            return time.perf_counter() - start

        once()
        return once

    stacked, single = seconds("yes"), seconds("no")
    pairs = [(stacked(), single()) for _ in range(repeats)]
    return median([a for a, _ in pairs]) / median([b for _, b in pairs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--silos", type=int, nargs="+", default=[11, 22, 79])
    parser.add_argument("--mixings", type=int, default=30, help="counted mixing steps, in tens")
    parser.add_argument("--size", type=int, default=64, help="image side, pixels")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--loss", default="kl", choices=("kl", "none"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    details: dict[str, object] = {}
    ratios = []
    for silos in given.silos:
        with tempfile.TemporaryDirectory() as folder:
            config = settings(
                Path(folder), silos, given.mixings, given.size, given.batch, given.loss
            )
            prepare_sources(config.data, silos)
            app, bare = interleaved(config)
            print(
                f"N = {silos}: app {[round(s, 3) for s in app]} bare {[round(s, 3) for s in bare]}"
            )
            ratios.append(median(app) / median(bare))
            details[f"app-s-{silos}"] = round(median(app), 4)
            details[f"bare-s-{silos}"] = round(median(bare), 4)
            details[f"ratio-{silos}"] = round(ratios[-1], 4)
            if silos == given.silos[0]:
                for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
                    details[f"stacked-over-single-{device}"] = round(
                        stacked_ratio(config, device), 3
                    )
    finish("cdl_round", max(ratios), GOAL, **details)


if __name__ == "__main__":
    main()
