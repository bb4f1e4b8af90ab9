"""Section `published` of a FedRL run: departures of the official code from the paper that change results.

Each is a key of its own whose value "auto" (-1 for numbers) follows `published.follow`.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from fedsuite.settings.config import setting


def _switch(help: str, corrected: str, published: str) -> Any:
    """A departure of the official code: "auto", or one of the two ways."""
    return setting("auto", help, choices=("auto", corrected, published))


@dataclass(frozen=True)
class PublishedSettings:
    """Departures of the official code from the paper."""

    follow: str = setting(
        "corrected",
        "what the switches left on auto follow",
        choices=("corrected", "published-code"),
    )
    windows: str = _switch(
        "sides of alpha's and beta's windows: paper = 3 and 5, code = 5 and 3", "paper", "code"
    )
    distance: str = _switch("how far the agents are apart", "manhattan", "anti-diagonal")
    starts: str = _switch(
        "start cells: as stored, or one down and right as in the code", "exact", "shifted"
    )
    first_frame: str = _switch(
        "whether replay holds an episode's first observation", "stored", "missing"
    )
    timeouts: str = _switch("target of a step that ran out of time", "bootstrapped", "terminal")
    selection: str = _switch(
        "test-fold: choose the round on the next fold, test on this one; validation: both on this one",
        "test-fold",
        "validation",
    )
    exclusive_rewards: str = _switch(
        "arguments that exclude each other: neglecting one may be right, or never is (code)",
        "full",
        "selecting-only",
    )
    target_refresh: str = _switch(
        "published: not FedRL's networks, not DQN-full's second convolution", "all", "published"
    )
    mlp_updates: str = _switch(
        "alternating: every party updates the shared MLP in turn (paper); joint: once (code)",
        "alternating",
        "joint",
    )
    mlp_start: str = _switch(
        "sum: the shared MLP starts as the sum of the parties' Q-values; published: drawn as in the code",
        "sum",
        "published",
    )
    noise_probability: float = setting(
        -1.0,
        "share of minibatches with noise; -1 = auto (always; published-code half)",
        ge=-1,
        le=1,
    )

    @property
    def rules(self) -> "PublishedSettings":
        """The same with every "auto" resolved."""
        published = self.follow == "published-code"
        own: dict[str, Any] = {
            f.name: f.metadata["limits"].choices[1 + published]
            for f in fields(self)
            if getattr(self, f.name) == "auto"
        }
        if self.noise_probability < 0:
            own["noise_probability"] = 0.5 if published else 1.0
        return replace(self, **own)

    @property
    def window_sides(self) -> tuple[int, int]:
        """Of `rules`: sides of alpha's and beta's windows, cells."""
        return (3, 5) if self.windows == "paper" else (5, 3)
