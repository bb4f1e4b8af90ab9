"""How many messages one after another a CDL run takes on real nodes, from its settings and the number of silos."""

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.topology import load_network
from fedsuite.roster.members import Roster
from simulations.app.message_costs import StepCosts

CURE = "a larger evaluate-every, or fewer rounds of more training.local-updates"


def costs_of(config: CDLConfig, roster: Roster | None = None) -> StepCosts:
    """A round is one message to every silo, which carries its mixings. roster: None = a silo at each node of the network."""
    if config.federation.pooled:
        silos = 1
    elif roster is not None:
        silos = roster.fact("silos", int)
    else:
        own = config.federation
        name = own.underlay_file or (own.underlay if own.underlay != "auto" else "gaia")
        silos = config.data.num_silos or load_network(name).num_silos
    # In the end every silo's backbone may drive in all others.
    finish = silos if config.evaluation.cross_evaluation else 0
    return StepCosts(lambda _: 1, finish=finish, cure=CURE)
