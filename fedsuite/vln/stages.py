"""What a stage of FedVLN trains on, for how long, and what of it leaves a house.

  train         the agent, on the instructions of seen houses (Zhou & Wang 2022, Algorithm 1)
  speaker       the speaker, on the same instructions
  augment       the agent, on instructions and on sampled paths that the speaker describes
  pre-explore   the agents of unseen houses, on sampled paths of these houses (Algorithm 2)

Privacy levels of the paper's Table 6 follow from `leaves_house`: in pre-exploration a house hands over its whole agent
(share = agent), the language encoder (share = language-encoder) or nothing (method = local-only).
"""

import math
from collections.abc import Mapping

import numpy as np

from fedsuite.arrays import Arrays
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.learner import local_steps
from fedsuite.vln.wire import MODULES

ENCODER = "encoder."


def visit_steps(config: FedVLNConfig, num_samples: int) -> int:
    """Optimizer steps of a house that takes part: ceil(tau n_k / B).

    In augmented training a step has two mini-batches of each kind and counts twice, as in the official release.
    """
    steps = local_steps(num_samples, config.local_epochs, config.batch_size)
    return math.ceil(steps / 2) if config.stage == "augment" else steps


def describes_paths(config: FedVLNConfig) -> bool:
    """Whether houses need the speaker."""
    return config.stage in ("augment", "pre-explore")


def is_personal(config: FedVLNConfig) -> bool:
    """Whether every house keeps an agent of its own from round to round and is scored with it."""
    return config.stage == "pre-explore" and config.method != "centralised"


def leaves_house(config: FedVLNConfig, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The arrays of a house's agent (or speaker) that it exchanges with the server."""
    if is_personal(config) and config.method == "local-only":
        return {}
    if is_personal(config) and config.share == "language-encoder":
        return {k: v for k, v in arrays.items() if k.startswith(ENCODER)}
    return dict(arrays)


def modules_of(names: Mapping[str, object]) -> set[str]:
    """Modules of the agent that these arrays belong to."""
    return {name.partition(".")[0] for name in names} & set(MODULES)
