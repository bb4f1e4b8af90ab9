"""Time of one mixing step of 79 silos over that of a bare float64 product A @ [N, P].

Silos stand on the Exodus network; each holds the 314,657 parameters and the BatchNorm statistics of a ResNet-8. Two
overlays: the ring (2 weights a row) and the minimum tree with Metropolis weights. The product is that of NumPy on parameters
already joined in one float64 array, nothing converted or copied, so that a ratio of 1 says that mixing costs no more than
its arithmetic, done densely. The ratio reported is the worse of the two overlays. One thread; CPU time.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from functools import partial

import numpy as np

from benchmarks.report import cpu_seconds, finish, median
from fedsuite.driving.topology import build_overlay, load_network
from fedsuite.driving.topology.mixing import mix
from fedsuite.driving.topology.mixing_matrix import schedule_of

REPEATS, GOAL = 7, 1.0


def resnet8_shapes() -> dict[str, tuple[int, ...]]:
    """Shapes of parameters and statistics, by name."""
    shapes: dict[str, tuple[int, ...]] = {"stem.weight": (32, 1, 5, 5), "stem.bias": (32,)}
    for block, (inside, out) in enumerate(((32, 32), (32, 64), (64, 128)), 1):
        convolutions = (("conv1", inside, 3), ("conv2", out, 3), ("shortcut", inside, 1))
        for name, channels, kernel in convolutions:
            shapes[f"block{block}.{name}.weight"] = (out, channels, kernel, kernel)
            shapes[f"block{block}.{name}.bias"] = (out,)
        for name, channels in (("bn1", inside), ("bn2", out)):
            for part in ("weight", "bias", "running_mean", "running_var"):
                shapes[f"block{block}.{name}.{part}"] = (channels,)
    return shapes | {"head.weight": (1, 6272), "head.bias": (1,)}


def main() -> None:
    network = load_network("exodus")
    silos = network.num_silos
    rng = np.random.default_rng(0)
    stacked = {
        name: rng.random((silos, *shape), dtype=np.float32)
        for name, shape in resnet8_shapes().items()
    }
    parameters = [v.reshape(silos, -1) for k, v in stacked.items() if "running" not in k]
    joined = np.concatenate(parameters, axis=1).astype(np.float64)
    ratios, seconds, bare = {}, {}, {}
    for kind in ("ring", "mst"):
        a = schedule_of(build_overlay(network, kind)).matrix(1)
        bare[kind] = median(cpu_seconds(partial(np.matmul, a, joined), REPEATS))
        seconds[kind] = median(cpu_seconds(partial(mix, stacked, a), REPEATS))
        ratios[kind] = seconds[kind] / bare[kind]
        print(f"{kind}: {seconds[kind]:.3f} s a step, bare product {bare[kind]:.3f} s")
    finish(
        "mixing",
        max(ratios.values()),
        GOAL,
        silos=silos,
        parameters=joined.shape[1],
        **{f"{kind}_ratio": round(ratio, 3) for kind, ratio in ratios.items()},
        **{f"{kind}_milliseconds": round(1000 * s) for kind, s in seconds.items()},
    )


if __name__ == "__main__":
    main()
