"""How far agents of the houses' own go: at home, in houses of others, and where they are worst.

Scores at home alone hide what is lost elsewhere. For that an agent walks in other houses, so its model leaves its house:
this is for simulated houses, and nothing of it is part of a run.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsuite.randomness import rng_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses
from fedsuite.vln.evaluation.houses import score_houses
from fedsuite.vln.message_keys import VALIDATION
from fedsuite.vln.model.agent import Agent

FEWEST = 5  # instructions, with which a house's score counts among the worst
SEEN = VALIDATION[0]


def other_houses(seed: int, houses: int, own: int, count: int = 3) -> list[int]:
    """Houses in which that of number `own` of so many tries its agent, ascending; all others where they are fewer."""
    others = [i for i in range(houses) if i != own]
    if len(others) <= count:
        return others
    drawn = rng_for(seed, "houses of others", 0, own).choice(others, count, replace=False)
    return sorted(int(i) for i in drawn)


def worst_tenth(scores: Sequence[float]) -> float:
    """The mean of the ceil(N / 10) lowest of N >= 1 houses' scores."""
    lowest = sorted(scores)[: math.ceil(len(scores) / 10)]
    return math.fsum(lowest) / len(lowest)


def success_at(agent: Agent, houses: Sequence[House], config: FedVLNConfig) -> list[float]:
    """The success rate of one agent in each of these houses, on instructions whose paths nobody trained on."""
    found = []
    for house in houses:
        world = join_houses([house], next(agent.parameters()).device)
        _, metrics = score_houses(agent.eval(), [house], world, Path(), config, write=False)
        found.append(float(metrics[f"{SEEN}.sr"]))
    return found


def columns(
    own: Mapping[int, float], counts: Mapping[int, int], elsewhere: Mapping[int, float]
) -> dict[str, float]:
    """By house the success rate at home, its instructions, and the mean of the houses of others -> one line of a table.

    own, others: means over houses alike; own-instructions: over instructions; worst-tenth: of houses with FEWEST
    instructions or more; left-out: the number of the rest.
    """
    many = [k for k in own if counts[k] >= FEWEST]
    total = sum(counts[k] for k in own)
    return {
        "own": math.fsum(own.values()) / len(own),
        "own-instructions": math.fsum(own[k] * counts[k] for k in own) / total,
        "others": math.fsum(elsewhere.values()) / len(elsewhere),
        "worst-tenth": worst_tenth([own[k] for k in many]) if many else math.nan,
        "houses": len(own),
        "left-out": len(own) - len(many),
    }
