"""What a run's ledger accounts, beside the findings that it is about.

A guarantee of clients is of the models that the server gives out: it says nothing of what the server itself sees. One of
examples is of all that training sends; of several clients the one that has spent most is told.
"""

from collections.abc import Callable
from dataclasses import replace

from fedsuite.privacy.findings import Finding
from fedsuite.privacy.ledger import LEDGER, read
from fedsuite.runs.folder import RunFolder

UNSEEN = "the run's epsilon does not cover what the server sees"


def beside_ledger(folder: RunFolder) -> Callable[[Finding], Finding]:
    """Findings with the epsilon of the run in `folder`; as they are where it has no ledger."""
    places = [folder.path, *sorted(file.parent for file in folder.clients.glob(f"*/{LEDGER}"))]
    ledgers = [ledger for ledger in map(read, places) if ledger.releases]
    if not ledgers:
        return lambda finding: finding
    epsilon, unit = max((ledger.epsilon(), ledger.unit) for ledger in ledgers)

    def told(finding: Finding) -> Finding:
        if unit == "client" and finding.attacker == "server":
            return replace(finding, note="; ".join(filter(None, (finding.note, UNSEEN))))
        return replace(finding, epsilon=epsilon, unit=unit)

    return told
