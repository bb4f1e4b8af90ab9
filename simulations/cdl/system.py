"""CDL wired to the app: the strategy of a run, the client of a node, and what is done around a run."""

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.ineffective import UNREAD
from simulations.systems import System, later

SYSTEM = System(
    name="cdl",
    config_class=CDLConfig,
    prepare=later("fedsuite.driving.data.sources:make_roster"),
    make_strategy=later("simulations.cdl.server:make_strategy"),
    make_client=later("simulations.cdl.client:make_client"),
    describe=later("fedsuite.driving.data.sources:part_of"),
    accepts=later("fedsuite.driving.refusals:accepts"),
    validate=later("fedsuite.driving.checks:validate"),
    report=later("fedsuite.driving.report.run:write_results"),
    draw=later("fedsuite.driving.report.run:draw_data"),
    compare=later("fedsuite.driving.report.experiment:write_comparison"),
    metrics=later("fedsuite.driving.metrics:metrics_of"),
    answers=later("fedsuite.driving.report.answers:answers"),
    audit=later("simulations.cdl.audit:attacks"),
    node_key="silo",
    unread=UNREAD,
    costs=later("simulations.cdl.costs:costs_of"),
    seconds=later("simulations.cdl.costs:seconds_of"),
    known=later("fedsuite.driving.plan:clients_of"),
    leaves=(
        *("baselines.json", "results.csv", "learning.png", "wall-clock.png"),
        *("steering.png", "frames.png", "overlay.png"),
    ),
)
