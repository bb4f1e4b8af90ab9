"""What noise guarantees: (epsilon, delta)-differential privacy by Renyi accounting, of Q-values and of released models.

Models: a release is a Gaussian mechanism with the noise multiplier z, and neighbours differ by one unit that is there or not
(a client, an example). Several compose (`epsilon_of`); where every unit takes part by chance and nobody knows who did
(Poisson sampling, q), each tells less (Mironov, Talwar, Zhang 2019, 1908.10530). Participants that follow from a seed which
others know are no secret: q = 1.

Q-values: replacing one of a party's records may change all its weights and so every later Q-vector; clipping to the norm c
bounds each change by 2 c, whatever the weights are. A release is thus a Gaussian mechanism with the noise multiplier

  m = sigma / (2 c),   and T of them, each chosen with knowledge of those before, have the Renyi divergence
  R(a) = T a / (2 m^2) of order a (Mironov 2017, Renyi differential privacy), from which
  epsilon = min_a R(a) + log(1 - 1/a) - log(delta a) / (a - 1) (Canonne, Kamath, Steinke 2020).

There is no gain from sampling there: a released vector depends on all records through the weights.
Zhuo et al. (2019) state no epsilon; sigma = 1 without clipping has none.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

PRACTICAL = 10.0  # an epsilon above this hardly restrains an attacker


def epsilon_of_gaussian(noise_multiplier: float, releases: int, delta: float) -> float:
    """Epsilon at `delta` of `releases` Gaussian mechanisms; multiplier: noise over sensitivity, both in L2."""
    if noise_multiplier <= 0 or releases < 0 or not 0 < delta < 1:
        raise ValueError(
            "expected noise_multiplier > 0, releases >= 0 and 0 < delta < 1, "
            f"got {noise_multiplier}, {releases}, {delta}"
        )
    if releases == 0:
        return 0.0
    # Takes 0.7 s to load, and most runs never ask.
    import dp_accounting as dp

    # Many releases are best bounded by orders close to 1, which the accountant's own list does not have.
    accountant = dp.rdp.RdpAccountant(
        1 + np.geomspace(0.0101, 1e6, 300), dp.NeighboringRelation.REPLACE_ONE
    )
    accountant.compose(dp.SelfComposedDpEvent(dp.GaussianDpEvent(noise_multiplier), releases))
    return float(accountant.get_epsilon(delta))


def epsilon_of(spent: Mapping[tuple[float, float], int], delta: float) -> float:
    """Epsilon at `delta` of Gaussian mechanisms of which one unit more or less is to be told: (z, q) -> how many.

    z: noise over sensitivity; q: Poisson sampling rate, 1 = everybody takes part, or who does is known.
    """
    bad = any(z <= 0 or not 0 < q <= 1 or n < 0 for (z, q), n in spent.items())
    if bad or not 0 < delta < 1:
        raise ValueError(f"expected z > 0, 0 < q <= 1 and 0 < delta < 1, got {spent}, {delta}")
    if not any(spent.values()):
        return 0.0
    import dp_accounting as dp

    # Divergences of what is composed add up, order by order.
    parts = [n * _divergences(z, q)[1] for (z, q), n in sorted(spent.items()) if n]
    orders = _divergences(*next(iter(spent)))[0]
    with _quiet():
        return float(dp.rdp.compute_epsilon(orders, np.sum(parts, axis=0), delta)[0])


@lru_cache(maxsize=256)  # of the sampled ones it takes a tenth of a second
def _divergences(z: float, q: float) -> tuple[np.ndarray, np.ndarray]:
    """Orders, and the Renyi divergence of one release at each."""
    import dp_accounting as dp

    accountant, event = dp.rdp.RdpAccountant(), dp.GaussianDpEvent(z)  # one more or less
    with _quiet():
        accountant.compose(event if q == 1 else dp.PoissonSampledDpEvent(q, event))
    return np.asarray(accountant.orders), np.asarray(accountant.rdp)


@contextmanager
def _quiet() -> Iterator[None]:
    """Orders at which a series does not converge are left out, with a warning each; that makes epsilon larger at most."""
    logger = logging.getLogger("absl")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@dataclass(frozen=True)
class PrivacyStatement:
    """What can be said about the privacy of a run's parties, in plain words.

    bound: L2 norm to which Q-vectors are clipped, 0 = not clipped; sigma: noise on each component; releases:
    Q-vectors that each party released, the rewarded party first; delta; alternating: every party updates the shared MLP
    in turn (else the rewarded party alone, once). noise_probability: share of minibatches with noise;
    behaviour_noise, evaluation_noise: noise on the Q-values that choose actions in training, and in evaluation.
    """

    bound: float
    sigma: float
    releases: Mapping[str, int]
    delta: float
    alternating: bool
    noise_probability: float
    behaviour_noise: bool
    evaluation_noise: bool

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why no guarantee can be stated; empty if one can."""
        clips, share = self.bound > 0, self.noise_probability
        some = f"only {share:g} of the minibatches get noise, the others show Q-values as they are"
        reasons = {
            "the noise is 0": self.sigma <= 0,
            "Q-values are not clipped, so one record may change them without limit": not clips,
            some: share < 1,
            "the Q-values that choose actions in training get no noise": not self.behaviour_noise,
            "the Q-values exchanged in evaluation get no noise": not self.evaluation_noise,
        }
        return tuple(reason for reason, holds in reasons.items() if holds)

    @property
    def noise_multiplier(self) -> float:
        """Noise over sensitivity, sigma / (2 bound)."""
        if self.obstacles:
            raise ValueError(f"no guarantee can be stated: {'; '.join(self.obstacles)}")
        return self.sigma / (2 * self.bound)

    @property
    def epsilon_of_one(self) -> float:
        """Epsilon of a single Q-vector."""
        return epsilon_of_gaussian(self.noise_multiplier, 1, self.delta)

    @property
    def epsilons(self) -> dict[str, float]:
        """Epsilon of everything that each party released."""
        multiplier = self.noise_multiplier
        return {k: epsilon_of_gaussian(multiplier, n, self.delta) for k, n in self.releases.items()}

    @property
    def text(self) -> tuple[str, ...]:
        """The statement, line by line."""
        return (*self._guarantee(), *self._limits())

    def _guarantee(self) -> Iterator[str]:
        if self.obstacles:
            yield f"No differential-privacy guarantee can be stated: {'; '.join(self.obstacles)}."
            yield "Noise as it was added makes Q-values less exact; it does not bound what they tell about a record."
            return
        yield (
            f"Q-vectors are clipped to an L2 norm of {self.bound:g}: replacing one record of a party changes any "
            f"Q-vector that it releases by at most {2 * self.bound:g}, whatever its weights are."
        )
        yield f"With noise of standard deviation {self.sigma:g} the noise multiplier is {self.noise_multiplier:g}."
        yield f"A single Q-vector: epsilon {self.epsilon_of_one:.4g} at delta {self.delta:g}."
        epsilons = self.epsilons
        for party, epsilon in epsilons.items():
            yield f"All {self.releases[party]:,} Q-vectors of {party}: epsilon {epsilon:.4g} at delta {self.delta:g}."
        yield "All releases are composed, because weights depend on all records; every Q-vector beyond those counted adds."
        if max(epsilons.values(), default=0.0) > PRACTICAL:
            yield f"An epsilon above about {PRACTICAL:g} is no protection in practice."

    def _limits(self) -> tuple[str, ...]:
        rewarded, *others = self.releases
        without_rewards = " and ".join(others) or "the other parties"
        mlp = (
            "With alternating updates the shared MLP passes between all parties; every party's update of it "
            "depends on that party's records and gets no noise."
            if self.alternating
            else f"With joint updates Q-values are all that leaves {without_rewards}."
        )
        return (
            "This concerns Q-values only, not the other things that cross between parties.",
            f"{rewarded} sends targets Y and joint actions, which depend on its records and rewards "
            "and get no noise of their own.",
            mlp,
            "The noise comes from a generator seeded with the run's seed, unless a party's node has a noise-seed of its "
            "own: whoever knows the seed can subtract it, and runs with equal seeds share it, so that two that differ in "
            "sigma tell the Q-values without noise.",
            "Epsilon is of one run: a party that takes part in several releases that much in each.",
        )
