"""Bytes and seconds of a federated round with several houses in one message, against one message a house.

61 generated houses, all taking part, with the published agent (H = 512, F = 512, A = 128, words of 256; the vocabulary is
that of the generated houses) and one short optimizer step each, so that what messages cost shows. `--rounds` rounds, the
first of which opens the houses and is left out; medians, in process of CPU seconds too. 0 houses a message is plain
averaging: a model back from every house. With `federation.houses-per-message` the model's bytes are compared between all
numbers.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.report import finish, median
from fedsuite.history import read_rows
from fedsuite.runs.folder import RunFolder, folder_of
from fedsuite.settings.config import read_config
from fedsuite.storage.files import sha256_of
from fedsuite.storage.progress import silent
from fedsuite.vln.config import FedVLNConfig
from simulations.engines.inprocess import run_inprocess
from simulations.engines.ray.launch import run_ray
from simulations.engines.ray.placement import Placement
from simulations.fedvln.server import prepare
from simulations.systems import to_run_config

HOUSES, NUMBERS, GOAL = 61, (0, 1, 2, 4, 8), 0.5


def settings(folder: Path, engine: str, per_message: int, rounds: int) -> FedVLNConfig:
    """Every house has one path; nothing is kept between rounds and nothing evaluated but start and end, in one house."""
    return read_config(
        FedVLNConfig,
        {
            "name": f"{engine}-{per_message}", "results-dir": str(folder / "runs"), "num-rounds": rounds,
            "evaluate-every": 0, "checkpoint-every": 1000,
            "data": {
                "cache-dir": str(folder / "cache"), "generated-seen-houses": HOUSES, "generated-unseen-houses": 1,
                "generated-paths-per-house": 1, "generated-feature-size": 512, "min-word-count": 1,
            },
            "agent": {"max-actions": 4, "train-max-actions": 2},
            "objective": {"kind": "none"},
            "federation": {
                "participation-rate": 1.0, "local-epochs": 1, "client-optimizer": "fresh", "server-learning-rate": 1.0,
                "houses-per-message": per_message,
            },
        },
    )  # fmt: skip


def play(config: FedVLNConfig, engine: str, workers: int) -> tuple[RunFolder, list[float]]:
    """A whole run: its folder, and this process's CPU seconds at the end of every round."""
    roster, folder, clock = prepare(config, silent), folder_of(config), list[float]()

    def note(event: Mapping[str, Any]) -> None:
        if event["kind"] == "round":
            clock.append(time.process_time())

    if engine == "inprocess":
        run_inprocess(to_run_config(config), note)
    else:
        run_ray(to_run_config(config), folder, len(roster), Placement(workers))
    return folder, clock


def measured(folder: RunFolder, clock: list[float]) -> dict[str, float]:
    """Of one round: messages, MB (10^6 bytes) down and up, seconds, CPU seconds (0 = not known), seconds on clients."""
    cpu = [after - before for before, after in pairwise(clock)][1:]
    rows = [r for r in read_rows(folder.path / "history.jsonl") if r.get("task") == "train"]
    timings = read_rows(folder.path / "timings.jsonl")
    rounds = [r for r in timings if r["kind"] == "round" and r["round"] > 1]
    own = [r for r in rows if r["round"] == 2]
    visits = [r for r in timings if r["kind"] == "client" and r["task"] == "train"]
    return {
        "messages": sum(r["bytes-down"] > 0 for r in own),
        "mb-down": sum(r["bytes-down"] for r in own) / 1e6,
        "mb-up": sum(r["bytes-up"] for r in own) / 1e6,
        "cpu-seconds": median(cpu) if cpu else 0.0,
        "seconds": median([r["seconds"] for r in rounds]),
        "client-seconds": sum(r["compute-seconds"] for r in visits if r["round"] == 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("inprocess", "ray"), default="inprocess")
    parser.add_argument("--workers", type=int, default=2, help="of Ray")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--numbers", type=int, nargs="+", default=NUMBERS, help="houses a message")
    asked = parser.parse_args()
    found, models = {}, set()
    with tempfile.TemporaryDirectory() as place:
        for number in asked.numbers:
            config = settings(Path(place), asked.engine, number, asked.rounds)
            folder, clock = play(config, asked.engine, asked.workers)
            found[number] = measured(folder, clock)
            print(
                number, json.dumps({k: round(v, 2) for k, v in found[number].items()}), flush=True
            )
            if number:
                models.add(sha256_of(folder.model.read_bytes()))
    if len(models) > 1:
        raise SystemExit("the models differ between numbers of houses a message")
    first, last = found[asked.numbers[0]], found[asked.numbers[-1]]
    bytes_of = [own["mb-down"] + own["mb-up"] for own in (first, last)]
    finish(
        f"houses-per-message-{asked.engine}", bytes_of[1] / bytes_of[0], GOAL,
        by_number=found, seconds_ratio=round(last["seconds"] / first["seconds"], 3),
    )  # fmt: skip


if __name__ == "__main__":
    main()
