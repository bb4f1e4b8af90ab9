"""Several houses in one message (key `federation.houses-per-message`): whether its reply is one sum, and whether its houses
train side by side, as one stacked agent (key `training.stacked`)."""

from collections.abc import Iterator

from fedsuite.averaging.local_methods import chosen_method
from fedsuite.settings.values import shown
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.stages import exchange_of

DECODERS = ("envdrop", "prompted")  # whose products know weights of several agents


def brings_sums(config: FedVLNConfig) -> bool:
    """Whether one sum of weighted changes is all that the server needs of the houses of a message.

    Else, where something looks at what single houses sent, the message brings a reply of each.
    """
    own = config.federation
    plain = {
        "method": "federated", "aggregation": "parallel", "group_size": 1, "merge": "mean", "max_share": 1.0,
        "update_bound": 0.0, "control_variates": False, "codec": "none", "secure_sum": False,
    }  # fmt: skip
    return (
        own.houses_per_message > 0
        and all(getattr(own, name) == value for name, value in plain.items())
        and own.client_optimizer != "shared"
        and own.server_optimizer != "fedexp"
        and config.privacy.unit == "none"
        and not config.sabotage.clients
        and not exchange_of(config).personal
    )


def stacks(config: FedVLNConfig, device: str) -> bool:
    """device: cpu or cuda."""
    asked = config.training.stacked
    if config.stage == "speaker" or config.federation.houses_per_message < 2:
        return False
    return asked == "yes" or (asked == "auto" and device != "cpu" and not [*_unable(config)])


def replays(config: FedVLNConfig, device: str) -> bool:
    """Whether what stacked houses do is recorded and replayed (fedsuite/vln/model/recording.py)."""
    asked = config.training.cuda_graphs == "auto" and device != "cpu"
    return asked and stacks(config, device)


def stacking_complaints(config: FedVLNConfig) -> Iterator[str]:
    """What cannot be stacked, where it is asked for."""
    if config.training.stacked == "yes":
        yield from _unable(config)


def _unable(c: FedVLNConfig) -> Iterator[str]:
    key, cure = "training.stacked: yes", "set one of the two anew, or training.stacked=auto"
    if c.agent.decoder not in DECODERS:
        yield (
            f"{key} needs a decoder whose products take the weights of several agents ({' or '.join(DECODERS)}), not "
            f"agent.decoder = {shown(c.agent.decoder)}; {cure}"
        )
    local = c.federation.local_method
    if chosen_method("federation.local-method", local).by_steps:
        yield (
            f"{key} trains houses step by step together, but federation.local-method = {shown(local)} takes every step "
            f"of a house itself; {cure}"
        )
