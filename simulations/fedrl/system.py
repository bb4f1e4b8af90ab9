"""FedRL wired to the app: the strategy of a run, the client of a node, and what is done around a run.

Partition 0 is the party with rewards (alpha, or the only learner of a baseline); partition 1 is beta, partition 2 gamma.
A real node may have, in its node-config, "party" (alpha, beta) and "data-dir" (where its data lies, in place of the run's).
Noise of its own needs a file of its own (fedsuite/roster/node.py).
"""

from fedsuite.fedrl.config import FedRLConfig
from simulations.systems import System, later

SYSTEM = System(
    name="fedrl",
    config_class=FedRLConfig,
    prepare=later("fedsuite.fedrl.open_world:prepare_world"),
    make_strategy=later("simulations.fedrl.server:make_strategy"),
    make_client=later("simulations.fedrl.client:make_client"),
    describe=later("fedsuite.fedrl.open_world:part_of"),
    accepts=later("fedsuite.fedrl.refusals:accepts"),
    validate=later("fedsuite.fedrl.checks:validate"),
    report=later("fedsuite.fedrl.report.run:write_results"),
    compare=later("fedsuite.fedrl.report.experiment:write_comparison"),
    metrics=later("fedsuite.fedrl.metrics:metrics_of"),
    answers=later("fedsuite.fedrl.report.answers:answers"),
    audit=later("simulations.fedrl.audit:attacks"),
    engine="inprocess",
    node_key="party",
    costs=later("simulations.fedrl.costs:costs_of"),
    leaves=("results.csv", "learning.png", "learning-*.png", "sweep.png", "sweep-*.png"),
)
