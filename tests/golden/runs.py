"""Tiny runs of all three systems, each a few seconds long, whose outcomes are recorded beside this file.

A run is a flat table of settings, as in a TOML. `start-from` and `speaker-from` name another run of
the table, which is then carried out before. All data are generated.
"""

import dataclasses
import fcntl
import os
from pathlib import Path

import torch

from fedsuite.settings.config import Value
from simulations.engines.inprocess import run_inprocess
from simulations.systems import System, load_system
from tests.harness import config_from

Settings = dict[str, Value]

# Where a recorded metric, row kind, client name, task or status has another name by now: old -> new.
RENAMED: dict[str, str] = {}


def _undrawn(name: str) -> System:
    """A built-in system without its tables and plots, which take longer than these runs."""
    return dataclasses.replace(
        load_system(name),
        report=lambda config, folder: None,
        draw=lambda config, folder: None,
    )


FEDVLN, CDL, FEDRL = _undrawn("fedvln"), _undrawn("cdl"), _undrawn("fedrl")

_HOUSES: Settings = {
    "system": "tests.golden.runs:FEDVLN", "generated-seen-houses": 4, "generated-unseen-houses": 2,
    "generated-paths-per-house": 4, "generated-feature-size": 8, "hidden-size": 16,
    "word-embedding-size": 8, "action-embedding-size": 4, "angle-feature-size": 4, "max-actions": 4,
    "train-max-actions": 3, "max-generated-length": 6, "batch-size": 8, "learning-rate": 1e-3,
    "participation-rate": 0.5, "local-epochs": 1, "objective": "imitation", "num-rounds": 2,
    "server-learning-rate": 1.0, "min-word-count": 1, "evaluate-every": 1, "checkpoint-every": 1,
}  # fmt: skip
_TRAIN: Settings = {**_HOUSES, "stage": "train"}
_SPEAKER: Settings = {**_HOUSES, "stage": "speaker"}
_LATER: Settings = {**_HOUSES, "start-from": "vln-train-parallel", "speaker-from": "vln-speaker"}
_AUGMENT: Settings = {**_LATER, "stage": "augment"}
_EXPLORE: Settings = {**_LATER, "stage": "pre-explore", "participation-rate": 1.0, "batch-size": 64}

_SILOS: Settings = {
    "system": "tests.golden.runs:CDL", "underlay": "gaia", "num-silos": 4, "image-size": 40,
    "train-frames": 12, "test-frames": 6, "batch-size": 4, "num-rounds": 3, "evaluate-every": 2,
    "checkpoint-every": 2, "learning-rate": 1e-4, "batch-norm": "average",
}  # fmt: skip

_PARTIES: Settings = {
    "system": "tests.golden.runs:FEDRL", "maps": 200, "step-limit": 6, "evaluation-episodes": 5,
    "round-length": 32, "batch-size": 8, "memory": 100, "filters": 4, "epsilon-steps": 40,
    "parallel-episodes": 4, "num-rounds": 3, "evaluate-every": 2, "checkpoint-every": 2, "patience": 0,
    "learning-rate": 2e-4, "mlp-start": "published",
}  # fmt: skip
_TEXTS: Settings = {
    **_PARTIES, "world": "text2action", "corpus": "generated", "max-words": 12, "parallel-episodes": 16,
    "round-length": 64, "num-rounds": 2, "learning-rate": 3e-3, "last-word-bonus": 0.0,
}  # fmt: skip

RUNS: dict[str, Settings] = {
    # --- FedVLN: the agent -----------------------------------------------------------------------
    "vln-train-parallel": {
        **_TRAIN, "num-rounds": 4, "evaluate-every": 2, "server-learning-rate": 1.5,
        "server-learning-rate-decay": 0.5, "server-decay-steps": 6, "client-optimizer": "kept",
    },
    "vln-train-sequential": {**_TRAIN, "aggregation": "sequential", "client-optimizer": "fresh"},
    "vln-train-centralised": {**_TRAIN, "method": "centralised", "objective": "a2c"},
    "vln-train-local-only": {**_TRAIN, "method": "local-only", "local-epochs": 2},
    "vln-train-shared": {**_TRAIN, "client-optimizer": "shared", "objective": "a2c"},
    "vln-train-published": {**_TRAIN, "participation": "published", "aggregation": "sequential"},
    "vln-train-best": {
        **_TRAIN, "selection": "best-val-unseen", "num-rounds": 4, "evaluate-every": 2,
        "learning-rate": 1e-2,
    },
    # --- FedVLN: the stages after it -------------------------------------------------------------
    "vln-speaker": {
        **_SPEAKER, "participation-rate": 1.0, "num-rounds": 3, "evaluate-every": 2,
        "learning-rate": 3e-2,
    },
    "vln-speaker-centralised": {**_SPEAKER, "method": "centralised"},
    "vln-augment": _AUGMENT,
    "vln-explore-centralised": {**_EXPLORE, "method": "centralised"},
    "vln-explore-env-based": {**_EXPLORE, "method": "local-only"},
    "vln-explore-fed-full": {**_EXPLORE, "share": "agent", "objective": "a2c"},
    "vln-explore-fed-lan": {**_EXPLORE, "share": "language-encoder"},
    "vln-explore-fed-lan-seen": {
        **_EXPLORE, "share": "language-encoder", "seen-participation-rate": 0.5,
    },
    # --- CDL -------------------------------------------------------------------------------------
    "cdl-ring": {**_SILOS, "scenario": "ring", "loss": "kl"},
    "cdl-ring-plain": {**_SILOS, "scenario": "ring", "loss": "none"},
    "cdl-ring-two-mixings": {
        **_SILOS, "scenario": "ring", "silos-per-client": 4, "mixings-per-round": 2, "num-rounds": 2,
    },
    "cdl-ring-cross": {
        **_SILOS, "scenario": "ring", "silos-per-client": 2, "cross-evaluation": True, "loss": "cd_k",
        "num-rounds": 2,
    },
    "cdl-star": {**_SILOS, "scenario": "star"},
    "cdl-local": {
        **_SILOS, "scenario": "local", "local-updates": 2, "optimizer": "sgd", "learning-rate": 1e-2,
    },
    "cdl-pooled": {**_SILOS, "scenario": "cll"},
    "cdl-matcha": {**_SILOS, "scenario": "matcha", "num-rounds": 4},
    # --- FedRL -----------------------------------------------------------------------------------
    "rl-alternating": {**_PARTIES, "mlp-updates": "alternating"},
    "rl-joint": {**_PARTIES, "mlp-updates": "joint"},
    "rl-three-parties": {**_PARTIES, "parties": 3},
    "rl-patience": {**_PARTIES, "patience": 1, "num-rounds": 4, "evaluate-every": 1},
    "rl-text": _TEXTS,
    "rl-dqn-alpha": {**_PARTIES, "method": "dqn-alpha"},
    "rl-dqn-full": {**_PARTIES, "method": "dqn-full"},
    "rl-fcn-full": {**_PARTIES, "method": "fcn-full"},
    "rl-random": {**_PARTIES, "method": "random"},
    "rl-oracle": {**_PARTIES, "method": "oracle"},
}  # fmt: skip

_NAMING_A_RUN = ("start-from", "speaker-from")


class Plays:
    """Runs of the table below `root`, each carried out once, when it is first asked for; their data are in `cache`.

    Several processes may have the same root: who comes second waits for who is carrying the run out.
    """

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.cache = root, cache
        root.mkdir(parents=True, exist_ok=True)

    def folder(self, name: str) -> Path:
        """The run's folder, with all that it left; carries it out if need be."""
        with (self.root / f"{name}.done").open("a+") as done:
            fcntl.flock(done, fcntl.LOCK_EX)
            if not os.fstat(done.fileno()).st_size:
                self._play(name)
                done.write("done")
        return self.root / "runs" / name

    def _play(self, name: str) -> None:
        values: Settings = {"name": name, "results-dir": str(self.root / "runs")}
        values["cache-dir"] = str(self.cache)
        for key, value in RUNS[name].items():
            values[key] = str(self.folder(str(value))) if key in _NAMING_A_RUN else value
        torch.set_num_threads(1)
        run_inprocess(config_from(values))
