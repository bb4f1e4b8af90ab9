"""What a way of pre-exploring unseen houses lets out of them, as the privacy column of FedVLN's Table 6.

Source: Zhou & Wang 2022, Table 6, where the levels are set by hand. Here they follow from what a run has measured:
how many of an agent's modules (encoder, decoder, critic) reached the server in a round, and how many houses' data
one client held.
"""

from collections.abc import Mapping

from fedsuite.errors import InputError
from fedsuite.vln.model.agent import MODULES

LEVELS: Mapping[int, str] = {
    0: "data of several houses are pooled",
    1: "whole agents leave a house",
    2: "a part of the agent leaves a house",
    3: "nothing leaves a house",
}


def privacy_level(modules_sent: float, houses_per_client: float) -> int:
    """A key of LEVELS, higher where less is disclosed. modules_sent: most in any round, 0 to 3."""
    if not 0 <= modules_sent <= len(MODULES) or not houses_per_client >= 1:
        raise InputError(
            f"privacy level: expected 0 to {len(MODULES)} modules sent and at least 1 house per client, got "
            f"{modules_sent} and {houses_per_client}; run the experiment again"
        )
    if houses_per_client > 1:
        return 0
    if modules_sent == 0:
        return 3
    return 1 if modules_sent == len(MODULES) else 2
