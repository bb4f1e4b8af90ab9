"""The findings of `fedsuite audit` in a run's folder, as a frame, and their means over runs."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedsuite.errors import InputError
from fedsuite.history.paired import Difference, paired

if TYPE_CHECKING:
    import pandas as pd

FILE = "audit.csv"
WHAT = ("attack", "attacker", "target", "measure")  # what makes two findings of runs the same
_NUMBERS = ("value", "low", "high", "chance", "undefended", "control", "least", "epsilon")
_TEXTS = ("note", "unit", "changed")


def audit_lines(folder: Path) -> "pd.DataFrame":
    """A line per finding, with `counts`: whether its control succeeded; no line where there was no audit."""
    import pandas as pd

    file = folder / FILE
    if not file.is_file():
        return pd.DataFrame()
    try:
        found = pd.read_csv(file, keep_default_na=False, dtype=str)
        found = found.astype(dict.fromkeys(_NUMBERS, float) | {"n": int, "seed": int, "round": int})
        found["quick"] = found["quick"] == "True"
        found[[*WHAT, *_TEXTS]]  # all of them are there
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{file}: not the findings of an audit ({error}); put it back from a copy, or make it anew with fedsuite audit "
            "--overwrite"
        ) from None
    found["counts"] = found["control"] >= found["least"]
    return found


def over_runs(values: Mapping[Hashable, float]) -> Difference:
    """Mean of the runs' values, by seed, with the 95 % interval of Student's law: their difference from 0."""
    return paired(values, dict.fromkeys(values, 0.0))


def by_seed(
    lines: "pd.DataFrame", seeds: Mapping[str, Hashable]
) -> dict[tuple[str, ...], dict[Hashable, float]]:
    """Finding -> seed of the run -> value; seeds: run -> its seed. Findings whose control failed in a run are left out."""
    found: dict[tuple[str, ...], dict[Hashable, float]] = {}
    for line in lines.to_dict("records") if len(lines) else ():
        own = found.setdefault(tuple(str(line[name]) for name in WHAT), {})
        if line["counts"]:
            own[seeds[line["run"]]] = float(line["value"])
    return found
