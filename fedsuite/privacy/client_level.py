"""DP-FedAvg: what is merged hides whether any one client took part (McMahan et al. 2018, 1710.06963, Algorithm 1).

Symbols: d_k = w_k - w the change of client k of a round, all its floating-point arrays together; C the clipping norm; z the
noise multiplier; m the number of clients that a round is to have, fixed before the run.

  Delta = (sum_k d_k min(1, C / ||d_k||) + N(0, (z C)^2 I)) / m        every client counts alike, whatever its samples

One client more or less moves the sum by C at most, and m does not say who came. With an adaptive C (Andrew et al. 2021,
1905.03871, Algorithm 1), b_k = 1 for a change that was not clipped:

  b = (sum_k (b_k - 1/2) + N(0, s_b^2)) / m + 1/2;   C <- C exp(-rate (b - gamma));   noise of the sum z_s C in place of z C,
  z_s = (z^-2 - (2 s_b)^-2)^(-1/2), so that both releases together are as private as one with z.

A change of 0 is not clipped, and counts as such. Whole numbers are not released: those of the server stay as they are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsuite.arrays import Arrays, Named, non_finite
from fedsuite.averaging.distances import lengths
from fedsuite.averaging.merging import Merged
from fedsuite.averaging.privacy_settings import CLIENT, PrivacySettings
from fedsuite.averaging.step import Step
from fedsuite.errors import InputError, RunFailed
from fedsuite.privacy.ledger import Ledger, Release, read, record
from fedsuite.privacy.noise_source import noise_source

_CLIP = "clip"  # C in the rule's state


@dataclass(frozen=True)
class _Released:
    """What is known of releases before they are made. expected: m; folder: where the ledger is."""

    settings: PrivacySettings
    expected: int
    folder: Path

    def after(self, number: int) -> Ledger:
        """The ledger as it would be after a release in round `number`."""
        return read(self.folder).and_then(_release(self.settings, number, self.expected))

    def allows(self, number: int) -> bool:
        """Whether epsilon would stay within its limit with a release in round `number`."""
        most = self.settings.max_epsilon
        return not most or self.after(number).epsilon() <= most


@dataclass(frozen=True)
class NoisedMean(_Released):
    """The `combine` of a merge rule, of a server that sees single changes."""

    def __call__(
        self,
        server: Named,
        clients: Sequence[Named],
        weights: np.ndarray,
        tolerated: int,
        step: Step,
    ) -> Merged:
        """Delta of a round, float64; the ledger has it before any noise is drawn. RunFailed where epsilon is used up."""
        bad = next((names[0] for names in map(non_finite, clients) if names), "")
        if bad:
            raise RunFailed(
                f"round {step.round}: array {bad} of a change holds NaN or infinity, so it cannot be clipped; leave it out"
            )
        clip = float(step.state.get(_CLIP, self.settings.clip))
        norms = lengths(server, clients)
        added = clipped_sum(server, clients, factors_of(norms, clip))
        ledger = self._recorded(step.round, len(clients))
        rng = noise_source(self.settings.noise, lambda: step.rng)
        count_noise = count_noise_of(self.settings, self.expected)
        z = sum_multiplier(self.settings.noise_multiplier, count_noise)
        delta = {
            k: (added[k] + rng.normal(0.0, z * clip, added[k].shape)) / self.expected
            for k in sorted(added)
        }
        step.metrics.update({"epsilon": ledger.epsilon(), "clip": clip})
        if count_noise:
            whole = float((norms <= clip).sum()) - len(norms) / 2 + rng.normal(0.0, count_noise)
            share = whole / self.expected + 0.5
            after = next_clip(clip, share, self.settings.clip_quantile, self.settings.clip_rate)
            step.state[_CLIP] = np.asarray(after)
            step.metrics["not-clipped"] = share
        return Merged(delta)

    def _recorded(self, number: int, participants: int) -> Ledger:
        if not self.allows(number):
            raise RunFailed(
                f"round {number}: privacy.max-epsilon: a release would take epsilon above {self.settings.max_epsilon:g}; "
                "the run has to end before this round"
            )
        return record(self.folder, _release(self.settings, number, participants))


@dataclass(frozen=True)
class SummedMean(_Released):
    """The `combine` of a merge rule where members of secure sums clip and add the noise (noised_sums.py), and `record_sum`
    has written the ledger. What stands for a client is the mean of all A that arrived: Delta is A / m of its change."""

    def __call__(
        self,
        server: Named,
        clients: Sequence[Named],
        weights: np.ndarray,
        tolerated: int,
        step: Step,
    ) -> Merged:
        """Delta of a round, float64."""
        added = clipped_sum(server, clients, np.ones(len(clients)))
        delta = {k: change / self.expected for k, change in sorted(added.items())}
        clip = float(step.state.get(_CLIP, self.settings.clip))
        step.metrics.update({"epsilon": read(self.folder).epsilon(), "clip": clip})
        return Merged(delta)


def record_sum(
    own: PrivacySettings, folder: Path, number: int, arrived: int, fewest: int
) -> Ledger:
    """The ledger with a sum of `arrived` members, each with the noise of one of the `fewest` that it may have; to be on disk
    before the sum is opened."""
    multiplier = own.noise_multiplier * math.sqrt(arrived / fewest)
    release = _release(own, number, arrived)
    return record(folder, replace(release, noise_multiplier=multiplier))


def _release(own: PrivacySettings, number: int, participants: int) -> Release:
    return Release(
        round=number, unit=CLIENT, noise_multiplier=own.noise_multiplier, delta=own.delta,
        participants=participants, noise=own.noise,
    )  # fmt: skip


def factors_of(norms: np.ndarray, clip: float) -> np.ndarray:
    """min(1, C / norm) [N]; 1 for a norm of 0."""
    return np.minimum(1.0, clip / np.maximum(norms, clip))


def clipped_sum(server: Named, clients: Sequence[Named], factors: np.ndarray) -> Arrays:
    """sum_k f_k d_k of all floating-point arrays, float64, in the order given."""
    added: Arrays = {}
    for name in (k for k in clients[0] if clients[0][k].dtype.kind == "f"):
        start = np.asarray(server[name], np.float64)
        added[name] = np.zeros_like(start)
        for client, factor in zip(clients, factors, strict=True):
            added[name] += factor * (client[name] - start)
    return added


def count_noise_of(own: PrivacySettings, expected: int) -> float:
    """s_b; 0 where C does not adapt."""
    if not own.adaptive_clip:
        return 0.0
    return own.count_noise or max(expected / 20, own.noise_multiplier)


def sum_multiplier(z: float, count_noise: float) -> float:
    """The noise multiplier of the sum, z_s, where the count of those not clipped has noise s_b beside it; z at 0.

    InputError where the count alone would tell more than z allows.
    """
    if not count_noise:
        return z
    left = z**-2 - (2 * count_noise) ** -2
    if left <= 0:
        raise InputError(
            f"privacy.count-noise: {count_noise:g} is too little for privacy.noise-multiplier = {z:g}; set it above "
            f"{z / 2:g}, or to 0"
        )
    return float(left**-0.5)


def next_clip(clip: float, share: float, quantile: float, rate: float) -> float:
    """C exp(-rate (b - gamma)): less where more than gamma of the changes were not clipped. share: b."""
    return clip * math.exp(-rate * (share - quantile))
