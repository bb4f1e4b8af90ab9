"""What a strategy with differential privacy needs: its merge rule, and when epsilon allows no further round."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fedsuite.averaging.merging import MergeRule
from fedsuite.averaging.privacy_settings import CLIENT, EXAMPLE, PrivacySettings
from fedsuite.averaging.robust import Merge
from fedsuite.averaging.step import Step
from fedsuite.errors import InputError
from fedsuite.federation import ClientInfo, Clients
from fedsuite.privacy.accounting import epsilon_of
from fedsuite.privacy.client_level import NoisedMean, SummedMean, count_noise_of, sum_multiplier
from fedsuite.privacy.ledger import read
from fedsuite.runs.folder import folder_of
from strategies.participation import Participation
from strategies.steps import PARTICIPATION

Limit = Callable[
    [int], str
]  # number of a round -> why the run has to end before it, "" if it has not


def no_limit(number: int) -> str:
    return ""


def private_values(config: Any, expected: int) -> dict[str, Any]:
    """Under client-level privacy the merge rule and the limit of an Averaging, by the names of its fields; {} otherwise.

    config: settings with sections `federation` and `privacy`; expected: m, clients that a round is to have. InputError where
    nobody is expected.
    """
    own: PrivacySettings = config.privacy
    if own.unit != CLIENT:
        return {}
    if expected < 1:
        raise InputError(
            "privacy.unit: client needs a fixed number of clients a round, but the roster says of nobody that it trains; "
            "write down how many examples each has"
        )
    kind = SummedMean if config.federation.secure_sum else NoisedMean
    rule = kind(own, expected, folder_of(config).path)
    sum_multiplier(own.noise_multiplier, count_noise_of(own, expected))
    return {"merge": Merge(MergeRule(rule)), "limit": partial(_used_up, rule)}


def _used_up(rule: NoisedMean | SummedMean, number: int) -> str:
    if rule.allows(number):
        return ""
    return _reason(rule.settings, read(rule.folder).epsilon(), rule.after(number).epsilon())


def _reason(own: PrivacySettings, now: float, after: float) -> str:
    return (
        f"epsilon is {now:.4g} at delta {own.delta:g}, and another round would take it to {after:.4g}, above "
        f"privacy.max-epsilon = {own.max_epsilon:g}"
    )


@dataclass(frozen=True)
class PlannedVisits:
    """A limit for example-level privacy: epsilon of the client that trains most, by who is to take part in which round.

    clients: those that train; who: (number of a round) -> those that take part; steps, rate: a client's steps in a visit,
    and its sampling rate q. What clients really spend stands in their own ledgers, and is never more but where rounds are
    played again.
    """

    own: PrivacySettings
    who: Callable[[int], Clients]
    steps: Callable[[ClientInfo], int]
    rate: Callable[[ClientInfo], float]
    _spent: list[Counter[tuple[float, int]]] = field(default_factory=lambda: [Counter()])

    def __call__(self, number: int) -> str:
        if not self.own.max_epsilon or self.epsilon(number) <= self.own.max_epsilon:
            return ""
        return _reason(self.own, self.epsilon(number - 1), self.epsilon(number))

    def epsilon(self, number: int) -> float:
        """The largest of all clients after round `number`."""
        while len(self._spent) <= number:
            spent = self._spent[-1].copy()
            for client in self.who(len(self._spent)):
                spent[self.rate(client), client.partition] += self.steps(client)
            self._spent.append(spent)
        most: Counter[float] = Counter()
        for (rate, _), count in self._spent[number].items():
            most[rate] = max(most[rate], count)
        z, delta = self.own.noise_multiplier, self.own.delta
        return max((epsilon_of({(z, q): n}, delta) for q, n in most.items()), default=0.0)


def planned_limit(
    own: PrivacySettings, who: Callable[[int], Clients], steps: Callable[[ClientInfo], int],
    rate: Callable[[ClientInfo], float],
) -> dict[str, Any]:  # fmt: skip
    """The limit of example-level privacy, as a field of a strategy; {} without."""
    return {"limit": PlannedVisits(own, who, steps, rate)} if own.unit == EXAMPLE else {}


def participants_of(
    participation: Participation, seed: int, clients: Clients
) -> Callable[[int], Clients]:
    """Who takes part in a round by the seed alone; everybody where a rule of somebody's own decides."""
    return lambda number: participation(
        Step(round=number, seed=seed, purpose=PARTICIPATION), clients
    )


def check_first(limit: Limit, resumed: bool) -> None:
    """InputError where not even the first round of a new run is within the limit."""
    if not resumed and (reason := limit(1)):
        raise InputError(f"privacy.max-epsilon: {reason}; raise it, or privacy.noise-multiplier")
