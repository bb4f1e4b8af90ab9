"""The baselines of Zhuo et al. (2019): a party without partners learns by DQN, or imitates an expert (FCN).

DQN is the rewarded party's own acting and learning with Q_f = Q. FCN has the same network, with softmax over the joint
actions and the cross-entropy of the expert's; the paper gives neither its loss nor its labels. A party that
has partners never learns here.
"""

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from fedsuite.fedrl.learning.rewarded_party import RewardedParty
from fedsuite.fedrl.learning.testing import TestPlan
from fedsuite.randomness import rng_for


def train_alone(party: RewardedParty, first: int, exchanges: int, most_episodes: int) -> int:
    """DQN: act and learn for some exchanges, or until `most_episodes` have ended (0: no such end); how many."""
    _check_alone(party)
    begun = party.tally["episodes"]
    for exchange in range(first, first + exchanges):
        _, _, ids = party.act(exchange, [], {})
        if len(ids):
            party.learn_first(exchange, ids, [], [])
        if most_episodes and party.tally["episodes"] - begun >= most_episodes:
            return exchange - first + 1
    return exchanges


def imitate(party: RewardedParty, number: int, updates: int) -> None:
    """FCN: `updates` minibatches of demonstrations, drawn with replacement; number: of the round."""
    _check_alone(party)
    config = party.config
    records, actions = party.world.demonstrations(party.role)
    rng = rng_for(config.seed, "demonstrations", number, party.partition)
    for _ in range(updates):
        rows = rng.integers(len(records), size=config.learning.batch_size)
        logits = party.q_values(party.network, records[rows])
        labels = torch.from_numpy(actions[rows].astype(np.int64)).to(party.device)
        loss = cross_entropy(logits, labels)
        party.optimizer.zero_grad()
        loss.backward()
        party.optimizer.step()
        party.count(updates=1, loss=float(loss.detach()))


def play_alone(party: RewardedParty, plan: TestPlan) -> None:
    _check_alone(party)
    party.begin_test(plan)
    while party.test is not None and party.test.active.any():
        party.choose([], {})


def _check_alone(party: RewardedParty) -> None:
    if party.num_parties > 1:
        raise ValueError(
            f"{party.role}: asked to train alone, but this run has {party.num_parties} parties"
        )
