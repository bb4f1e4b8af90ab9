"""What houses' own agents score in finished simulated runs: at home, in houses of others, in new ones, in the worst tenth.

A run is one of `fedsuite run fedvln/personal`, or any other of stage `train` whose houses share a model, keep some of it, or
train alone. Every run becomes a line of SCORES, which are added to what is there; a run that is there already is left out.
Success rates are of walks along paths that nobody trained on, in houses that have some; `new` is what the run itself scored
in unseen houses.

    python -m benchmarks.personal_houses SCORES RUN [RUN ...]
"""

import argparse
import csv
from pathlib import Path

import pandas as pd
from safetensors.numpy import load_file

from fedsuite.arrays import Arrays, load_arrays, under_prefix
from fedsuite.history import HISTORY, read_rows
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import read_config
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.instructions import Vocabulary
from fedsuite.vln.data.roster import UNSEEN, make_roster, open_house
from fedsuite.vln.data.sources import open_sources, places_of
from fedsuite.vln.evaluation.elsewhere import SEEN, columns, other_houses, success_at
from fedsuite.vln.plan import initial_agent

MODEL = "model.safetensors"


def scores_of(path: Path) -> dict[str, float]:
    """The columns of one run."""
    config = read_config(FedVLNConfig, read_stored_config(RunFolder(path)))
    places, roster = places_of(config), make_roster(config, open_sources(config))
    words, agent = Vocabulary(roster.words), initial_agent(config, roster)
    trained = [i for i, m in enumerate(roster.members) if m.role != UNSEEN]
    names = [roster.members[i].names("houses")[0] for i in trained]
    every = [open_house(config, places, n, i, words) for i, n in zip(trained, names, strict=True)]
    known = [k for k, house in enumerate(every) if house.samples.get(SEEN)]
    houses = [every[k] for k in known]
    own, elsewhere = dict[int, float](), dict[int, float]()
    for k, house in enumerate(houses):
        load_arrays(agent, model_of(path, names[known[k]], trained[known[k]]))
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


def which(path: Path) -> tuple[str, str]:
    """Variant, by the names of the run's folders, and seed: runs/personal-0/ditto is ditto, runs/home-0 is home."""
    alone = path.parent.name == "runs"
    variant = path.name.partition("-")[0] if alone else path.name
    return variant, str(read_stored_config(RunFolder(path))["seed"])


def score(file: Path, runs: list[Path]) -> None:
    """Add the lines that are not there yet, by variant and seed."""
    lines = list(csv.DictReader(file.open(encoding="utf-8"))) if file.exists() else []
    there = {(line["variant"], line["seed"]) for line in lines}
    for path in (path for path in runs if which(path) not in there):
        scores = {k: f"{v:.6g}" for k, v in scores_of(path).items()}
        lines.append(dict(zip(("variant", "seed"), which(path), strict=True)) | scores)
        lines.sort(key=lambda line: (line["variant"], int(line["seed"])))
        pd.DataFrame(lines).to_csv(file, index=False)
        print(*which(path), *scores.values())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Scores of houses' own agents.")
    parser.add_argument("scores", type=Path, help="CSV that the lines are added to")
    parser.add_argument("runs", type=Path, nargs="+")
    given = parser.parse_args()
    score(given.scores, given.runs)


if __name__ == "__main__":
    main()
