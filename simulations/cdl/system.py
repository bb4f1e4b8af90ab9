"""CDL wired to the app: the strategy of a run, the client of a node, and what is done around a run."""

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.ineffective import UNREAD
from simulations.systems import Later, System

SYSTEM = System(
    name="cdl",
    config_class=CDLConfig,
    prepare=Later("fedsuite.driving.data.sources:make_roster"),
    make_strategy=Later("simulations.cdl.server:make_strategy"),
    make_client=Later("simulations.cdl.client:make_client"),
    describe=Later("fedsuite.driving.data.sources:part_of"),
    accepts=Later("fedsuite.driving.refusals:accepts"),
    validate=Later("fedsuite.driving.checks:validate"),
    report=Later("fedsuite.driving.report.run:write_results"),
    draw=Later("fedsuite.driving.report.run:draw_data"),
    compare=Later("fedsuite.driving.report.experiment:write_comparison"),
    metrics=Later("fedsuite.driving.metrics:metrics_of"),
    answers=Later("fedsuite.driving.report.answers:answers"),
    audit=Later("simulations.cdl.audit:attacks"),
    node_key="silo",
    unread=UNREAD,
    costs=Later("simulations.cdl.costs:costs_of"),
    seconds=Later("simulations.cdl.costs:seconds_of"),
    known=Later("fedsuite.driving.plan:clients_of"),
    leaves=(
        *("baselines.json", "results.csv", "learning.png", "wall-clock.png"),
        *("steering.png", "frames.png", "overlay.png"),
    ),
)
