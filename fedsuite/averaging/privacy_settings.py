"""Section `privacy` of a run's settings: differential privacy of whatever an exchange shares.

What it does is in fedsuite/privacy: client_level.py, by members of secure sums noised_sums.py, in a client example_level.py.
"""

from dataclasses import dataclass

from fedsuite.settings.config import setting
from fedsuite.settings.unread import Unread, among, but

CLIENT, EXAMPLE = "client", "example"
SECRET, SEEDED = "secret", "seeded"
EPSILON = "epsilon"
"""What a client says it has spent so far, in its reply to training."""


@dataclass(frozen=True)
class PrivacySettings:
    """Whose data are protected, and how strongly."""

    unit: str = setting(
        "none",
        "whose presence the released models hide: nobody's (none), a client's (DP-FedAvg: the server clips and adds noise, "
        "or every client where federation.secure-sum is on), "
        "or an example's (DP-SGD: every client clips and adds noise in each step)",
        choices=("none", CLIENT, EXAMPLE),
        added=True,
    )
    clip: float = setting(
        1.0,
        "C, the longest L2 norm of a client's change, or of an example's gradient, over all shared arrays together; "
        "longer ones are shortened to it; where it adapts, the first one",
        gt=0,
        added=True,
    )
    noise_multiplier: float = setting(
        1.0, "z, standard deviation of the noise in the sum over C", gt=0, le=10**6, added=True
    )
    delta: float = setting(1e-5, "delta at which epsilon is stated", gt=0, lt=1, added=True)
    max_epsilon: float = setting(
        0.0,
        "the run ends before the round after which epsilon would be larger; 0 = no limit",
        ge=0,
        added=True,
    )
    noise: str = setting(
        SECRET,
        "where noise comes from: the operating system, so that no run can be repeated (secret), or the run's seed, which "
        "guarantees nothing against who knows it, for tests and studies (seeded)",
        choices=(SECRET, SEEDED),
        added=True,
    )
    adaptive_clip: bool = setting(
        False, "C follows a quantile of the changes' norms (unit = client)", added=True
    )
    clip_quantile: float = setting(
        0.5, "gamma, the share of changes that C is to leave whole", ge=0, le=1, added=True
    )
    clip_rate: float = setting(
        0.2, "how fast C follows: C exp(-rate (share not clipped - gamma))", gt=0, le=10, added=True
    )
    count_noise: float = setting(
        0.0,
        "s_b, standard deviation of the noise on the number of changes not clipped; 0 = the larger of m / 20 and z",
        ge=0,
        added=True,
    )


PRIVACY_UNREAD: Unread = {
    **{
        f"privacy.{key}": ("privacy.unit", among("none"))
        for key in ("clip", "noise-multiplier", "delta", "max-epsilon", "noise")
    },
    "privacy.adaptive-clip": ("privacy.unit", but(CLIENT)),
    **{
        f"privacy.{key}": ("privacy.adaptive-clip", among(False))
        for key in ("clip-quantile", "clip-rate", "count-noise")
    },
}
"""Keys that nothing reads with certain values of others."""
