"""A SuperLink and two SuperNodes over TLS: each kind of process is killed once, and the bytes are a simulation's."""

from pathlib import Path

import pytest

from tests.deployed import worlds
from tests.deployed.campaign import KINDS, Campaign


@pytest.mark.deployed
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_process_may_be_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run is continued by the documented means: what ended is started again, and `--resume`."""
    campaign = Campaign(tmp_path, tmp_path / "none", rounds=0)
    settings = {
        "num-silos": 2,
        "num-rounds": 6,
        "evaluate-every": 6,
        "train-frames": 12,
        "test-frames": 4,
    }
    campaign.worlds["two"] = worlds.generated_drives(**settings)
    campaign.pause_s = (1.5, 4.0)
    # Flower misses a node, and a server, after a minute without heartbeats: it is the same minute for both.
    node, superlink, server, client = KINDS
    campaign.play("two", [client, node, server, superlink])
    said = capsys.readouterr().out
    assert "4 kills" in said and ", equal" in said, said
