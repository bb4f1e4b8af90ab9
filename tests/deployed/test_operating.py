"""A small federation's life, with all that an operator does in it: log, metrics and bytes tell one story."""

from pathlib import Path

import pytest

from tests.deployed.operating import Operator


@pytest.mark.deployed
@pytest.mark.timeout(1800)
def test_a_vehicle_comes_and_goes_and_the_superlink_is_away(tmp_path: Path) -> None:
    said: list[str] = []
    Operator(tmp_path, nodes=2, rounds=2, away_s=5.0, say=said.append).play()
    print("\n".join(said))
    assert "3 members, bytes of a simulation" in said[-3], said
