"""What a server loads: plans, strategies and models, and nothing that reads data or trains."""

import json
import os
import subprocess
import sys
from pathlib import Path

from fedsuite.roster.members import Member, Roster, write_roster
from tests.harness import ROOT, config_from

LOAD = """
import importlib, json, pkgutil, sys
import fedsuite.driving.plan, fedsuite.vln.plan, simulations.server_app, strategies
for module in pkgutil.walk_packages(strategies.__path__, "strategies."):
    importlib.import_module(module.name)
"""
BUILD = """
from pathlib import Path
from fedsuite.roster.members import read_roster
from simulations.systems import settings_of
for config, file in json.loads(sys.argv[1]):
    system, settings = settings_of(config)
    system.validate(settings)
    system.make_strategy(settings, read_roster(Path(file)))
"""
LIST = "print(json.dumps(sorted(sys.modules)))"
NOT_FOR_SERVERS = (
    "fedsuite.vln.data.dataset", "fedsuite.vln.data.graph", "fedsuite.vln.data.prepare", "fedsuite.vln.data.sources",
    "fedsuite.vln.environment", "fedsuite.vln.generator", "fedsuite.vln.training",
    "fedsuite.driving.data", "fedsuite.driving.training.learner", "fedsuite.driving.training.silo_networks",
    "fedsuite.fedrl.gridworld", "fedsuite.fedrl.text2action", "fedsuite.fedrl.learning.party",
    "clients", "ray", "pandas",
)  # fmt: skip
HOUSE = Member("oak", "seen", 5, {"houses": ["oak"], "numbers": [0]})
SILOS = [Member(n, "silo", 9, {"silos": [i], "names": [n], "frames": [9]}) for i, n in enumerate("abcd")]  # fmt: skip
ROSTERS = {
    "fedvln": Roster((HOUSE,), {"feature-size": 8}, ("<PAD>", "<UNK>", "<EOS>", "left", "<BOS>")),
    "cdl": Roster(tuple(SILOS), {"silos": 4}),
    "fedrl": Roster((Member("alpha", "alpha", 9), Member("beta", "beta", 9)), {"score": "f1"}),
}


def loaded(script: str, *arguments: str) -> list[str]:
    """Modules that a fresh process has loaded at the end of a script, of those that no server needs."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script + LIST, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout.splitlines()[-1])
    return [name for name in modules if name.startswith(NOT_FOR_SERVERS)]


def test_plans_and_strategies_load_no_code_of_data_or_training() -> None:
    assert loaded(LOAD) == []


def test_strategies_are_built_without_code_of_data_or_training(tmp_path: Path) -> None:
    runs = []
    for system, roster in ROSTERS.items():
        file = tmp_path / f"{system}.json"
        write_roster(file, roster)
        changes = {"num-silos": 4, "image-size": 40} if system == "cdl" else {}
        runs.append((config_from({"system": system, **changes}), str(file)))
    runs.append((config_from({"system": "fedvln", "stage": "speaker"}), runs[0][1]))
    assert loaded(LOAD + BUILD, json.dumps(runs)) == []
