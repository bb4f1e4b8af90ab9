"""What a run's ledger accounts, beside the findings that it is about.

A guarantee of clients is of the models that the server gives out: it says nothing of what the server itself sees, unless
that is sums to which the clients have added the noise. One of examples is of all that training sends; of several clients the
one that has spent most is told. A ledger that is not there, or has less than its client has said in the run, would have the
findings stand beside too small an epsilon: it is refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from fedsuite.averaging.privacy_settings import CLIENT, EPSILON, EXAMPLE
from fedsuite.errors import InputError
from fedsuite.history import read_rows
from fedsuite.history.rows import HISTORY
from fedsuite.privacy.findings import Finding
from fedsuite.privacy.ledger import LEDGER, Ledger, read
from fedsuite.runs.folder import RunFolder

UNSEEN = "the run's epsilon does not cover what the server sees"


def beside_ledger(
    folder: RunFolder, unit: str, summed: bool = False
) -> Callable[[Finding], Finding]:
    """Findings with the epsilon of the run in `folder`; as they are where its privacy.unit is none. summed: its server gets
    secure sums alone.

    InputError where a ledger is missing, or has less than the history of the run.
    """
    if unit not in (CLIENT, EXAMPLE):
        return lambda finding: finding
    epsilon = max((ledger.epsilon() for ledger in _ledgers(folder, unit)), default=0.0)

    def told(finding: Finding) -> Finding:
        if unit == CLIENT and finding.attacker == "server" and not summed:
            return replace(finding, note="; ".join(filter(None, (finding.note, UNSEEN))))
        return replace(finding, epsilon=epsilon, unit=unit)

    return told


def _ledgers(folder: RunFolder, unit: str) -> Iterator[Ledger]:
    """The server's, or all of the clients that have trained; a client that holds several silos has one for each."""
    rows = read_rows(folder.path / HISTORY)
    if unit == CLIENT:
        said = [row["metrics"] for row in rows if row["kind"] == "round"]
        most = {EPSILON: max((line.get(f"merge.{EPSILON}", 0.0) for line in said), default=0.0)}
        places = {folder.path: most if said else {}}
    else:
        places = {}
        for row in (row for row in rows if row.get("task") == "train"):
            most = places.setdefault(folder.client(row["name"]), {})
            for key, value in row.get("metrics", {}).items():
                if key.split(".")[-1] == EPSILON:
                    most[key] = max(most.get(key, 0.0), value)
    for place, spent in places.items():
        files = sorted(place.glob(LEDGER)) + sorted(place.glob(f"*/{LEDGER}"))
        ledgers = sorted((read(file.parent) for file in files), key=Ledger.epsilon)
        told = sorted(spent.values())
        if len(ledgers) < len(told):
            raise InputError(
                f"{place}: has {len(ledgers)} ledgers of releases ({LEDGER}), but the run had {len(told)} there; {_CURE}"
            )
        for ledger, least in zip(ledgers, told, strict=False):
            if (found := ledger.epsilon()) < least * (1 - 1e-9):
                raise InputError(
                    f"{place}: {LEDGER} accounts an epsilon of {found:.4g}, but the run's history has {least:.4g}; {_CURE}"
                )
        yield from ledgers


_CURE = "put it back from a copy, a node's from its own disk; without it no finding can be held against what was spent"
