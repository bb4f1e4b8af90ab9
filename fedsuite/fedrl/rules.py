"""What the switches of [published] come to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """The departures of the official code from the paper, each one way or the other; see
    the help texts of PublishedSettings."""

    windows: str
    distance: str
    starts: str
    first_frame: str
    timeouts: str
    selection: str
    exclusive_rewards: str
    target_refresh: str
    mlp_updates: str
    noise_probability: float

    @property
    def window_sides(self) -> tuple[int, int]:
        """Sides of alpha's and beta's windows, cells."""
        return (3, 5) if self.windows == "paper" else (5, 3)
