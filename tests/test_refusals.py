"""What a node's own file refuses of a run, system by system, and what it lets pass."""

from typing import Any

import pytest

from fedsuite.driving import refusals as driving
from fedsuite.driving.config import CDLConfig
from fedsuite.errors import InputError
from fedsuite.fedrl import refusals as fedrl
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.roster.node import NodeSettings
from fedsuite.settings.config import RunSettings
from fedsuite.vln import refusals as vln
from fedsuite.vln.config import FedVLNConfig
from tests.harness import changed

SYSTEMS: dict[str, tuple[Any, type[RunSettings]]] = {
    "cdl": (driving.accepts, CDLConfig),
    "fedrl": (fedrl.accepts, FedRLConfig),
    "fedvln": (vln.accepts, FedVLNConfig),
}
NOISY = {"test_noise": "noisy", "noise_probability": 1.0}
CASES = [
    ("cdl", {"data_dir": "drives", "num_silos": 0}, {}, ""),
    ("cdl", {"num_silos": 4}, {}, ""),  # generated roads
    ("cdl", {"data_dir": "drives", "num_silos": 4}, {}, "data.num-silos: the run wants 4"),
    (
        "cdl", {"data_dir": "drives", "num_silos": 0, "dirichlet": 0.5}, {},
        "data.dirichlet: the run wants 0.5, which deals the frames of all drives anew",
    ),
    ("fedrl", {"noise_sigma": 0.5, **NOISY}, {"least_noise_sigma": 0.5}, ""),
    ("fedrl", {"noise_sigma": 0.0, "method": "dqn-alpha"}, {"least_noise_sigma": 0.5}, ""),  # sends nothing
    ("fedrl", {"noise_sigma": 0.4, **NOISY}, {"least_noise_sigma": 0.5}, "this node allows 0.5 at least"),
    (
        "fedrl", {"noise_probability": 0.5, "test_noise": "noisy"}, {"least_noise_sigma": 0.5},
        "published.noise-probability: the run wants 0.5",
    ),
    ("fedrl", {"q_clip": 2.0}, {"largest_q_clip": 2.0}, ""),
    ("fedrl", {"q_clip": 2.5}, {"largest_q_clip": 2.0}, "privacy.q-clip: the run wants 2.5, this node"),
    ("fedvln", {}, {"most_shared": "agent"}, ""),
    ("fedvln", {"stage": "pre-explore", "method": "local-only"}, {"most_shared": "nothing"}, ""),
    ("fedvln", {"stage": "pre-explore", "share": "language-encoder"}, {"most_shared": "language-encoder"}, ""),
    ("fedvln", {"stage": "pre-explore"}, {"most_shared": "language-encoder"}, "federation.share: in stage pre-explore"),
    ("fedvln", {"method": "centralised"}, {}, "federation.method: in stage train the run wants of each house: data"),
    ("fedvln", {"houses_per_message": 2}, {}, "federation.houses-per-message: for simulations only"),
]  # fmt: skip


@pytest.mark.parametrize(("system", "changes", "own", "complaint"), CASES)
def test_a_nodes_file_decides(
    system: str, changes: dict[str, Any], own: dict[str, Any], complaint: str
) -> None:
    accepts, config_class = SYSTEMS[system]
    settings, node = changed(config_class(), **changes), NodeSettings(**own)
    if not complaint:
        accepts(settings, node)
        return
    with pytest.raises(InputError) as refused:
        accepts(settings, node)
    assert complaint in str(refused.value) and "\n" not in str(refused.value)
