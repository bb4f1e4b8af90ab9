"""What a node's own file asks of secure sums and of its own noise, whatever the run wants."""

from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError, RunFailed
from fedsuite.roster.node import NodeSettings
from simulations.app.members_of_sums import accepts_secrecy
from simulations.systems import settings_of
from tests import summed_runs
from tests.harness import prepared
from tests.nodes import deploy
from tests.simulations.test_sums_of_systems import nodes_of

NOISED = {"privacy.noise-multiplier": 2.0, "privacy.clip": 1.0, "num-rounds": 1}
IN_STEPS = {"federation.secure-sum": False, "privacy.unit": "example", **NOISED}
IN_SUMS = {"federation.secure-sum": True, "privacy.unit": "client", **NOISED}


def run(tmp_path: Path, changes: dict[str, Any], **keys: Any) -> Any:
    server = {"roster": str(tmp_path / "server.json"), "min-reply-fraction": 0.3}
    config = summed_runs.config_of(tmp_path / "server", "run", **server, **changes)
    return deploy(config, nodes_of(tmp_path, prepared(config), **keys))


@pytest.mark.parametrize("changes", [IN_STEPS, IN_SUMS])
def test_a_node_with_fewer_demands_takes_part(tmp_path: Path, changes: dict[str, Any]) -> None:
    done = run(tmp_path, changes, least_noise_multiplier=2.0, largest_clip=1.0)
    assert done.model.is_file()


@pytest.mark.parametrize("base", [IN_STEPS, IN_SUMS])
@pytest.mark.parametrize(
    ("changes", "keys", "told"),
    [
        ({"privacy.noise-multiplier": 1.9}, {"least_noise_multiplier": 2.0}, "privacy.noise-multiplier: the run wants 1.9"),
        ({"privacy.noise": "seeded"}, {"least_noise_multiplier": 2.0}, "privacy.noise: the run wants seeded"),
        ({"privacy.clip": 1.5}, {"largest_clip": 1.0}, "privacy.clip: the run wants 1.5, this node allows 1 at most"),
        ({"privacy.unit": "none"}, {"largest_clip": 1.0}, "privacy.unit: the run wants none"),
    ],
)  # fmt: skip
def test_less_than_a_node_asks_for_is_refused(
    tmp_path: Path, base: dict[str, Any], changes: dict[str, Any], keys: dict[str, Any], told: str
) -> None:
    refused(tmp_path, {**base, **changes}, NodeSettings(own_key="node.key", **keys), told)


def test_noise_that_is_only_promised_is_refused(tmp_path: Path) -> None:
    """By a server, or by members of a sum whom a server may have made up."""
    own = NodeSettings(own_key="node.key", least_noise_multiplier=0.1)
    unsummed = {**IN_SUMS, "federation.secure-sum": False}
    refused(tmp_path, unsummed, own, "privacy.unit: the run wants client")
    told = "own-key: none, so that a server could play all other members"
    refused(tmp_path, IN_SUMS, NodeSettings(largest_clip=1.0), told)


def refused(tmp_path: Path, run: dict[str, Any], own: NodeSettings, told: str) -> None:
    wanted = settings_of(summed_runs.config_of(tmp_path, "run", **run))[1]
    with pytest.raises(InputError, match=told):
        accepts_secrecy(wanted, own)


def test_a_clip_that_adapts_to_more_than_a_node_allows(tmp_path: Path) -> None:
    """All changes are longer than the first C, so that it grows."""
    adapts = {"privacy.adaptive-clip": True, "privacy.noise-multiplier": 0.05, "privacy.clip": 1e-3}
    adapts |= {"privacy.noise": "seeded"}
    with pytest.raises(RunFailed, match=r"clip = 0.0012.* expected 0.0011 at most"):
        run(tmp_path, {**IN_SUMS, **adapts, "num-rounds": 3}, largest_clip=1.1e-3)


def test_a_sum_of_too_few(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="secure sum, shares: 0 of 5 members answered"):
        run(tmp_path, {"num-rounds": 1}, fewest_members=6)
    told = (tmp_path / "server" / "run" / "errors.log").read_text()
    assert "members = 5, expected at least 6" in told


def test_a_sum_of_as_many_as_asked_for(tmp_path: Path) -> None:
    assert run(tmp_path, {"num-rounds": 1}, fewest_members=5).model.is_file()
