"""On a GPU: how long the rounds of a navigation run take with several houses side by side, and what a whole run would take.

    python -m benchmarks.gpu_rounds --set data.dir=R2R --set data.features=VIEWS.hdf5 [--houses 4 16] [--rounds 40]
        [--every 5] [--whole 365] [--width 2048] [--config fedvln/r2r-envdrop] [--only VARIANT] [--device cuda]
        [--engine inprocess] [--workers-per-gpu 8]

For every number of houses a message (a power of two) a run of the configuration in a process of its own, so many rounds
long and evaluated every so many. 0 houses: no key about it, every message for one house, which is what workers side by
side need. With `--width` the views are first projected to that width by a random matrix, as wide as those of ResNet-152
and as costly.

Printed for each: seconds until the first round was over, medians of a later round's training and of an evaluation, the
largest memory used on the GPU, and the share of the time in which it had work, by nvidia-smi every second. `minutes`: the
`--whole` number of rounds with an evaluation every so many, by the medians, with start and end as they were. The result
is the fewest of these minutes over 25, the goal for 365 rounds of Room-to-Room on one H100.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.report import finish, median
from fedsuite.history import TIMINGS
from fedsuite.history.timing import timing
from fedsuite.vln.data.view_files import read_hdf5

GOAL_MINUTES, SAMPLE_S = 25.0, 1.0
ASKED = ["--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits"]


class Watched:
    """What nvidia-smi says of the first GPU while some work goes on; nothing where it is not there."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float]] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._sample, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _sample(self, over: threading.Event) -> None:
        while shutil.which("nvidia-smi") and not over.wait(SAMPLE_S):
            done = subprocess.run(
                ["nvidia-smi", *ASKED], check=False, capture_output=True, text=True
            )
            if done.returncode == 0:
                memory, busy = done.stdout.splitlines()[0].split(",")
                self.samples.append((float(memory), float(busy)))

    @property
    def memory_gb(self) -> float:
        return max((memory for memory, _ in self.samples), default=np.nan) / 1024

    @property
    def busy(self) -> float:
        return float(np.mean([own for _, own in self.samples])) if self.samples else np.nan


def widened(file: Path, width: int, out: Path) -> Path:
    """The views of an HDF5 file, each of its values spread over `width` by one random matrix."""
    import h5py

    matrix: np.ndarray | None = None
    with h5py.File(out, "w") as entries:
        for scan, viewpoint, views in read_hdf5(file):
            if matrix is None:
                rng = np.random.default_rng(0)
                matrix = rng.standard_normal((views.shape[1], width), np.float32)
                matrix *= views.shape[1] ** -0.5
            entries[f"{scan}_{viewpoint}"] = np.maximum(views @ matrix, 0).astype(np.float16)
    return out


def play(command: Sequence[str], folder: Path) -> Watched:
    """One run, in `folder`; what it prints is shown where it fails."""
    watched, log = Watched(), folder.with_suffix(".log")
    with watched.watching(), log.open("w") as said:
        done = subprocess.run(command, check=False, stdout=said, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{log.read_text()[-3000:]}")
    return watched


def seconds_of(folder: Path, rounds: int, every: int) -> dict[str, float]:
    """Medians of a run, without its first round, and the minutes of so many rounds with an evaluation every so many."""
    (file,) = folder.rglob(TIMINGS)
    found = timing([(folder.name, file.parent)], pd.DataFrame())
    told, around = found[~found["closing"]], found[found["closing"]]
    first, later = told[told["round"] <= 1], told[told["round"] > 1]
    training = median((later["total-s"] - later["evaluation-s"]).tolist())
    scored = later.loc[later["evaluation-s"] > 0, "evaluation-s"].tolist()
    evaluation = median(scored) if scored else np.nan
    start = float(first["startup-s"].sum() + first["total-s"].sum())
    whole = start + (rounds - 1) * training + float(around["total-s"].sum())
    if every:
        whole += rounds // every * evaluation
    return {"start": start, "training": training, "evaluation": evaluation, "minutes": whole / 60}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="fedvln/r2r-envdrop")
    parser.add_argument("--only", help="variant of the configuration, where it has some")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--houses", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--whole", type=int, default=365)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--engine", default="inprocess")
    parser.add_argument("--workers-per-gpu", type=int)
    parser.add_argument("--width", type=int)
    given = parser.parse_args()
    own = dict(pair.split("=", 1) for pair in given.set)
    rows: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        if given.width:
            views = Path(own["data.features"])
            own["data.features"] = str(widened(views, given.width, root / "wide.hdf5"))
            own["data.feature-size"] = str(given.width)
        own |= {
            "device": given.device, "num-rounds": str(given.rounds), "evaluate-every": str(given.every),
            "results-dir": str(root), "data.cache-dir": str(root / "cache"),
        }  # fmt: skip
        command = [sys.executable, "-m", "fedsuite", "run", given.config]
        command += ["--engine", given.engine]
        command += ["--only", given.only] if given.only else []
        if given.workers_per_gpu:
            command += ["--workers-per-gpu", str(given.workers_per_gpu)]
        for houses in given.houses:
            keys = own | {"name": f"houses-{houses}"}
            if houses:
                keys |= {"federation.houses-per-message": str(houses), "training.stacked": "yes"}
            sets = [word for pair in keys.items() for word in ("--set", "=".join(pair))]
            folder = root / f"houses-{houses}"
            watched = play([*command, *sets], folder)
            rows[houses] = seconds_of(folder, given.whole, given.every)
            rows[houses] |= {"memory-gb": watched.memory_gb, "busy-percent": watched.busy}
            told = ", ".join(f"{key} {value:.2f}" for key, value in rows[houses].items())
            print(f"{houses} houses a message: {told}", flush=True)
    best = min(row["minutes"] for row in rows.values())
    finish("gpu_rounds", best / GOAL_MINUTES, 1.0, minutes=round(best, 1), device=given.device)


if __name__ == "__main__":
    main()
