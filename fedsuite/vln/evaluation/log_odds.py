"""How sure an agent is of the annotated way: what attacks on membership score a record by.

Of an instruction and its path, teacher-forced: the mean over the T decisions of log p_t - log(1 - p_t), p_t the probability
of the teacher's action a_t (Carlini et al. 2022, 2112.03570, section V-B, who have one decision per record).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import Sample, make_episodes
from fedsuite.vln.environment import STOP, World
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.training.rollout import walk

LARGEST = (
    50.0  # of the log-odds of one decision: where there is nothing else to do they are infinite
)


@torch.no_grad()
def log_odds(
    agent: Agent, world: World, samples: Sequence[Sample], config: FedVLNConfig
) -> np.ndarray:
    """One number per sample [n], float64; NaN where no decision has a teacher. The agent is used in evaluation mode."""
    agent.eval()
    found = np.full(len(samples), np.nan)
    by_length = sorted(range(len(samples)), key=lambda i: (len(samples[i].tokens), i))
    for begin in range(0, len(samples), config.evaluation.batch_size):
        index = by_length[begin : begin + config.evaluation.batch_size]
        found[index] = _of_batch(
            agent, world, [samples[i] for i in index], config.agent.max_actions
        )
    return found


def _of_batch(agent: Agent, world: World, samples: Sequence[Sample], most: int) -> np.ndarray:
    episodes = make_episodes(samples, world)
    limit = torch.full((len(samples),), most, device=world.device)
    total = torch.zeros(len(samples), dtype=torch.float64, device=world.device)
    count = torch.zeros_like(total)
    for step in walk(agent, world, episodes, _teacher, limit).steps:
        # Behind a one-way edge there is no way to the goal.
        wanted = step.active & (step.teacher >= STOP)
        taken = step.teacher.clamp_min(0).unsqueeze(1)
        own = torch.log_softmax(step.logits.double(), 1)
        # log(1 - p) from the others' logits: 1 - p itself is 0 where p rounds to 1.
        rest = own.scatter(1, taken, -torch.inf).logsumexp(1)
        odds = own.gather(1, taken).squeeze(1) - rest
        total[step.row[wanted]] += odds[wanted].clamp(-LARGEST, LARGEST)
        count[step.row[wanted]] += 1
    return (total / count).cpu().numpy()


def _teacher(logits: Tensor, teacher: Tensor, row: Tensor) -> Tensor:
    return teacher.clamp_min(STOP)
