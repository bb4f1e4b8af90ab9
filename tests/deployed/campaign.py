"""Deployed runs of every system, on this machine, beside what a simulation writes; run by hand, with ../shared at hand.

    python -m tests.deployed.campaign FOLDER VIEWS.hdf5 plain [WORLD ...]     # to the end, nothing goes wrong
    python -m tests.deployed.campaign FOLDER VIEWS.hdf5 kills [WORLD ...]     # kill -9 of every kind of process, 5 times each

VIEWS.hdf5 is made by ../shared/tools/make_r2r_views.py. A line per run: seconds, messages, kills, whether the bytes are those of
`--engine inprocess` (history, model, members' newest private states), and how often the run had to be continued by --resume.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from fedsuite.config import Value
from fedsuite.history import read_rows
from fedsuite.randomness import rng_for
from fedsuite.run_folder import RunFolder
from tests.deployed import worlds
from tests.deployed.site import Site, command, digests_of_simulation
from tests.deployed.worlds import World

WORDS = ("PAD", "UNK")
KINDS = {  # what is killed: a word of its command line
    "node": "flower-supernode", "superlink": "flower-superlink", "server": "flwr-serverapp", "client": "flwr-clientapp",
}  # fmt: skip
TIMES, LIMIT_S = 5, 3000.0


def all_worlds(views: Path, done: Mapping[str, Path], rounds: int) -> dict[str, World]:
    """By name; done: finished runs that later stages start from."""
    start = {f"{k}-from": str(v) for k, v in done.items()}
    explore = {"stage": "pre-explore", "share": "language-encoder", "sampled-paths": 20, **start}
    return {
        "houses-train": worlds.houses(views, **{"num-rounds": rounds, "evaluate-every": 2}),
        "houses-speaker": worlds.houses(views, **{"num-rounds": 3, "stage": "speaker"}),
        "houses-explore": worlds.houses(views, **{"num-rounds": 3, **explore}),
        "drives": worlds.drives(**{"num-rounds": rounds, "evaluate-every": 2}),
        "generated-drives": worlds.generated_drives(**{"num-rounds": rounds, "evaluate-every": 2}),
        "maps": worlds.maps(),
        "texts": worlds.texts(),
    }


