"""What houses' own agents score in finished simulated runs: at home, in houses of others, in new ones, in the worst tenth.

A run is one of `fedsuite run fedvln/personal`, or any other of stage `train` whose houses share a model, keep some of it, or
train alone. Every run becomes a line of SCORES, which are added to what is there; a run that is there already is left out.
Success rates are of walks along paths that nobody trained on; `new` is what the run itself scored in unseen houses.

    python -m benchmarks.personal_houses score SCORES RUN [RUN ...]
    python -m benchmarks.personal_houses differences SCORES FILE     # of each method and each baseline, paired by seed
"""

import argparse
import csv
import datetime
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.numpy import load_file

from fedsuite.arrays import Arrays, load_arrays, under_prefix
from fedsuite.history import HISTORY, read_rows
from fedsuite.history.paired import paired
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import read_config
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.instructions import Vocabulary
from fedsuite.vln.data.roster import UNSEEN, make_roster, open_house
from fedsuite.vln.data.sources import open_sources, places_of
from fedsuite.vln.evaluation.elsewhere import SEEN, columns, other_houses, success_at
from fedsuite.vln.plan import initial_agent

BASELINES = ("fedavg", "home", "local-only")
COLUMNS = ("own", "own-instructions", "others", "new", "worst-tenth")
MODEL = "model.safetensors"


def scores_of(path: Path) -> dict[str, float]:
    """The columns of one run."""
    config = read_config(FedVLNConfig, read_stored_config(RunFolder(path)))
    places, roster = places_of(config), make_roster(config, open_sources(config))
    words, agent = Vocabulary(roster.words), initial_agent(config, roster)
    trained = [i for i, m in enumerate(roster.members) if m.role != UNSEEN]
    names = [roster.members[i].names("houses")[0] for i in trained]
    houses = [open_house(config, places, n, i, words) for i, n in zip(trained, names, strict=True)]
    own, elsewhere = dict[int, float](), dict[int, float]()
    for k, house in enumerate(houses):
        load_arrays(agent, model_of(path, names[k], trained[k]))
        others = [houses[o] for o in other_houses(config.seed, len(houses), k)]
        own[k], *found = success_at(agent, [house, *others], config)
        elsewhere[k] = sum(found) / len(found)
    counts = {k: len(house.samples[SEEN]) for k, house in enumerate(houses)}
    return columns(own, counts, elsewhere) | {"new": in_new_houses(path)}


def in_new_houses(path: Path) -> float:
    """What the run scored last in unseen houses, over instructions."""
    found: dict[str, float] = {}
    for row in read_rows(path / HISTORY):
        if row["kind"] in ("round", "closing"):
            found |= row["metrics"]
    return found["val_unseen.sr"]


def model_of(path: Path, name: str, partition: int) -> Arrays:
    """The agent that a house is scored with: its own, or the server's."""
    exported = path / "clients" / name / MODEL
    if exported.is_file():
        return load_file(exported)
    stored = load_file(path / MODEL)
    return under_prefix(stored, f"{partition}/") or stored


def line_of(path: Path) -> dict[str, Any]:
    """A run as a line of the scores. runs/personal-0/ditto is variant ditto, runs/home-0 is variant home."""
    config = read_stored_config(RunFolder(path))
    alone = path.parent.name == "runs"
    about = {"variant": path.name.partition("-")[0] if alone else path.name, "seed": config["seed"]}
    scores = {k: round(float(v), 6) for k, v in scores_of(path).items()}
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    made = {"machine": platform.machine(), "date": str(datetime.date.today()), "commit": commit}
    return {**about, **scores, **made}


def score(file: Path, runs: list[Path]) -> None:
    """Add what is not there yet."""
    lines = list(csv.DictReader(file.open())) if file.exists() else []
    there = {(line["variant"], str(line["seed"])) for line in lines}
    for path in runs:
        line = line_of(path)
        if (line["variant"], str(line["seed"])) not in there:
            lines.append({k: str(v) for k, v in line.items()})
            pd.DataFrame(lines).to_csv(file, index=False)
            print(*line.values())


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """Every variant less every baseline: mean of the paired differences by column, and the ends of the 95 % interval."""
    by_seed: Mapping[str, Any] = {
        str(v): own.set_index("seed") for v, own in table.groupby("variant")
    }
    found: list[dict[str, Any]] = []
    for variant, own in by_seed.items():
        for baseline in (b for b in BASELINES if b in by_seed and b != variant):
            line: dict[str, Any] = {"variant": variant, "baseline": baseline}
            for column in COLUMNS:
                gap = paired(dict(own[column]), dict(by_seed[baseline][column]))
                line |= {column: gap.mean, f"{column}-low": gap.low, f"{column}-high": gap.high}
            found.append({**line, "pairs": gap.n})
    return pd.DataFrame(found).round(6)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Scores of houses' own agents.")
    parser.add_argument("what", choices=("score", "differences"))
    parser.add_argument("scores", type=Path)
    parser.add_argument("paths", type=Path, nargs="+")
    given = parser.parse_args()
    if given.what == "score":
        score(given.scores, given.paths)
    else:
        differences(pd.read_csv(given.scores)).to_csv(given.paths[0], index=False)


if __name__ == "__main__":
    main()
