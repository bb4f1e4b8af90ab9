"""The server's half of a CDL run: its strategy.

Silos stand at the first N nodes of the network, in its order. Partition p holds silos p S .. (p + 1) S - 1 with
S = silos-per-client; a pooled run has one partition with all data.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedsuite.arrays import Arrays, Form, forms_of, module_arrays
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.exchange import Exchange, exchange_of_rows
from fedsuite.averaging.privacy_settings import CLIENT
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.plan import Plan, clients_of, initial_network, mixing_of, plan_of
from fedsuite.federation import ClientInfo, Reply, RoundStrategy, ServerState
from fedsuite.privacy.example_level import sampling_rate
from fedsuite.roster.members import Roster
from strategies.coded import with_codec
from strategies.fedavg import server_values
from strategies.neighbour_averaging import Costs, NeighbourAveraging
from strategies.private import check_first, planned_limit, private_values
from strategies.sabotage import with_saboteurs
from strategies.sealed_mixing import SealedMixing
from strategies.secure_sums import check_planned, with_secure_sum
from strategies.star_server import StarServer


def make_strategy(config: CDLConfig, roster: Roster) -> RoundStrategy:
    """The server's half; it opens no data."""
    if config.sabotage.partitions:
        config.sabotage.check_among(clients_of(config, roster))
    plan, network = plan_of(config, roster), initial_network(config)
    names, method = (
        names_of(network, config),
        LOCAL_OPTIMIZERS[config.training.optimizer],
    )
    initial = {k: v for k, v in module_arrays(network).items() if k in names.mixed}
    trained, own = tuple(n for n in names.parameters if n in initial), config.federation
    beside = {f"{kind}.{n}": np.zeros_like(initial[n]) for kind in method.sent for n in trained}
    steps = own.server_steps or config.privacy.unit == CLIENT
    server = StarServer(
        trained, steps, own.control_variates, **server_values(own),
        seed=config.seed, remembers=":" in own.server_optimizer, **_privacy_values(config, roster),
    )  # fmt: skip
    check_first(server.limit, bool(config.resume))
    exchange = exchange_of_rows(own)
    bits = _message_bits(config, plan, exchange, initial)
    costs = Costs(plan.cycle_time_ms, plan.links_per_mixing, bits)
    schedule = mixing_of(config, roster)
    if own.sealed:
        return SealedMixing(config, initial, plan.silos_of, schedule, costs)
    strategy = NeighbourAveraging(config, initial, plan.silos_of, schedule, costs, beside, server)
    hostile = config.sabotage
    check_planned(config, len(plan.silos_of))
    made = with_saboteurs(strategy, hostile, config.seed, _with_own_rows, (CONTROL,))
    made = with_secure_sum(made, config, lambda: initial, ("consensus-distance-before-mixing",))
    return with_codec(made, exchange)


def _message_bits(config: CDLConfig, plan: Plan, exchange: Exchange, initial: Arrays) -> float:
    """Of a message, on average over both ways: a codec makes the model smaller on its way up, which is half of the links."""
    plain: dict[str, Form] = {k: ((1, *s), t) for k, (s, t) in forms_of(initial).items()}
    full, coded = (
        sum(8 * np.dtype(t).itemsize * float(np.prod(s)) for s, t in forms.values())
        for forms in (plain, exchange.wire(plain))
    )
    model = config.wall_clock.model_bits or full
    return plan.message_bits - model * (1 - coded / full) / 2


def _privacy_values(config: CDLConfig, roster: Roster) -> dict[str, Any]:
    """What the section `privacy` says of a StarServer, by the names of its fields; a round is all silos."""
    silos = [
        ClientInfo(number, member.name, count)
        for member in roster.members
        for number, count in zip(
            member.listed("silos", int), member.listed("frames", int), strict=True
        )
    ]
    steps = config.federation.mixings_per_round * config.training.local_updates
    values = private_values(config, len(silos))
    return values | planned_limit(
        config.privacy,
        lambda number: silos,
        lambda silo: steps,
        lambda silo: sampling_rate(config.training.batch_size, silo.num_examples),
    )


def _with_own_rows(state: ServerState, replies: Sequence[Reply]) -> ServerState:
    """A hostile silo, which is alone in its client, mixes nothing into what it has trained."""
    arrays = {k: v.copy() for k, v in state.arrays.items()}
    for reply in replies:
        for name, rows in arrays.items():
            rows[reply.partition] = reply.arrays[name][0]
    return replace(state, arrays=arrays)
