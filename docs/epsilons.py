"""What differential privacy can promise to 61 houses, and to the frames of a silo: tables of docs/differential-privacy.md.

Nothing is trained: the accountant of fedsuite/privacy is asked. Writes clients.csv and examples.csv.

    python -m docs.epsilons docs/results/privacy
"""

import argparse
import itertools
import math
from pathlib import Path

import pandas as pd

from fedsuite.privacy.accounting import epsilon_of

# FedVLN as published: 61 training houses, 12 a round, and numbers of the language encoder.
HOUSES, A_ROUND, ROUNDS, ENCODER = 61, 12, 365, 1_569_280
WANTED, AT = 8.0, 1e-3
# CDL as published: frames of a batch and of a silo, local updates.
BATCH, FRAMES, UPDATES = 32, 2806, 3600


def clients(z: float) -> dict[str, float]:
    """A row: one house more or less."""
    chance = {(z, A_ROUND / HOUSES): ROUNDS}
    known = {(z, 1.0): ROUNDS}
    afforded = (n for n in itertools.count(1) if epsilon_of({(z, 1.0): n}, AT) > WANTED)
    return {
        "z": z,
        "epsilon-1e-3": epsilon_of(known, 1e-3),
        "epsilon-1e-5": epsilon_of(known, 1e-5),
        "by-chance-1e-3": epsilon_of(chance, 1e-3),
        "by-chance-1e-5": epsilon_of(chance, 1e-5),
        "rounds-within-8": next(afforded) - 1,
        "noise-over-clip": z * math.sqrt(ENCODER) / A_ROUND,
        "participants-for-1": math.ceil(z * math.sqrt(ENCODER)),
    }


def examples(z: float) -> dict[str, float]:
    """A row: one frame more or less."""
    return {"z": z, "epsilon-1e-5": epsilon_of({(z, BATCH / FRAMES): UPDATES}, 1e-5)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "clients": [clients(z) for z in (0.5, 1, 2, 4, 8)],
        "examples": [examples(z) for z in (0.5, 1, 2, 4, 8)],
    }
    for name, rows in tables.items():
        pd.DataFrame(rows).to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
        print(folder / f"{name}.csv")


if __name__ == "__main__":
    main()
