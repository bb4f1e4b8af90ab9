"""What a run tells an attacker, as its audit found it; every number stands beside chance, and beside its control."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.model import Section, table_of

TITLE = "What it tells"
HOW = (
    "Each line is one number of one attack; by: who is in a position for it. Control: what the same attack reaches where it "
    "must succeed; where it fails there, its failure on the run shows nothing, and the line does not count. Undefended: the "
    "same attack without what defends the run. What no line is about was not tried."
)
FAILED = "control failed, does not count"


def audit_rows(lines: pd.DataFrame) -> list[dict[str, str]]:
    """Lines of `RunFrames.audit` for a table, the run's name first where there are several."""
    several = len(lines) > 0 and lines["run"].nunique() > 1
    return [
        {
            **({"run": str(line["run"])} if several else {}),
            "attack": line["attack"],
            "by": line["attacker"],
            "target": line["target"],
            "measure": line["measure"],
            "reached": _number(line["value"]),
            "95 %": interval(line["low"], line["high"]),
            "chance": _number(line["chance"]),
            "undefended": _number(line["undefended"]),
            "control": f"{_number(line['control'])} (>= {line['least']:g})",
            "n": f"{line['n']:,}",
            "note": _note(line),
        }
        for line in lines.to_dict("records")
    ]


def audit_section(digests: Sequence[Digest]) -> Section:
    """Findings of all runs that were audited; empty where none was."""
    found = [d.audit.assign(run=d.place.label) for d in digests if len(d.audit)]
    if not found:
        return Section(TITLE)
    lines = pd.concat(found, ignore_index=True)
    untried = [d.place.label for d in digests if not len(d.audit)]
    more = (f"Not audited: {', '.join(untried)}.",) if untried else ()
    table = table_of("Findings of fedsuite audit", audit_rows(lines), long=len(lines) > 12)
    return Section(TITLE, text=(HOW, *more), tables=(table,))


def _note(line: Mapping[Hashable, Any]) -> str:
    """What a reader has to know beside the numbers."""
    said = [] if line["counts"] else [FAILED]
    if not math.isnan(epsilon := float(str(line["epsilon"]))):
        said.append(f"accounted: epsilon {epsilon:.3g} per {line['unit']}")
    return "; ".join([*said, *filter(None, [str(line["note"])])])


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def interval(low: float, high: float) -> str:
    """Both ends, "-" where there are none."""
    return "-" if math.isnan(low) or math.isnan(high) else f"{low:.3f} to {high:.3f}"
