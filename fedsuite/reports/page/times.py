"""Where the time went: what the rounds took, and which part of it."""

import math
from collections.abc import Sequence

import numpy as np

from fedsuite.reports.outcomes import EMPTY
from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.model import Section, table_of
from fedsuite.reports.page.results import lines_of

PARTS = {
    "total-s": "rounds (s)",
    "waiting-s": "waiting for training (s)",
    "merging-s": "server, in training (s)",
    "evaluation-s": "evaluation (s)",
    "startup-s": "until all were there (s)",
    "local-work-s": "training by clients (s)",
}


def times_section(digests: Sequence[Digest]) -> Section:
    """Means over the runs of a line; parts that no run recorded are left out."""
    found = {
        name: {part: _mean([d.times[part] for d in own]) for part in PARTS}
        for name, own in lines_of(digests).items()
    }
    kept = [part for part in PARTS if any(not math.isnan(row[part]) for row in found.values())]
    if not kept:
        return Section("Where the time went")
    rows = [
        {"line": name, **{PARTS[part]: _shown(row[part]) for part in kept}}
        for name, row in found.items()
    ]
    note = "Means over the runs of a line. Clients train side by side: theirs may be more than the rounds took."
    return Section("Where the time went", tables=(table_of("Seconds of all rounds", rows, note),))


def _mean(values: Sequence[float]) -> float:
    known = [v for v in values if not math.isnan(v)]
    return float(np.mean(known)) if known else math.nan


def _shown(value: float) -> str:
    return EMPTY if math.isnan(value) else f"{value:,.1f}"
