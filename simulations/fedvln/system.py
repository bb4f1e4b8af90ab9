"""FedVLN wired to the app: the strategy of a run, the client of a node, and what is done around a run."""

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.ineffective import UNREAD
from simulations.systems import Later, System

SYSTEM = System(
    name="fedvln",
    config_class=FedVLNConfig,
    prepare=Later("simulations.fedvln.server:prepare"),
    make_strategy=Later("simulations.fedvln.server:make_strategy"),
    make_client=Later("simulations.fedvln.client:make_client"),
    describe=Later("fedsuite.vln.data.roster:part_of"),
    accepts=Later("fedsuite.vln.refusals:accepts"),
    validate=Later("fedsuite.vln.checks:validate"),
    report=Later("fedsuite.vln.report.run:write_results"),
    draw=Later("fedsuite.vln.report.run:draw_data"),
    compare=Later("fedsuite.vln.report.experiment:write_comparison"),
    metrics=Later("fedsuite.vln.metrics:metrics_of"),
    answers=Later("fedsuite.vln.report.answers:answers"),
    audit=Later("simulations.fedvln.audit:attacks"),
    node_key="scan",
    unread=UNREAD,
    costs=Later("simulations.fedvln.costs:costs_of"),
    seconds=Later("simulations.fedvln.costs:seconds_of"),
    known=Later("fedsuite.vln.plan:clients_of"),
    leaves=(
        *("baselines.json", "results.csv", "learning.png", "learning-*.png", "walks.png"),
        *("submission_*.json", "submit_test.json", "statistics.csv", "verbs.png"),
        *("clients/*/submission_*.json", "clients/*/spoken_*.json", "clients/*/model.safetensors"),
    ),
)
