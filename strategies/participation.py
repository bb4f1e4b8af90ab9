"""Who takes part in a round, as values: called with a Step and the clients that may, in partition order.

Participation rate r (FedVLN, Algorithm 1): int(r N) of the N clients of a group, at least one, uniformly without replacement
inside a round and independently across rounds.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fedsuite.averaging.settings import CHOOSES_FROM, AveragingSettings
from fedsuite.averaging.step import Step
from fedsuite.errors import RunFailed, one_line
from fedsuite.federation import ClientInfo, Clients
from fedsuite.randomness import rng_for
from fedsuite.settings.values import chosen
from strategies.steps import PARTICIPATION

Participation = Callable[[Step, Clients], list[ClientInfo]]
Grouping = Callable[
    [int, Clients], list[list[ClientInfo]]
]  # participants -> chains that train one after another


def one_by_one(number: int, chosen: Clients) -> list[list[ClientInfo]]:
    """Nobody waits for anybody."""
    return [[client] for client in chosen]


def everybody(step: Step, clients: Clients) -> list[ClientInfo]:
    return list(clients)


@dataclass(frozen=True)
class Drawn:
    """Draws of the run's seed; none at rate 0. `group` names the stream, so that seen and unseen houses draw apart."""

    rate: float
    seed: int
    group: str = "seen"

    def __call__(self, step: Step, clients: Clients) -> list[ClientInfo]:
        if not self.rate:
            return []
        rng = rng_for(self.seed, f"participation of {self.group} clients", step.round)
        chosen = rng.choice(len(clients), size=_count(clients, self.rate), replace=False)
        return [clients[i] for i in sorted(int(i) for i in chosen)]


@dataclass(frozen=True)
class Published:
    """The lists of the official release, in its training order: all drawn up-front from Python's generator."""

    rate: float
    seed: int = 10

    def __call__(self, step: Step, clients: Clients) -> list[ClientInfo]:
        count = _count(clients, self.rate)
        lists = _published_lists(self.seed, len(clients), count, max(2000, step.round))
        return [clients[i] for i in lists[step.round - 1]]


@dataclass(frozen=True)
class SeenAndUnseen:
    """Unseen houses and seen ones (detail `unseen` of a client), each group by draws of its own; in partition order."""

    unseen: Participation
    seen: Participation

    def __call__(self, step: Step, clients: Clients) -> list[ClientInfo]:
        groups = [[c for c in clients if bool(c.count("unseen")) == kind] for kind in (True, False)]
        drawn = zip((self.unseen, self.seen), groups, strict=True)
        chosen = [c for draw, group in drawn if group for c in draw(step, group)]
        return sorted(chosen, key=lambda client: client.partition)


@dataclass(frozen=True)
class Own:
    """A rule of somebody's own: (step, clients, int(r N)) -> those of them that take part, in the order in which they are to
    train where that matters. RunFailed if it chooses nobody, a client twice, or one that it was not given."""

    rule: Callable[[Step, Clients, int], Sequence[ClientInfo]]
    rate: float
    name: str

    def __call__(self, step: Step, clients: Clients) -> list[ClientInfo]:
        known = {c.partition: c for c in clients}
        count = _count(clients, self.rate)
        found: list[Any] = [getattr(c, "partition", c) for c in self.rule(step, clients, count)]
        if not found or len(set(found)) < len(found) or not set(found) <= known.keys():
            raise RunFailed(
                f"round {step.round}: federation.participation: {self.name} chose {one_line(repr(found), 100)}; "
                "it must choose some of the clients that it is given, each once"
            )
        return [known[partition] for partition in found]


def chosen_participation(own: AveragingSettings, otherwise: Participation) -> Participation:
    """The rule that `federation.participation = "module:NAME"` stands for, else `otherwise`."""
    if ":" not in own.participation:
        return otherwise
    rule = chosen("federation.participation", own.participation, {}, CHOOSES_FROM)
    return Own(rule, own.participation_rate, own.participation)


def planned(participation: Participation, seed: int, clients: Clients) -> list[ClientInfo]:
    """Whom round 1 is to have, asked before anything has begun."""
    return participation(Step(seed=seed, purpose=PARTICIPATION), clients)


@dataclass(frozen=True)
class InGroups:
    """Chains of a round's participants, in an order drawn from the seed, by their lowest partition (FedSeq, 2201.10899)."""

    size: int
    seed: int

    def __call__(self, number: int, chosen: Clients) -> list[list[ClientInfo]]:
        if self.size == 1:
            return one_by_one(number, chosen)
        order = rng_for(self.seed, "groups of clients", number).permutation(len(chosen))
        starts = range(0, len(chosen), self.size)
        groups = [[chosen[i] for i in order[at : at + self.size]] for at in starts]
        return sorted(groups, key=lambda group: min(c.partition for c in group))


def _count(clients: Clients, rate: float) -> int:
    return max(1, int(len(clients) * rate))


@lru_cache(maxsize=4)
def _published_lists(seed: int, num_clients: int, count: int, rounds: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [draw.sample(range(num_clients), count) for _ in range(rounds)]
