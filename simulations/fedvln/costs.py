"""What a FedVLN run costs, from its settings and who takes part: messages one after another on real nodes, and computing."""

from fedsuite.federation import ClientInfo
from fedsuite.roster.members import Member, Roster
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.stages import describes_paths, exchange_of, has_own, visit_steps
from simulations.app.message_costs import StepCosts
from simulations.fedvln.server import participation_of
from strategies.participation import planned

SEEN, UNSEEN = "seen", "unseen"  # roles of the roster
R2R_HOUSES = {SEEN: 61, UNSEEN: 11}
# Of an optimizer step on one core: what no network is too small for, and what a published agent (hidden size 512) adds.
STEP_S, PUBLISHED_STEP_S, PUBLISHED_HIDDEN = 0.09, 1.4, 512
CURE = "a larger evaluate-every, or fewer rounds of more local-epochs"
CURE_IN_TURN = 'federation.aggregation = "parallel", where the houses of a round train side by side'


def costs_of(config: FedVLNConfig, roster: Roster | None = None) -> StepCosts:
    """roster: None = as many houses as are generated, or as R2R has."""
    members = roster.members if roster else _assumed(config)
    clients = [
        ClientInfo(p, m.name, m.examples, {"unseen": m.role == UNSEEN})
        for p, m in enumerate(members)
    ]
    # In pre-exploration unseen houses train on paths that they sample.
    exploring = config.stage == "pre-explore"
    able = [c for c in clients if c.num_examples or (exploring and c.details["unseen"])]
    federation, personal = config.federation, exchange_of(config).personal
    if federation.method == "local-only" and not personal:
        # Every house's agent walks in all unseen houses.
        return StepCosts(lambda _: 1, first=0, evaluate=0, finish=1 + len(able), cure=CURE)
    chosen = planned(participation_of(config), config.seed, able)
    handed_on = federation.client_optimizer == "shared"
    in_turn = federation.merging.aggregation == "sequential" or handed_on
    longest = len(chosen) if in_turn else min(federation.merging.group_size, len(chosen))
    writes = config.evaluation.submission or config.stage == "speaker"
    return StepCosts(
        lambda _: 4 if federation.secure_sum else longest,
        start=int(personal or describes_paths(config)),
        finish=int(has_own(config) or writes),
        cure=CURE_IN_TURN if longest > 1 else CURE,
    )


def seconds_of(config: FedVLNConfig, roster: Roster) -> float:
    """Computing of a whole run on one core, to a factor of a few: optimizer steps alone, which are most of it."""
    steps = sum(visit_steps(config, m.examples) for m in roster.members if m.examples)
    rate = (
        1.0 if config.federation.method == "centralised" else config.federation.participation_rate
    )
    each = STEP_S + PUBLISHED_STEP_S * (config.agent.hidden_size / PUBLISHED_HIDDEN) ** 2
    return config.num_rounds * rate * steps * each


def _assumed(config: FedVLNConfig) -> list[Member]:
    own = {SEEN: config.data.generated_seen_houses, UNSEEN: config.data.generated_unseen_houses}
    counts = R2R_HOUSES if config.data.dir else own
    if config.federation.method == "centralised":
        counts = {role: 1 for role in counts}
    if config.stage == "pre-explore" and not config.federation.seen_participation_rate:
        counts = {UNSEEN: counts[UNSEEN]}
    return [
        Member(f"{role}-{n}", role, int(role == SEEN))
        for role, count in counts.items()
        for n in range(count)
    ]
