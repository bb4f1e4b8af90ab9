"""What hiding single frames costs CDL's silos: RMSE of the average model by noise multiplier.

Four silos of generated roads that mix with all, group norm, no contrastive loss, Adam; DP-SGD with gradients clipped to a
norm of 1, with hardly any noise and with more, beside plain training. Every run adds a line to FILE; runs that are there are
not made again.

    python -m benchmarks.private_frames FILE [--seeds 0 1 2] [--folder FOLDER]
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from fedsuite.history import load_runs
from fedsuite.settings.config import read_config
from simulations.engines.inprocess import run_inprocess
from simulations.systems import load_system, to_run_config

PLAIN = "none"
SETTINGS: dict[str, Any] = {
    "system": "benchmarks.systems:ROADS", "num-rounds": 100, "evaluate-every": 0, "checkpoint-every": 1000,
    "data.num-silos": 4, "data.image-size": 40, "data.train-frames": 250, "data.test-frames": 100,
    "data.road-character": "carla", "network.batch-norm": "group", "network.dropout": 0.2, "objective.loss": "none",
    "training.batch-size": 16, "federation.underlay": "geant", "federation.scenario": "complete",
}  # fmt: skip
NOISE: dict[str, dict[str, Any]] = {
    PLAIN: {},
    **{f"{z:g}": {"privacy.noise-multiplier": z} for z in (0.001, 0.5, 1.0, 2.0)},
}


def run(noise: str, seed: int, folder: Path) -> dict[str, Any]:
    """One line of the file."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    place = {"name": "run", "results-dir": str(folder), "data.cache-dir": str(folder / "cache")}
    private = {} if noise == PLAIN else {"privacy.unit": "example", "privacy.noise": "seeded"}
    flat = SETTINGS | private | NOISE[noise] | place | {"seed": seed}
    system = load_system(str(flat["system"]))
    run_inprocess(to_run_config(read_config(system.config_class, flat)))
    last = load_runs(folder / "run").rounds.iloc[-1]
    line = {"noise": noise, "seed": seed, "rmse": float(last["rmse"])}
    return line | ({"epsilon": float(last["privacy.epsilon"])} if private else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/private-frames"))
    given = parser.parse_args()
    lines = given.file.read_text().splitlines() if given.file.exists() else []
    done = {(line["noise"], line["seed"]) for line in map(json.loads, lines)}
    for seed in given.seeds:
        for noise in (n for n in NOISE if (n, seed) not in done):
            found = run(noise, seed, given.folder)
            with given.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            print(found, flush=True)


if __name__ == "__main__":
    main()
