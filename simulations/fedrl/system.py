"""FedRL wired to the app: the strategy of a run, the client of a node, and what is done around a run.

Partition 0 is the party with rewards (alpha, or the only learner of a baseline); partition 1 is beta, partition 2 gamma.
A real node may have, in its node-config, "party" (alpha, beta) and "data-dir" (where its data lies, in place of the run's).
Noise of its own needs a file of its own (fedsuite/roster/node.py).
"""

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.ineffective import UNREAD
from simulations.systems import Later, System

SYSTEM = System(
    name="fedrl",
    config_class=FedRLConfig,
    prepare=Later("fedsuite.fedrl.open_world:prepare_world"),
    make_strategy=Later("simulations.fedrl.server:make_strategy"),
    make_client=Later("simulations.fedrl.client:make_client"),
    describe=Later("fedsuite.fedrl.open_world:part_of"),
    accepts=Later("fedsuite.fedrl.refusals:accepts"),
    validate=Later("fedsuite.fedrl.checks:validate"),
    report=Later("fedsuite.fedrl.report.run:write_results"),
    compare=Later("fedsuite.fedrl.report.experiment:write_comparison"),
    metrics=Later("fedsuite.fedrl.metrics:metrics_of"),
    answers=Later("fedsuite.fedrl.report.answers:answers"),
    unread=UNREAD,
    audit=Later("simulations.fedrl.audit:attacks"),
    engine="inprocess",
    node_key="party",
    costs=Later("simulations.fedrl.costs:costs_of"),
    leaves=("results.csv", "learning.png", "learning-*.png", "sweep.png", "sweep-*.png"),
)
