"""The server's half of a CDL run: its strategy.

Silos stand at the first N nodes of the network, in its order. Partition p holds silos p S .. (p + 1) S - 1 with
S = silos-per-client; a pooled run has one partition with all data.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedsuite.arrays import module_arrays
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.plan import clients_of, initial_network, mixing_of, plan_of
from fedsuite.federation import Reply, RoundStrategy, ServerState
from fedsuite.roster.members import Roster
from strategies.fedavg import server_values
from strategies.neighbour_averaging import Costs, NeighbourAveraging
from strategies.sabotage import with_saboteurs
from strategies.star_server import StarServer


def make_strategy(config: CDLConfig, roster: Roster) -> RoundStrategy:
    """The server's half; it opens no data."""
    if config.sabotage.partitions:
        config.sabotage.check_among(clients_of(config, roster))
    plan, network = plan_of(config, roster), initial_network(config)
    names, method = (
        names_of(network, config.network.batch_norm),
        LOCAL_OPTIMIZERS[config.training.optimizer],
    )
    initial = {k: v for k, v in module_arrays(network).items() if k in names.mixed}
    trained, own = tuple(n for n in names.parameters if n in initial), config.federation
    beside = {f"{kind}.{n}": np.zeros_like(initial[n]) for kind in method.sent for n in trained}
    server = StarServer(
        trained, own.server_steps, own.control_variates, **server_values(own),
        seed=config.seed, remembers=":" in own.server_optimizer,
    )  # fmt: skip
    costs = Costs(plan.cycle_time_ms, plan.links_per_mixing, plan.message_bits)
    schedule = mixing_of(config, roster)
    strategy = NeighbourAveraging(config, initial, plan.silos_of, schedule, costs, beside, server)
    hostile = config.sabotage
    return with_saboteurs(strategy, hostile, config.seed, _with_own_rows, (CONTROL,))


def _with_own_rows(state: ServerState, replies: Sequence[Reply]) -> ServerState:
    """A hostile silo, which is alone in its client, mixes nothing into what it has trained."""
    arrays = {k: v.copy() for k, v in state.arrays.items()}
    for reply in replies:
        for name, rows in arrays.items():
            rows[reply.partition] = reply.arrays[name][0]
    return replace(state, arrays=arrays)
