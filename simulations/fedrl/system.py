"""FedRL wired to the app: the strategy of a run, the client of a node, and what is done around a run.

Partition 0 is the party with rewards (alpha, or the only learner of a baseline); partition 1 is beta, partition 2 gamma.
A real node may have, in its node-config, "party" (alpha, beta), "data-dir" (where its data lies, in place of the run's) and
"noise-seed" (of its own noise, so that no other party can take the noise off again).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedsuite.federation import RoundStrategy
from fedsuite.fedrl.checks import validate
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.progress import Progress
from fedsuite.roster import Roster
from simulations.systems import Node, System
from strategies.two_party import TwoParty

if TYPE_CHECKING:
    from flwr.client import NumPyClient


def prepare(config: FedRLConfig, progress: Progress) -> Roster:
    """Generate maps or texts, train word vectors, or read and check the files."""
    from fedsuite.fedrl.open_world import prepare_world

    return prepare_world(config, progress)


def make_strategy(config: FedRLConfig, roster: Roster) -> RoundStrategy:
    """The server's half; it opens no data."""
    return TwoParty(config, str(roster.facts["score"]))


def make_client(config: FedRLConfig, node: Node) -> "NumPyClient":
    """A client's half, loaded where it is asked for: a server has no use for data and training."""
    from simulations.fedrl.client import make_client

    return make_client(config, node)


def report(config: FedRLConfig, run_dir: Path) -> None:
    """Tables and curves of the finished run, from its folder."""
    from fedsuite.fedrl.report.run import write_results

    write_results(config, run_dir)


def compare(folder: Path, runs: Mapping[str, FedRLConfig]) -> None:
    """The table of all methods."""
    from fedsuite.fedrl.report.experiment import write_comparison

    write_comparison(folder, runs)


SYSTEM = System(
    name="fedrl",
    config_class=FedRLConfig,
    prepare=prepare,
    make_strategy=make_strategy,
    make_client=make_client,
    validate=validate,
    report=report,
    compare=compare,
    engine="inprocess",
    node_key="party",
)
