"""What server and clients of a secure sum agree on: from the sections `federation` and `privacy` of a run alone.

The four stages are messages of training with `stage` in their config; names of what they carry stand here.
"""

from dataclasses import dataclass
from typing import Any

from fedsuite.averaging.privacy_settings import CLIENT, PrivacySettings
from fedsuite.privacy.client_level import count_noise_of, sum_multiplier
from fedsuite.privacy.masked_vectors import Levels
from fedsuite.privacy.noised_sums import NoisedLevels
from fedsuite.privacy.secure_sum import FEWEST

KEYS, SHARES, MASKED, UNMASK = STAGES = ("keys", "shares", "masked", "unmask")
STAGE, CLIP = "stage", "clip"
CLIP_RULE = f"merge.{CLIP}"  # in ServerState.rules, as of a server that clips
ON = "federation.secure-sum"


@dataclass(frozen=True)
class SumTerms:
    """threshold: share of the members of which more must answer; bound: c of masked_vectors.py; most: largest weight of one
    member; counted: members weigh by their examples, else alike; least: members that a sum must have, whatever the run says;
    private: how members clip and noise what they send (noised_sums.py), None where they send it as it is; largest_clip: what
    C may adapt to, 0 = anything.
    """

    threshold: float
    bound: float
    most: float = 1.0
    counted: bool = True
    least: int = FEWEST
    private: PrivacySettings | None = None
    largest_clip: float = 0.0

    def needed(self, members: int) -> int:
        """t of `members`, more than half of them."""
        return min(members, int(self.threshold * members) + 1)

    def fewest(self, members: int) -> int:
        """How many of `members` must answer."""
        return max(self.least, self.needed(members))

    def opened_for(self, listed: int) -> int:
        """n of noised_sums.py: the fewest of `listed` members for whom any of them lets a sum be opened."""
        return max(FEWEST, self.needed(listed))

    @property
    def adapts(self) -> bool:
        """Whether a message says by which norm changes are clipped (CLIP)."""
        return self.private is not None and self.private.adaptive_clip

    def levels(self, listed: int, members: int, clip: float | None = None) -> Levels | NoisedLevels:
        """How numbers travel in a sum of `members`, of `listed` with keys; clip: C, if it is not the first one."""
        if (own := self.private) is None:
            return Levels(self.bound, members)
        counted = count_noise_of(own, listed)
        z = sum_multiplier(own.noise_multiplier, counted)
        return NoisedLevels(clip or own.clip, z, members, self.opened_for(listed), counted)


def terms_of(config: Any) -> SumTerms | None:
    """Of a run's settings; None where changes travel in the clear, as without the keys secure-sum*."""
    own: Any = getattr(config, "federation", None)
    if not getattr(own, "secure_sum", False):
        return None
    privacy = getattr(config, "privacy", None)
    private = privacy if getattr(privacy, "unit", "") == CLIENT else None
    return SumTerms(
        own.secure_sum_threshold,
        own.secure_sum_bound,
        most=getattr(own, "max_share", 1.0),
        counted=getattr(own, "data_weighted", True) and private is None,
        private=private,
    )


def numbers_text(numbers: list[int]) -> str:
    """Members as a message lists them."""
    return ",".join(map(str, sorted(numbers)))


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in text.split(",")] if text else []
