"""`fedsuite config`: what a run would be given, without running it."""

from collections.abc import Sequence
from pathlib import Path

from fedsuite.errors import InputError
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from simulations.run_config import as_toml


def resolved(config_file: Path, changes: Sequence[str], only: Sequence[str]) -> str:
    """The run-config of the run that a file describes, or of the one that --only chooses; nothing is written."""
    experiment = plan_experiment(Request(config_file, changes, only=only, dry=True))
    if len(experiment.chosen) > 1:
        labels = ", ".join(experiment.chosen)
        raise InputError(f"{config_file}: describes several runs; choose one with --only: {labels}")
    return as_toml(experiment.plans[experiment.chosen[0]].run_config)
