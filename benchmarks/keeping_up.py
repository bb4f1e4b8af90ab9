"""Success of parallel averaging in unseen houses over that of centralised training, at equal local steps.

The runs of simulations/fedvln/train.toml, each seed with generated houses of its own: houses side by side with the server
optimizer that the configuration names, and one agent on all data. Printed for every seed: success rates on val-unseen after
the last round, optimizer steps of all clients together, and serial depth: how many steps had to wait for one another.

    python -m benchmarks.keeping_up [--seeds 0 1] [--rounds 30]
"""

import argparse
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import finish
from fedsuite.history import load_runs
from fedsuite.settings.config import flatten, read_config
from fedsuite.vln.config import FedVLNConfig
from simulations.engines.inprocess import run_inprocess
from simulations.systems import to_run_config

CONFIG = Path(__file__).parents[1] / "simulations" / "fedvln" / "train.toml"
GOAL = 0.95


def run(variant: str, seed: int, rounds: int, folder: Path) -> dict[str, float]:
    """The last round's metrics."""
    table: dict[str, Any] = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    variants = table.pop("variants")
    settings = flatten(table) | flatten(variants[variant]) | {
        "system": "benchmarks.systems:HOUSES", "seed": seed, "num-rounds": rounds, "evaluate-every": 0,
        "name": "run", "results-dir": str(folder), "data.cache-dir": str(folder / "cache"),
        "data.generated-seed": -1, "checkpoint-every": 1000,
    }  # fmt: skip
    shutil.rmtree(folder / "run", ignore_errors=True)
    run_inprocess(to_run_config(read_config(FedVLNConfig, settings)))
    last = load_runs(folder / "run").rounds.iloc[-1]
    return {k: float(last[k]) for k in ("val_unseen.sr", "local-steps", "serial-depth")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    scores: dict[str, list[float]] = {"federated": [], "centralised": []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in given.seeds:
            for variant, found in scores.items():
                m = run(variant, seed, given.rounds, Path(folder))
                found.append(m["val_unseen.sr"])
                print(
                    f"seed {seed}, {variant}: SR {100 * m['val_unseen.sr']:.1f} after {m['local-steps']:.0f} local steps, "
                    f"serial depth {m['serial-depth']:.0f}",
                    flush=True,
                )
    means = {k: float(np.mean(v)) for k, v in scores.items()}
    finish(
        "keeping_up",
        means["federated"] / means["centralised"],
        GOAL,
        seeds=given.seeds,
        rounds=given.rounds,
        **{k: round(100 * v, 2) for k, v in means.items()},
    )


if __name__ == "__main__":
    main()
