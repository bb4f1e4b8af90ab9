"""What a CDL run costs, from its settings and its silos: messages one after another on real nodes, and computing."""

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.topology import load_network
from fedsuite.roster.members import Roster
from simulations.app.message_costs import StepCosts

STEP_S = 0.022  # of an optimizer step on one core, of 16 frames of 64 x 64 pixels
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
    training = 4 if config.federation.secure_sum else 1  # with keys, shares and unmasking
    if config.federation.sealed:  # with everybody's keys, and mixing
        return StepCosts(lambda _: 2, start=2, cure=CURE)
    return StepCosts(lambda _: training, finish=finish, cure=CURE)


def seconds_of(config: CDLConfig, roster: Roster) -> float:
    """Computing of a whole run on one core, to a factor of a few: optimizer steps alone, which are most of it."""
    size = config.training.batch_size / 16 * (config.data.image_size / 64) ** 2
    steps = config.num_mixings * config.training.local_updates * roster.fact("silos", int)
    return steps * size * STEP_S
