"""Kills the runs of every system many times, each at another moment, and compares the bytes; run by hand.

    python -m tests.mistakes.campaign FOLDER [KILLS]

One line per system: kills, how many came in the middle of a run, and how many resumed runs wrote the bytes of a whole
one (history, model, checkpoints, private states).
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsuite.randomness import rng_for
from fedsuite.runs.folder import RunFolder
from simulations.engines.inprocess import run_inprocess
from tests import cdl_runs, fedrl_runs, harness
from tests.simulations.fedvln import test_fedvln as fedvln_runs

ENGINE = ("--engine", "inprocess")
RUNS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "fedvln": (fedvln_runs.config_of, {"num_rounds": 8, "checkpoint_every": 2, "local_epochs": 2}),
    "cdl": (cdl_runs.config_of, {"num_rounds": 8, "checkpoint_every": 2, "local_updates": 4}),
    "fedrl": (fedrl_runs.config_of, {"num_rounds": 12, "round_length": 64, "system": "fedrl"}),
}


def main(folder: Path, kills: int) -> None:
    for system, (config_of, changes) in RUNS.items():
        root, begin = folder / system, time.monotonic()
        root.mkdir(parents=True)
        run_inprocess(config_of(folder / "cache", root, "whole", **changes))
        wanted = harness.results_of(RunFolder(root / "whole"))
        equal = interrupted = 0
        for number in range(kills):
            config = config_of(folder / "cache", root, f"killed-{number}", **changes)
            rng = rng_for(number, "kill")
            round, later_s = 2 * int(rng.integers(1, 3)), float(rng.uniform(0, 0.1))
            try:
                run = harness.kill_and_resume(root, config, round, *ENGINE, later_s=later_s)
            except AssertionError as error:
                print(f"{system}, kill {number}: {' '.join(str(error).split())[:200]}")
                continue
            interrupted += 1
            equal += harness.results_of(run) == wanted
        took = time.monotonic() - begin
        print(
            f"{system}: {kills} kills, {interrupted} in the middle, {equal} equal ({took:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
