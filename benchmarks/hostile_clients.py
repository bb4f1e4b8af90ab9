"""What one hostile client of twelve does to a run, by merge rule: final scores beside those of the honest run.

Houses: generated ones, parallel averaging with the server's Nesterov momentum; score: success rate over all validation
instructions. Roads: generated, with group norm, on a ring and on a complete graph, whose mixing matrix is also
the star's; score: RMSE of the honest silos' own models at home. Attacks are those of fedsuite/averaging/sabotage/attacks.py;
partition 0 is hostile from round 1 on.

Every run adds a line to FILE, and runs that are there already are not made again; --part 0/2 makes every other one, so that
two processes can share the work. --table prints means and spreads over seeds of all that FILE holds.

    python -m benchmarks.hostile_clients houses FILE [--seeds 0 1 2] [--part 0/1] [--folder FOLDER]
    python -m benchmarks.hostile_clients roads FILE
    python -m benchmarks.hostile_clients houses FILE --table
"""

import argparse
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.history import load_runs
from fedsuite.reports.tables import markdown_table
from fedsuite.settings.config import read_config
from simulations.engines.inprocess import run_inprocess
from simulations.systems import load_system, to_run_config

Case = tuple[str, str, str]  # where, attack, rule
Settings = dict[str, Any]


ATTACKS: dict[str, Settings] = {
    "none": {},
    "scale x100": {"sabotage.attack": "scale"},
    "sign flip": {"sabotage.attack": "sign-flip"},
    "sign flip x10": {"sabotage.attack": "sign-flip", "sabotage.scale": 10.0},
    "weight lie": {"sabotage.attack": "weight-lie"},
    "a little, z 1.5": {"sabotage.attack": "alie", "sabotage.scale": 1.5},
    "inner product x10": {"sabotage.attack": "ipm", "sabotage.scale": 10.0},
    "label flip": {"sabotage.attack": "label-flip"},
}
HOUSE_RULES: dict[str, Settings] = {
    "mean": {},
    "cap and clip": {"federation.max-share": 0.15, "federation.update-bound": 1.0},
    "median": {"federation.merge": "median", "federation.tolerated": 1},
    "trimmed mean": {"federation.merge": "trimmed-mean", "federation.tolerated": 1},
    "multi-Krum": {"federation.merge": "multi-krum", "federation.tolerated": 1},
    "geometric median": {"federation.merge": "geometric-median", "federation.max-share": 0.15},
}
ROAD_RULES: dict[str, Settings] = {
    "mean": {},
    "clipped, rho 3": {"federation.merge": "clipped"},
    "clipped, rho 1": {"federation.merge": "clipped", "federation.clip-ratio": 1.0},
    "trimmed mean": {"federation.merge": "trimmed-mean", "federation.tolerated": 1},
}
# The attacks that a rule is meant for, and no attack at all; the mean is shown against every one.
HOUSE_ATTACKS = {
    "mean": ("none", "scale x100", "weight lie", "sign flip x10", "a little, z 1.5"),
    "cap and clip": ("none", "scale x100", "weight lie", "sign flip x10"),
    "median": ("none", "scale x100", "sign flip x10", "a little, z 1.5"),
    "trimmed mean": ("none", "scale x100", "sign flip x10"),
    "multi-Krum": ("none", "scale x100", "sign flip x10"),
    "geometric median": ("none", "scale x100"),
}
ROAD_ATTACKS = {
    "mean": ("none", "scale x100", "sign flip x10", "label flip"),
    "clipped, rho 3": ("none", "scale x100", "sign flip x10", "label flip"),
    "clipped, rho 1": ("none", "scale x100", "sign flip x10", "label flip"),
    "trimmed mean": ("none", "scale x100", "sign flip x10"),
}
HOUSE_SETTINGS: Settings = {
    "system": "benchmarks.systems:HOUSES", "num-rounds": 20, "evaluate-every": 0, "checkpoint-every": 1000,
    "data.generated-seen-houses": 12, "data.generated-unseen-houses": 6, "data.generated-feature-size": 32,
    "agent.hidden-size": 64, "agent.word-embedding-size": 32, "agent.action-embedding-size": 16,
    "agent.angle-feature-size": 16, "agent.dropout": 0.1, "agent.feature-dropout": 0.1, "agent.max-actions": 12,
    "agent.train-max-actions": 8, "objective.kind": "imitation", "objective.teacher-weight": 0.5,
    "objective.sampled-weight": 0.5, "objective.learning-rate": 2e-3, "federation.participation-rate": 1.0,
    "federation.local-epochs": 1, "federation.server-learning-rate": 1.0, "federation.client-optimizer": "fresh",
    "federation.server-optimizer": "nesterov",
}  # fmt: skip
ROAD_SETTINGS: Settings = {
    "system": "benchmarks.systems:ROADS", "num-rounds": 60, "evaluate-every": 0, "checkpoint-every": 1000,
    "data.num-silos": 12, "data.image-size": 40, "data.train-frames": 200, "data.test-frames": 60,
    "data.road-character": "carla", "network.batch-norm": "group", "network.dropout": 0.2, "objective.loss": "none",
    "training.batch-size": 16, "federation.underlay": "geant",
}  # fmt: skip


def cases(kind: str) -> Iterator[Case]:
    """Every rule with the attacks that it is meant for, the honest runs first."""
    meant = HOUSE_ATTACKS if kind == "houses" else ROAD_ATTACKS
    for attack in ATTACKS:
        for where in ("houses",) if kind == "houses" else ("ring", "complete"):
            for rule in (r for r in meant if attack in meant[r]):
                if where != "ring" or rule != "trimmed mean":  # one neighbour cannot be outvoted
                    yield where, attack, rule


def settings_of(case: Case, seed: int, folder: Path) -> Settings:
    where, attack, rule = case
    houses = where == "houses"
    base = HOUSE_SETTINGS if houses else ROAD_SETTINGS | {"federation.scenario": where}
    own = (HOUSE_RULES if houses else ROAD_RULES)[rule] | ATTACKS[attack]
    hostile = {"sabotage.clients": "0"} if attack != "none" else {}
    place = {"name": "run", "results-dir": str(folder), "data.cache-dir": str(folder / "cache")}
    return base | own | hostile | place | {"seed": seed}


def score(case: Case, folder: Path) -> dict[str, float]:
    """Scores of the last round, as {name: number}; honest silos only."""
    frames = load_runs(folder / "run")
    last = frames.rounds.iloc[-1]
    if case[0] != "houses":
        own = [float(last[f"silo.{i}.rmse"]) for i in range(1, ROAD_SETTINGS["data.num-silos"])]
        return {
            "rmse": float(np.mean(own)),
            "clipped": float(last.get("links-clipped", 0.0) or 0.0),
        }
    counts = {s: float(last[f"{s}.count"]) for s in ("val_seen", "val_unseen")}
    total = sum(n * float(last[f"{s}.sr"]) for s, n in counts.items())
    return {"sr": 100 * total / sum(counts.values())}


def run(case: Case, seed: int, folder: Path) -> dict[str, Any]:
    """One line of the file; a run that fails is a result as well."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    flat = settings_of(case, seed, folder)
    system = load_system(str(flat["system"]))
    line: dict[str, Any] = dict(zip(("where", "attack", "rule"), case, strict=True)) | {
        "seed": seed
    }
    try:
        run_inprocess(to_run_config(read_config(system.config_class, flat)))
    except Exception as error:
        return line | {"failed": f"{type(error).__name__}: {error}"}
    return line | score(case, folder)


def table(lines: list[dict[str, Any]], kind: str) -> str:
    """Rules against attacks: mean and standard deviation over seeds, and what share of the rule's honest score is left."""
    name, rules = ("sr", HOUSE_RULES) if kind == "houses" else ("rmse", ROAD_RULES)
    rows = []
    for where in dict.fromkeys(line["where"] for line in lines):
        for attack in dict.fromkeys(line["attack"] for line in lines):
            cells = {
                rule: _cell(
                    [
                        x
                        for x in lines
                        if (x["where"], x["attack"], x["rule"]) == (where, attack, rule)
                    ],
                    name,
                )
                for rule in rules
            }
            rows.append({"where": where, "attack": attack} | cells)
    return markdown_table(rows)


def _cell(lines: list[dict[str, Any]], name: str) -> str:
    values = [line[name] for line in lines if name in line]
    failed = sum("failed" in line for line in lines)
    if not values:
        return f"failed ({failed})" if failed else "-"
    digits = 1 if name == "sr" else 3
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    text = (
        f"{np.mean(values):.{digits}f} ± {spread:.{digits}f}"
        if len(values) > 1
        else f"{values[0]:.{digits}f}"
    )
    return text + (f", {failed} failed" if failed else "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("kind", choices=("houses", "roads"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--folder", type=Path, default=Path("runs/hostile"))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table([json.loads(x) for x in given.file.read_text().splitlines()], given.kind))
        return
    part, parts = map(int, given.part.split("/"))
    work = [(case, seed) for seed in given.seeds for case in cases(given.kind)]
    for number, (case, seed) in enumerate(work):
        done = (
            [json.loads(x) for x in given.file.read_text().splitlines()]
            if given.file.exists()
            else []
        )
        there = {(x["where"], x["attack"], x["rule"], x["seed"]) for x in done}
        if number % parts == part and (*case, seed) not in there:
            line = run(case, seed, given.folder / str(part))
            with given.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


if __name__ == "__main__":
    main()
