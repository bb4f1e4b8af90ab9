"""The folder of a run as its server finds it: to go on in, or clean for a new start."""

import dataclasses

from fedsuite.errors import InputError
from fedsuite.history import HISTORY, read_rows
from fedsuite.roster.members import ROSTER, Roster, write_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.deleting import delete
from simulations.experiments import leavings
from simulations.experiments.launching import Way
from simulations.experiments.plan import Plan, checkpointed_rounds

# The processes of a killed run need a moment to notice and let go of its folder.
RESUME_PATIENCE_S = 15.0


def ready(plan: Plan, roster: Roster, way: Way) -> Plan:
    """The plan to launch: a continued run where there is a checkpoint, else a new one in a clean folder."""
    folder, changes = plan.folder, dict[str, str]()
    if folder.path.exists():
        with folder.locked(RESUME_PATIENCE_S):
            pass  # nobody else writes here
        if checkpointed_rounds(folder):
            changes["resume"] = str(folder.path)
        elif _has_results(folder):
            raise InputError(
                f"{folder.checkpoints}: no checkpoint, although the run has got further; put the folder back from a copy, "
                "or start the run again under another name"
            )
        else:
            delete(folder.path, leavings.names_of_run(folder, plan.system))
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.unfinished.touch()
    if way.connection is None:  # else the server has the roster that the nodes have
        write_roster(folder.path / ROSTER, roster)
        changes["roster"] = str(folder.path / ROSTER)
    return dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, **changes))  # type: ignore[arg-type]


def _has_results(folder: RunFolder) -> bool:
    """Whether something lies here that a run has only after its first checkpoint."""
    history = folder.path / HISTORY
    rows = read_rows(history, torn_end=True) if history.is_file() else []
    return folder.model.exists() or any(row["round"] > 0 for row in rows)
