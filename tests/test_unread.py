"""Keys that nothing reads are said, with the reason; those that are read, and defaults, are not."""

from pathlib import Path
from typing import Any

import pytest

from fedsuite.settings.config import limits_of, read_config, value_of
from fedsuite.settings.unread import conditions_of, unread_lines
from simulations.systems import load_system
from tests import fedrl_runs
from tests.harness import toml_from
from tests.mistakes.refusing import Call

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
    "roads": (
        "cdl", {"data.dir": "drives", "data.generated-seed": 3},
        ['data.generated-seed = 3: nothing reads it with data.dir = "drives"'],
    ),
    "dealt drives": ("cdl", {"data.dir": "drives", "data.generated-seed": 3, "data.dirichlet": 0.5}, []),
    "blocks": ("cdl", {"data.fold": 1}, ['data.fold = 1: nothing reads it with data.dir = ""']),
    "official": (
        "cdl", {"data.dir": "drives", "data.fold": 1, "data.test-split": "official"},
        ['data.fold = 1: nothing reads it with data.test-split = "official"'],
    ),
    "maps": ("fedrl", {"data.dir": "maps", "data.maps": 200}, ['data.maps = 200: nothing reads it with data.dir = "maps"']),
    "texts": (
        "fedrl", {"world.kind": "text2action", "world.grid-size": 16, "world.task": "arguments"},
        ['world.grid-size = 16: nothing reads it with world.kind = "text2action"'],
    ),
    "generated texts": ("fedrl", {"data.dir": "d", "data.corpus": "generated", "data.generated-seed": 3}, [
        'data.corpus = "generated": nothing reads it with world.kind = "gridworld"',
    ]),
    "one party": (
        "fedrl", {"federation.method": "dqn-alpha", "federation.parties": 3},
        ['federation.parties = 3: nothing reads it with federation.method = "dqn-alpha"'],
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
    "one update": (
        "cdl", {"federation.proximal-mu": 0.5, "federation.scenario": "fedprox"},
        ['federation.scenario = "fedprox": it has nothing to act on with training.local-updates = 1'],
    ),
    "silos": (
        "cdl", {"federation.proximal-mu": 0.5, "federation.scenario": "fedprox", "training.local-updates": 2}, []
    ),
}  # fmt: skip


# What is set, what decides, with which values of it nothing reads the first, and with which somebody does.
OPTIMIZER, METHOD, MERGE = "federation.server-optimizer", "federation.method", "federation.merge"
ATTACK, HOSTILE = "sabotage.attack", "sabotage.clients"
OWN, NOT_MERGED = "a:b", ["centralised", "local-only"]
Read = tuple[str, str, Any, str, list[Any], list[Any]]
FEDVLN: list[Read] = [
    ("fedvln", f"federation.{key}", *rest)  # type: ignore[misc]
    for key, *rest in (
        (
            "server-momentum",
            0.5,
            OPTIMIZER,
            ["none", "adagrad", "fedexp"],
            ["momentum", "adam", OWN],
        ),
        ("server-second-momentum", 0.5, OPTIMIZER, ["none", "nesterov", "fedexp"], ["yogi", OWN]),
        ("server-bias-correction", True, OPTIMIZER, ["none", "momentum", "adagrad"], ["adam", OWN]),
        ("server-tau", 0.5, OPTIMIZER, ["none", "nesterov"], ["adagrad", "fedexp", OWN]),
        ("server-learning-rate", 9.0, METHOD, NOT_MERGED, ["federated"]),
        ("server-learning-rate-decay", 0.5, METHOD, NOT_MERGED, ["federated"]),
        ("server-decay-steps", 9, "federation.server-learning-rate-decay", [1.0], [0.5]),
        ("max-share", 0.5, METHOD, NOT_MERGED, ["federated"]),
        ("beyond-bound", "reject", "federation.update-bound", [0.0], [2.0]),
    )
]
CDL: list[Read] = [
    ("cdl", "federation.clip-ratio", 1.0, MERGE, ["mean", "trimmed-mean"], ["clipped", OWN]),
    ("cdl", "federation.clip-ratio", 1.0, "federation.scenario", ["cll"], []),
    ("cdl", "federation.tolerated", 1, MERGE, ["mean", "clipped"], ["trimmed-mean", OWN]),
]
SABOTAGE: list[Read] = [
    (name, f"sabotage.{key}", *rest)  # type: ignore[misc]
    for name in ("fedvln", "cdl")
    for key, *rest in (
        ("attack", "scale", HOSTILE, [""], ["0"]),
        ("scale", 2.0, HOSTILE, [""], ["0"]),
        ("from-round", 2, HOSTILE, [""], ["0"]),
        ("scale", 2.0, ATTACK, ["label-flip"], ["sign-flip", "alie"]),
        ("from-round", 2, ATTACK, ["label-flip"], ["scale"]),
    )
]
SABOTAGE += [("fedvln", "sabotage.scale", 2.0, ATTACK, ["weight-lie"], [])]
SABOTAGE += [("fedvln", "sabotage.from-round", 2, ATTACK, [], ["weight-lie"])]
DEVICE: list[Read] = [
    (name, "precision", "tf32", "device", ["cpu"], ["auto", "cuda"]) for name in ("fedvln", "cdl")
]


@pytest.mark.parametrize(
    ("name", "key", "value", "other", "idle", "busy"), [*FEDVLN, *CDL, *SABOTAGE, *DEVICE]
)
def test_a_key_is_said_where_nothing_reads_it_and_nowhere_else(
    name: str, key: str, value: Any, other: str, idle: list[Any], busy: list[Any]
) -> None:
    system = load_system(name)
    someone = {HOSTILE: "0"}
    if other == "federation.scenario":
        someone[MERGE] = "clipped"
    for choice in [*idle, *busy]:
        config = read_config(system.config_class, {**someone, key: value, other: choice})
        told = [line for line in unread_lines(config, system.unread) if line.startswith(f"{key} =")]
        assert len(told) == (choice in idle), (choice, told)
        assert all(f"{other} = " in line for line in told)


@pytest.mark.parametrize("case", CASES)
def test_lines(case: str) -> None:
    name, values, want = CASES[case]
    system = load_system(name)
    assert unread_lines(read_config(system.config_class, values), system.unread) == want


@pytest.mark.parametrize("name", ["fedvln", "cdl", "fedrl"])
def test_tables_name_keys_that_there_are(name: str) -> None:
    system = load_system(name)
    keys, config = limits_of(system.config_class), system.config_class()
    for entry, rules in system.unread.items():
        key, _, only = entry.partition("=")
        assert not only or only in (keys[key].choices or (only,))  # a name
        for other, useless in conditions_of(rules):
            assert key in keys and other in keys and key != other
            assert isinstance(useless(value_of(config, other)), bool)


def test_what_another_run_of_the_experiment_reads_is_not_said(call: Call, tmp_path: Path) -> None:
    """Of several runs' common keys; of a run by itself it is said, and of a value of its own."""
    keys = {**fedrl_runs.TINY, "results-dir": str(tmp_path), "cache-dir": str(tmp_path / "cache")}
    own = 'random = { federation.method = "random", learning.discount = 0.5 }\n'
    variants = f'[variants]\n{own}dqn = {{ federation.method = "dqn-alpha" }}\n'
    (tmp_path / "two.toml").write_text(toml_from(keys) + variants)
    common, special = (
        "random: learning.round-length = 32: nothing",
        "random: learning.discount = 0.5: nothing",
    )
    code, out, err = call("run", "two.toml")
    assert code == 0 and "nothing reads it" in out, err
    assert special in out and common not in out and "dqn: " not in out
    code, out, err = call("run", "two.toml", "--only", "random", "--set", "name=one")
    assert code == 0 and special in out and common in out, err
