"""Who takes part in a round.

Participation rate r (FedVLN, Algorithm 1): int(r N) of the N clients of a group, at least one, uniformly without replacement
inside a round and independently across rounds.
"""

import random
from collections.abc import Sequence
from functools import lru_cache

from fedsuite.federation import ClientInfo
from fedsuite.randomness import rng_for


def participants(
    clients: Sequence[ClientInfo], rate: float, seed: int, round: int, group: str = "seen"
) -> list[ClientInfo]:
    """The round's clients in partition order. `group` names the stream, so that seen and unseen houses draw apart."""
    count = max(1, int(len(clients) * rate))
    rng = rng_for(seed, f"participation of {group} clients", round)
    chosen = rng.choice(len(clients), size=count, replace=False)
    return [clients[i] for i in sorted(int(i) for i in chosen)]


@lru_cache(maxsize=4)
def _published_lists(seed: int, num_clients: int, count: int, rounds: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [draw.sample(range(num_clients), count) for _ in range(rounds)]


def published_participants(
    clients: Sequence[ClientInfo], rate: float, round: int, seed: int = 10
) -> list[ClientInfo]:
    """The lists of the official release, in its training order: all drawn up-front from Python's generator."""
    count = max(1, int(len(clients) * rate))
    lists = _published_lists(seed, len(clients), count, max(2000, round))
    return [clients[i] for i in lists[round - 1]]
