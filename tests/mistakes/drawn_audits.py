"""Audits of configurations that no test has thought of; run by hand.

    python -m tests.mistakes.drawn_audits FOLDER fedrl|cdl|fedvln [FIRST LAST]

Number n plays the run of drawn_runs.py and audits it quickly. It prints a line for each audit that fails, of a run that
is not refused, or finds what is no number or lies outside its interval; and for findings whose control failed, which
tells nothing of the run and may be right for one so small, but not for a whole kind of runs. Half a minute a number.
"""

import math
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, RunFailed
from fedsuite.privacy.attacks.attack_settings import AttackSettings
from fedsuite.privacy.findings import Finding
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.progress import silent
from simulations.audits.on_runs import audit_run, request_of
from simulations.engines.inprocess import run_inprocess
from simulations.systems import to_run_config
from tests.mistakes.drawn_runs import drawn
from tests.mistakes.silent_keys import Playing

QUICKLY = "", 0, True, False  # all attacks, their seed, quick, nothing to overwrite


def complaints(playing: Playing, number: int) -> Iterator[str]:
    """What is wrong with the audit of a number; nothing of a run that cannot be made, or that is refused."""
    with tempfile.TemporaryDirectory() as place:
        keys: dict[str, Any] = {**drawn(playing, number), "name": "run", "results-dir": place}
        try:
            settings = playing.settings(keys)
            run_inprocess(to_run_config(settings))
            assert playing.system.audit is not None
            playing.system.audit(settings)
        except (InputError, RunFailed):
            return
        try:
            request = request_of(AttackSettings(), *QUICKLY)
            rows = audit_run(RunFolder(Path(place) / "run").path, request, silent)
        except Exception:
            yield traceback.format_exc()
            return
        for finding in (row.finding for row in rows):
            if why := odd(finding):
                yield f"{finding.attack}: {finding.target}, {finding.measure}: {why}"


def odd(finding: Finding) -> str:
    """What is wrong with a finding; "" if nothing is."""
    value, low, high = finding.value, finding.low, finding.high
    if not math.isfinite(value) or not math.isfinite(finding.chance):
        return f"{value}, chance {finding.chance}"
    if not math.isnan(low) and not low - 1e-9 <= value <= high + 1e-9:
        return f"{value:g} is not in {low:g} to {high:g}"
    return "" if finding.counts else f"control {finding.control:g}, below {finding.least:g}"


def main(name: str, folder: Path, first: int = 0, last: int = 99) -> None:
    playing = Playing(name, folder / name)
    for number in range(first, last + 1):
        if said := [*complaints(playing, number)]:
            print(f"{number}: {'; '.join(said)}\n  {drawn(playing, number)}", flush=True)
        if number % 10 == 9 or number == last:
            print(f"{first} to {number} done", flush=True)


if __name__ == "__main__":
    main(sys.argv[2], Path(sys.argv[1]), *map(int, sys.argv[3:]))
