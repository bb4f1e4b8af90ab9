"""A SuperLink and two SuperNodes over TLS: each kind of process is killed once, and the bytes are a simulation's."""

from pathlib import Path

import pytest

from tests.deployed import worlds
from tests.deployed.campaign import KINDS, Campaign


@pytest.mark.ray
@pytest.mark.slow
def test_every_process_may_be_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run is continued by the documented means: what ended is started again, and `--resume`."""
    campaign = Campaign(tmp_path, tmp_path / "none", rounds=0)
    settings = {
        "num-silos": 2,
        "num-rounds": 10,
        "evaluate-every": 10,
        "train-frames": 12,
        "test-frames": 4,
    }
    campaign.worlds["two"] = worlds.generated_drives(**settings)
    # The node last: it is refused for a minute, in which the others come and go.
    _, superlink, server, client = KINDS
    campaign.play("two", [client, server, superlink, KINDS[0]])
    said = capsys.readouterr().out
    assert "4 kills" in said and ", equal" in said, said
