"""What a stage of FedVLN trains on, for how long, and what of it leaves a house.

  train         the agent, on the instructions of seen houses (Zhou & Wang 2022, Algorithm 1)
  speaker       the speaker, on the same instructions
  augment       the agent, on instructions and on sampled paths that the speaker describes
  pre-explore   the agents of unseen houses, on sampled paths of these houses (Algorithm 2)

Privacy levels of the paper's Table 6 follow from `exchange_of`: in pre-exploration a house hands over its whole agent
(share = agent), the language encoder (share = language-encoder) or nothing (method = local-only).
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from fedsuite.arrays import Share
from fedsuite.averaging.exchange import Exchange
from fedsuite.averaging.exchange import exchange_of as averaging_exchange
from fedsuite.averaging.local_methods import chosen_method
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.message_keys import MODULES

ENCODER = "encoder."
SHARES = {"agent": Share(), "language-encoder": Share((ENCODER,))}


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


def samples_paths(config: FedVLNConfig, unseen: bool) -> bool:
    """Whether a house, an unseen one or not, learns from paths that the speaker describes to it."""
    return config.stage == "augment" or learns_from_paths(config, unseen)


def learns_from_paths(config: FedVLNConfig, unseen: bool) -> bool:
    """Whether it learns from nothing else."""
    return config.stage == "pre-explore" and unseen


def exchange_of(config: FedVLNConfig, names: Collection[str] = ()) -> Exchange:
    """What a house exchanges with the server; in pre-exploration it keeps an agent of its own whatever it shares.

    names: of the model's arrays, if they are known; InputError where the settings do not fit them.
    """
    if config.federation.method == "centralised":
        return Exchange()
    exploring = config.stage == "pre-explore"
    if exploring and config.federation.method == "local-only":
        return Exchange(Share(()), "all")
    exchange = averaging_exchange(config.federation, names, SHARES)
    return replace(exchange, keeps="all") if exploring else exchange


def has_own(config: FedVLNConfig) -> bool:
    """Whether a house is scored with a model of its own: what it does not share, or what its local method keeps."""
    method = chosen_method("federation.local-method", config.federation.local_method)
    return exchange_of(config).personal or method.keeps


def modules_of(names: Mapping[str, object]) -> set[str]:
    """Modules of the agent that these arrays belong to."""
    return {name.partition(".")[0] for name in names} & set(MODULES)
