"""What a rule of the server is told in one round, beside what it is about.

Merge rules, server optimizers and participation get a Step: the round, a random stream of their own, what they have kept,
and what the clients said last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedsuite.randomness import rng_for

Replies = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of a rule.

    round: 1-based. seed, purpose: of the stream. state: the rule's own arrays by name, {} at first; what it puts there is in
    every checkpoint and in its next step, a number as an array without dimensions. replies: by partition the metrics of each
    client's last reply to training, with "num-examples" and "round"; of clients that never replied nothing; {} where only
    rules of the project are at work. metrics: what the rule says of the round; the history has it under the rule's name.
    trusted: of a merge rule, place of the client of federation.trusted among those that it merges; None if it is not there.
    """

    round: int = 1
    seed: int | None = None
    purpose: str = ""
    state: dict[str, np.ndarray] = field(default_factory=dict)
    replies: Replies = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    trusted: int | None = None

    @cached_property
    def rng(self) -> np.random.Generator:
        """The rule's stream of this round, the same whatever was drawn before and after a resume."""
        if self.seed is None:
            raise ValueError("this step has no random stream; give it seed and purpose")
        return rng_for(self.seed, f"step of {self.purpose}", self.round)


NO_STEP = Step()  # for rules that need none
