"""The roster of a run whose data the project generates: every node makes them for itself."""

from collections.abc import Sequence
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.roster.members import Roster
from fedsuite.settings.config import limits_of, value_of
from fedsuite.storage.escaping import PlainConsole
from simulations.experiments.plan import plan_experiment
from simulations.experiments.progress import Preparing
from simulations.experiments.request import Request


def generated_roster(config: Path, changes: Sequence[str]) -> Roster:
    """Generate the data and say who takes part; InputError if the run has data of its own, or its strategy could not work
    with those who take part."""
    experiment = plan_experiment(Request(config, changes, dry=True))
    if len(experiment.plans) > 1:
        raise InputError(f"{config}: describes several runs; give a TOML of one run")
    (plan,) = experiment.plans.values()
    if "data.dir" in limits_of(type(plan.settings)) and value_of(plan.settings, "data.dir"):
        raise InputError(
            f"{config}: data.dir is set, so each node has data of its own; give --nodes, put the data into nodes/NAME, "
            "then `fedsuite deploy roster`"
        )
    with Preparing(PlainConsole(stderr=True)) as progress:
        roster = plan.system.prepare(plan.settings, progress)
    plan.system.make_strategy(plan.settings, roster)
    return roster
