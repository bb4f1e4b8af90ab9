"""FedVLN wired to the app: the strategy of a run, the client of a node, and what is done around a run."""

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.ineffective import UNREAD
from simulations.systems import System, later

SYSTEM = System(
    name="fedvln",
    config_class=FedVLNConfig,
    prepare=later("simulations.fedvln.server:prepare"),
    make_strategy=later("simulations.fedvln.server:make_strategy"),
    make_client=later("simulations.fedvln.client:make_client"),
    describe=later("fedsuite.vln.data.roster:part_of"),
    accepts=later("fedsuite.vln.refusals:accepts"),
    validate=later("fedsuite.vln.checks:validate"),
    report=later("fedsuite.vln.report.run:write_results"),
    draw=later("fedsuite.vln.report.run:draw_data"),
    compare=later("fedsuite.vln.report.experiment:write_comparison"),
    metrics=later("fedsuite.vln.metrics:metrics_of"),
    answers=later("fedsuite.vln.report.answers:answers"),
    audit=later("simulations.fedvln.audit:attacks"),
    node_key="scan",
    unread=UNREAD,
    costs=later("simulations.fedvln.costs:costs_of"),
    seconds=later("simulations.fedvln.costs:seconds_of"),
    known=later("fedsuite.vln.plan:clients_of"),
    leaves=(
        *("baselines.json", "results.csv", "learning.png", "learning-*.png", "walks.png"),
        *("submission_*.json", "submit_test.json", "statistics.csv", "verbs.png"),
        *("clients/*/submission_*.json", "clients/*/spoken_*.json", "clients/*/model.safetensors"),
    ),
)
