"""What a house's own file (fedsuite.roster.node) refuses of a run: sharing more than it allows."""

from fedsuite.errors import InputError
from fedsuite.roster.node import SHARED, NodeSettings
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.stages import ENCODER, exchange_of

IN_SIMULATION = (
    "federation.houses-per-message: for simulations only, where a process may open several houses; a real node has one; "
    "set it to 0"
)


def shared_level(config: FedVLNConfig) -> str:
    """One of SHARED: what of a house leaves its client in this run, by the paper's Table 6.

    An optimizer's state that is handed on, and control variates, are of the whole agent. A speaker counts as an agent.
    """
    own = config.federation
    if own.method == "centralised":
        return "data"
    if own.control_variates or own.client_optimizer == "shared":
        return "agent"
    share = exchange_of(config).share
    if not share.prefixes:
        return "nothing"
    return "language-encoder" if all(p.startswith(ENCODER) for p in share.prefixes) else "agent"


def accepts(config: FedVLNConfig, node: NodeSettings) -> None:
    """InputError where more would leave this house than its own file allows."""
    if config.federation.houses_per_message:
        raise InputError(IN_SIMULATION)
    level = shared_level(config)
    if SHARED.index(level) < SHARED.index(node.most_shared):
        key = "method" if level == "data" or node.most_shared == "nothing" else "share"
        raise InputError(
            f"federation.{key}: in stage {config.stage} the run wants of each house: {level}; this node shares "
            f"{node.most_shared} at most (most-shared)"
        )
