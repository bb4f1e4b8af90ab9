"""Attacks on FedVLN runs: what a house's update tells of its words, the model of its records, a round of single ones."""

from fedsuite.errors import InputError
from fedsuite.vln.config import FedVLNConfig
from simulations.audits.audited import Attack
from simulations.fedvln.canaries import canaries
from simulations.fedvln.membership import membership
from simulations.fedvln.words import words


def attacks(config: FedVLNConfig) -> dict[str, Attack]:
    """By name, in the order in which they are made."""
    if config.stage != "train":
        raise InputError(
            f"stage: {config.stage} has no attacks, which are on agents that learn from annotated instructions; give a run "
            "of the stage train"
        )
    return {"words": words, "membership": membership, "canaries": canaries}
