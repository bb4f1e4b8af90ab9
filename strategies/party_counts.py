"""What the server of parties keeps beside the shared MLP: counts, the best round, and whether the parties fit together.

Scalars of the server's state: exchange (done so far), best-round (0: none yet), best-score, rounds-since-best, and
released.<party>: Q-vectors that have left each party, on which the privacy statement is built.
"""

from collections.abc import Iterable, Sequence

from fedsuite.errors import InputError
from fedsuite.federation import ClientInfo, Scalar

ALPHA = 0


def first_counts(num_parties: int) -> dict[str, Scalar]:
    """Before round 1."""
    counts: dict[str, Scalar] = {"exchange": 0, "best-round": 0, "best-score": 0.0}
    counts |= {"rounds-since-best": 0}
    return counts | {f"released.{p}": 0 for p in range(num_parties)}


def add_released(parties: Iterable[int], count: int, counts: dict[str, Scalar]) -> None:
    """`count` more Q-vectors have left each of these parties."""
    for p in parties:
        counts[f"released.{p}"] = int(counts[f"released.{p}"]) + count


def remember_best(number: int, counts: dict[str, Scalar], score: float) -> bool:
    """Whether round `number` is the best so far by the validation's score."""
    if int(counts["best-round"]) == 0 or score > float(counts["best-score"]):
        counts |= {"best-round": number, "best-score": score, "rounds-since-best": 0}
        return True
    counts["rounds-since-best"] = int(counts["rounds-since-best"]) + 1
    return False


def check_agreement(clients: Sequence[ClientInfo]) -> None:
    """InputError unless all parties' worlds have the same facts."""
    alpha = clients[ALPHA]
    for client in clients[1:]:
        for key, value in alpha.details.items():
            found = client.details.get(key)
            if found != value:
                raise InputError(
                    f"party {client.name}: {key} is {found}, party {alpha.name} has {value}; give all parties "
                    "the same data and settings"
                )
