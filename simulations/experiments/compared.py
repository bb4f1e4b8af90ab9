"""The comparison of an experiment's completed runs, by whoever knows how: the sweep, the system, or the common table."""

import dataclasses

from fedsuite.errors import InputError
from fedsuite.runs.folder import read_stored_config
from fedsuite.settings.config import RunSettings, read_config
from simulations.experiments.plan import Experiment, Plan
from simulations.experiments.searching import add_pruned
from simulations.experiments.sweep import Sweep


def check_metric(experiment: Experiment, sweep: Sweep, label: str) -> None:
    """InputError if a completed run did not record it, before the others train for nothing."""
    from simulations.experiments.sweep_table import unrecorded

    if wrong := unrecorded(experiment.folder, sweep, [label]):
        compare(experiment)
        raise InputError(wrong)


def compare(experiment: Experiment) -> None:
    """Write results.md over all completed runs: the sweep's tables, the system's own, or the common one."""
    from simulations.experiments.comparison import add_differences, add_rounds, write_comparison

    done = {label: plan for label, plan in experiment.plans.items() if plan.folder.is_completed()}
    made = {label: _made_with(plan) for label, plan in done.items()}
    if experiment.sweep is not None:
        from simulations.experiments.sweep_table import write_sweep

        write_sweep(experiment.folder, experiment.sweep, list(experiment.plans), list(done))
        if experiment.sweep.trials:
            add_pruned(experiment)
    elif experiment.system.compare is not None:
        experiment.system.compare(experiment.folder, made)
    else:
        write_comparison(experiment.folder, list(done))
    if experiment.sweep is None:
        add_differences(experiment.folder, experiment.system, made)
    if experiment.sweep is None or "num-rounds" not in experiment.sweep.vary:
        add_rounds(experiment.folder, {label: c.num_rounds for label, c in made.items()})


def _made_with(plan: Plan) -> RunSettings:
    """Settings of a completed run, with its present place."""
    stored = read_stored_config(plan.folder)
    settings = read_config(type(plan.settings), stored, str(plan.folder.config))
    where = {"name": plan.settings.name, "results_dir": plan.settings.results_dir}
    return dataclasses.replace(settings, **where, resume="")  # type: ignore[arg-type]
