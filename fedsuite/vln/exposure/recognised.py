"""How much a visit is like the gradients of single instructions (fedsuite/privacy/attacks/recognition.py).

The gradient is that of imitation along the instruction's path, without dropout: what somebody computes who has the agent
that the house began with, the house's panoramas, and the instruction with its path.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fedsuite.privacy.attacks.recognition import Steps
from fedsuite.randomness import torch_generator_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.environment import Episodes, World
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.training.objective import compute_losses


def scores_of(
    agent: Agent,
    world: World,
    instructions: Sequence[Episodes],
    config: FedVLNConfig,
    seen: Mapping[str, np.ndarray],
) -> np.ndarray:
    """One number per instruction [n]; instructions: an episode each; seen: what a visit tells of gradients by parameter, of
    which signs count; parameters that it does not have are left out."""
    told = [(p, seen[name]) for name, p in agent.named_parameters() if name in seen]
    if not told:
        raise ValueError("expected parameters of the agent in what a visit tells, got none")
    weights = [p for p, _ in told]
    signs = np.concatenate([np.sign(of).ravel() for _, of in told])
    steps = Steps(torch.from_numpy(signs).to(world.device)[None])
    draws = torch_generator_for(config.seed, "no dropout", 0, 0, str(world.device))
    found = []
    for one in instructions:
        loss = compute_losses(agent, world, one, None, 1.0, config, Dropout(0.0, 0.0, draws), draws)
        gradient = torch.autograd.grad(loss.total, weights, allow_unused=True)
        parts = [
            torch.zeros_like(p) if g is None else g for p, g in zip(weights, gradient, strict=True)
        ]
        found.append(float(steps.scores(parts)[0]))
    return np.array(found)
