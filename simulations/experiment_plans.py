"""The runs of an experiment, each checked as a single one would be."""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsuite.config import Value, read_config
from fedsuite.errors import InputError
from fedsuite.run_folder import RunFolder, check_folder, folder_of
from simulations.launch import Plan, absolute_paths
from simulations.systems import System
from simulations.variants import RunTable, variant_of


def plan_of(
    run: RunTable,
    system: System[Any],
    values: Mapping[str, Value],
    folder: Path,
    source: str,
    played: bool = True,
) -> Plan:
    """The run's settings through all checks; `values` are those of --set, `folder` the experiment's.

    A run that is not to be played now need not have all that it starts from: its settings are only read.
    """
    cls, at = system.config_class, folder / run.label
    read_config(cls, run.base, source)
    with _naming(source, run.where):
        read_config(cls, run.table, source)
    settings = read_config(cls, {**run.table, **values}, "--set" if values else source)
    settings = dataclasses.replace(settings, name=at.name, results_dir=str(at.parent), resume="")
    settings = dataclasses.replace(settings, **absolute_paths(settings))
    if played:
        with _naming(source, run.where):
            system.validate(settings)
    return Plan(system, settings, folder_of(settings))


@contextmanager
def _naming(source: str, where: str) -> Iterator[None]:
    """Complaints open with the file and the variant."""
    try:
        yield
    except InputError as error:
        text = str(error).removeprefix(f"{source}: ")
        raise InputError(f"{source}: {where}{text}") from None


def check_begun(plan: Plan) -> None:
    """What is there of a run must be from the same settings."""
    done = checkpointed_rounds(plan.folder)
    if not done:
        return
    check_folder(plan.folder, dataclasses.replace(plan.settings, resume=str(plan.folder.path)))
    if plan.settings.num_rounds < done[-1]:
        raise InputError(
            f"{plan.folder.path}: num-rounds = {plan.settings.num_rounds}, but round {done[-1]} is "
            f"already done; give num-rounds >= {done[-1]}"
        )


def checkpointed_rounds(folder: RunFolder) -> list[int]:
    """Rounds from which a run can go on."""
    from fedsuite.checkpoint import rounds  # brings torch

    return rounds(folder.checkpoints)


def chosen_labels(only: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The labels that --only leaves, each given as a variant or as a whole label; all without it."""
    known = list(dict.fromkeys([*(variant_of(label) for label in labels), *labels]))
    for name in only:
        if name not in known or not name:
            near = difflib.get_close_matches(name, known, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else "valid: " + ", ".join(filter(None, known))
            )
            raise InputError(f"--only: no variant {name!r}; {hint}")
    return [x for x in labels if not only or x in only or variant_of(x) in only]
