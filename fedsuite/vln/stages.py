"""What a stage of FedVLN trains on, for how long, and what of it leaves a house.

  train         the agent, on the instructions of seen houses (Zhou & Wang 2022, Algorithm 1)
  speaker       the speaker, on the same instructions
  augment       the agent, on instructions and on sampled paths that the speaker describes
  pre-explore   the agents of unseen houses, on sampled paths of these houses (Algorithm 2)

Privacy levels of the paper's Table 6 follow from `share_of`: in pre-exploration a house hands over its whole agent
(share = agent), the language encoder (share = language-encoder) or nothing (method = local-only).
"""

import math
from collections.abc import Mapping

from fedsuite.arrays import Share
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.message_keys import MODULES

ENCODER = "encoder."


def local_steps(num_samples: int, epochs: int, batch_size: int) -> int:
    """Optimizer steps of `epochs` local epochs."""
    return math.ceil(epochs * num_samples / batch_size)


def visit_steps(config: FedVLNConfig, num_samples: int) -> int:
    """Steps of a house that takes part, ceil(tau n_k / B); half as many in augmented training, where one counts twice."""
    steps = local_steps(num_samples, config.federation.local_epochs, config.objective.batch_size)
    return math.ceil(steps / 2) if config.stage == "augment" else steps


def describes_paths(config: FedVLNConfig) -> bool:
    """Whether houses need the speaker."""
    return config.stage in ("augment", "pre-explore")


def is_personal(config: FedVLNConfig) -> bool:
    """Whether every house keeps an agent of its own from round to round and is scored with it."""
    return config.stage == "pre-explore" and config.federation.method != "centralised"


def share_of(config: FedVLNConfig) -> Share:
    """Which arrays of a house's agent (or speaker) it exchanges with the server."""
    if is_personal(config) and config.federation.method == "local-only":
        return Share(())
    if is_personal(config) and config.federation.share == "language-encoder":
        return Share((ENCODER,))
    return Share()


def modules_of(names: Mapping[str, object]) -> set[str]:
    """Modules of the agent that these arrays belong to."""
    return {name.partition(".")[0] for name in names} & set(MODULES)
