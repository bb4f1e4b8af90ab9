"""CDL wired to the app: the strategy of a run, the client of a node, and what is done around a run.

Silos stand at the first N nodes of the network, in its order. Partition p holds silos p S .. (p + 1) S - 1 with
S = silos-per-client; a pooled run has one partition with all data.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedsuite.arrays import module_arrays
from fedsuite.driving.checks import validate
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network, mixing_of, plan_of
from fedsuite.federation import RoundStrategy
from fedsuite.progress import Progress
from fedsuite.roster import Roster
from simulations.systems import Node, System
from strategies.neighbour_averaging import Costs, NeighbourAveraging

if TYPE_CHECKING:
    from flwr.client import NumPyClient


def prepare(config: CDLConfig, progress: Progress) -> Roster:
    """Generate or convert the silos."""
    from fedsuite.driving.data.sources import make_roster

    return make_roster(config, progress)


def make_strategy(config: CDLConfig, roster: Roster) -> RoundStrategy:
    """The server's half; it opens no data."""
    plan, network = plan_of(config, roster), initial_network(config)
    mixed = names_of(network, config.network.batch_norm).mixed
    initial = {k: v for k, v in module_arrays(network).items() if k in mixed}
    costs = Costs(plan.cycle_time_ms, plan.links_per_mixing, plan.message_bits)
    return NeighbourAveraging(config, initial, plan.silos_of, mixing_of(config, roster), costs)


def make_client(config: CDLConfig, node: Node) -> "NumPyClient":
    """A client's half, loaded where it is asked for: a server has no use for data and training."""
    from simulations.cdl.client import make_client

    return make_client(config, node)


def report(config: CDLConfig, run_dir: Path) -> None:
    """Tables and curves of the finished run, from its folder."""
    from fedsuite.driving.report.run import write_results

    write_results(config, run_dir)


def draw(config: CDLConfig, run_dir: Path) -> None:
    """Baselines and pictures that need the data."""
    from fedsuite.driving.report.run import draw_data

    draw_data(config, run_dir)


def compare(folder: Path, runs: Mapping[str, CDLConfig]) -> None:
    """Tables and plots of several runs beside each other."""
    from fedsuite.driving.report.experiment import write_comparison

    write_comparison(folder, runs)


SYSTEM = System(
    name="cdl",
    config_class=CDLConfig,
    prepare=prepare,
    make_strategy=make_strategy,
    make_client=make_client,
    validate=validate,
    report=report,
    draw=draw,
    compare=compare,
    node_key="silo",
)
