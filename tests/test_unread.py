"""Keys that nothing reads are said, with the reason; those that are read, and defaults, are not."""

from typing import Any

import pytest

from fedsuite.config import limits_of, read_config, value_of
from fedsuite.unread import unread_lines
from simulations.systems import load_system

CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "defaults": ("fedvln", {}, []),
    "one key": (
        "fedvln", {"federation.server-tau": 0.1},
        ['federation.server-tau = 0.1: nothing reads it with federation.server-optimizer = "none"'],
    ),
    "read": ("fedvln", {"federation.server-tau": 0.1, "federation.server-optimizer": "adam"}, []),
    "own optimizer": ("fedvln", {"federation.server-momentum": 0.5, "federation.server-optimizer": "a:b"}, []),
    "houses": (
        "fedvln", {"data.dir": "r2r", "data.generated-seen-houses": 3},
        ['data.generated-seen-houses = 3: nothing reads it with data.dir = "r2r"'],
    ),
    "two": (
        "cdl", {"federation.proximal-mu": 0.5, "objective.metropolis": True},
        [
            'objective.metropolis = true: nothing reads it with objective.loss = "kl"',
            'federation.proximal-mu = 0.5: nothing reads it with federation.scenario = "ring"',
        ],
    ),
    "no sub-network": (
        "cdl", {"objective.loss": "none", "objective.sub-network": "own"},
        ['objective.sub-network = "own": nothing reads it with objective.loss = "none"'],
    ),
    "equal networks": (
        "cdl", {"objective.sub-network": "reset", "objective.sub-network-momentum": 0.5},
        [
            'objective.sub-network = "reset": it has nothing to act on with training.local-updates = 1',
            'objective.sub-network-momentum = 0.5: nothing reads it with objective.sub-network = "reset"',
        ],
    ),
    "networks that part": ("cdl", {"objective.sub-network": "reset", "training.local-updates": 2}, []),
    "another value": ("cdl", {"objective.sub-network": "average", "objective.sub-network-momentum": 0.5}, []),
    "silos": ("cdl", {"federation.proximal-mu": 0.5, "federation.scenario": "fedprox"}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_lines(case: str) -> None:
    name, values, want = CASES[case]
    system = load_system(name)
    assert unread_lines(read_config(system.config_class, values), system.unread) == want


@pytest.mark.parametrize("name", ["fedvln", "cdl", "fedrl"])
def test_tables_name_keys_that_there_are(name: str) -> None:
    system = load_system(name)
    keys, config = limits_of(system.config_class), system.config_class()
    for entry, (other, useless) in system.unread.items():
        key, _, only = entry.partition("=")
        assert key in keys and other in keys and key != other
        assert not only or only in (keys[key].choices or ())
        assert isinstance(useless(value_of(config, other)), bool)
