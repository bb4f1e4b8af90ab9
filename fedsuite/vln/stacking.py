"""Whether the houses of a message train side by side, as one stacked agent (key `training.stacked`)."""

from collections.abc import Iterator

from fedsuite.averaging.local_methods import chosen_method
from fedsuite.settings.values import shown
from fedsuite.vln.config import FedVLNConfig

DECODERS = ("envdrop", "prompted")  # whose products know weights of several agents


def stacks(config: FedVLNConfig, device: str) -> bool:
    """device: cpu or cuda."""
    asked = config.training.stacked
    if config.stage == "speaker" or config.federation.houses_per_message < 2:
        return False
    return asked == "yes" or (asked == "auto" and device != "cpu" and not [*_unable(config)])


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
