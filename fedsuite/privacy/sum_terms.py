"""What server and clients of a secure sum agree on: from the section `federation` of a run alone.

The four stages are messages of training with `stage` in their config; names of what they carry stand here.
"""

from dataclasses import dataclass
from typing import Any

from fedsuite.privacy.secure_sum import FEWEST

KEYS, SHARES, MASKED, UNMASK = STAGES = ("keys", "shares", "masked", "unmask")
STAGE = "stage"
ON = "federation.secure-sum"


@dataclass(frozen=True)
class SumTerms:
    """threshold: share of the members of which more must answer; bound: c of masked_vectors.py; most: largest weight of one
    member; counted: members weigh by their examples, else alike; least: members that a sum must have, whatever the run says.
    """

    threshold: float
    bound: float
    most: float = 1.0
    counted: bool = True
    least: int = FEWEST

    def needed(self, members: int) -> int:
        """t of `members`, more than half of them."""
        return min(members, int(self.threshold * members) + 1)

    def fewest(self, members: int) -> int:
        """How many of `members` must answer."""
        return max(self.least, self.needed(members))


def terms_of(own: Any) -> SumTerms | None:
    """Of a section with the keys secure-sum*; None where changes travel in the clear."""
    if not getattr(own, "secure_sum", False):
        return None
    most, counted = getattr(own, "max_share", 1.0), getattr(own, "data_weighted", True)
    return SumTerms(own.secure_sum_threshold, own.secure_sum_bound, most, counted)


def numbers_text(numbers: list[int]) -> str:
    """Members as a message lists them."""
    return ",".join(map(str, sorted(numbers)))


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in text.split(",")] if text else []
