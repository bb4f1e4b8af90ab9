"""Attacks on FedVLN runs: words, views and members from a house's update, members from the model, records from a round."""

from fedsuite.errors import InputError
from fedsuite.vln.config import FedVLNConfig
from simulations.audits.audited import Attack
from simulations.fedvln.attended import views
from simulations.fedvln.canaries import canaries
from simulations.fedvln.membership import membership
from simulations.fedvln.recognition import recognition
from simulations.fedvln.words import words


def attacks(config: FedVLNConfig) -> dict[str, Attack]:
    """By name, in the order in which they are made."""
    if config.stage != "train":
        raise InputError(
            f"stage: {config.stage} has no attacks, which are on agents that learn from annotated instructions; give a run "
            "of the stage train"
        )
    return {
        "words": words,
        "views": views,
        "recognition": recognition,
        "membership": membership,
        "canaries": canaries,
    }
