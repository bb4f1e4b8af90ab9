"""Interrupted runs and those on Ray write the bytes of whole runs in this process, private states included."""

from pathlib import Path
from typing import Any

import pytest

import fedsuite.driving.report.run
from clients.vehicle import VehicleClient
from fedsuite.errors import RunFailed
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Versions
from fedsuite.storage.files import sha256_of
from simulations.engines.inprocess import run_inprocess
from tests.cdl_runs import (
    config_of,
    digests,
)
from tests.harness import kill_and_resume

UNDRAWN = {"system": "tests.golden.runs:CDL"}  # without plots


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"batch_norm": "local", "silos_per_client": 2}, {"share": "!trunk.head"},
        {"sub_network": "own"}, {"sub_network": "average"}, {"sub_network": "reset", "local_updates": 2},
    ],
)  # fmt: skip
def test_a_resumed_run_equals_an_uninterrupted_one(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, changes: Any
) -> None:
    """The third round fails after the second was saved; private states of the third are dropped again."""
    changes = {**changes, "num_rounds": 4, "checkpoint_every": 2}
    run_inprocess(config_of(cache, tmp_path, "whole", **changes))
    stop_round(monkeypatch, 4)
    with pytest.raises(RunFailed, match=r"round 4, train: .* out of luck"):
        run_inprocess(config_of(cache, tmp_path, "parts", **changes))
    monkeypatch.undo()
    monkeypatch.setattr(fedsuite.driving.report.run, "draw_data", lambda config, run_dir: None)
    monkeypatch.setattr(fedsuite.driving.report.run, "write_results", lambda config, run_dir: None)
    parts = RunFolder(tmp_path / "parts")
    assert Versions(parts.checkpoints).rounds()[-1] == 2
    states = sorted(p.name for p in parts.clients.rglob("*.safetensors"))
    assert "round-000003.safetensors" in states
    run_inprocess(config_of(cache, tmp_path, "parts", **changes, resume=str(parts.path)))
    assert digests(tmp_path, "whole") == digests(tmp_path, "parts")
    assert private_states(tmp_path / "whole") == private_states(tmp_path / "parts")


def test_a_silo_whose_state_is_gone_is_not_begun_anew(
    cache: Path, tmp_path: Path, undrawn: None
) -> None:
    changes = {"num_rounds": 2, "checkpoint_every": 1}
    run_inprocess(config_of(cache, tmp_path, "parts", **changes))
    parts = RunFolder(tmp_path / "parts")
    newest = sorted(parts.clients.rglob("round-000002.safetensors"))
    assert len(newest) == 4
    newest[2].unlink()
    changes = {**changes, "num_rounds": 3, "resume": str(parts.path)}
    with pytest.raises(RunFailed, match=r"round 3, train: .* missing private state of silo-02"):
        run_inprocess(config_of(cache, tmp_path, "parts", **changes))


def stop_round(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    original = VehicleClient.fit

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        if config["round"] == number and self.site.partition == 1:
            raise RuntimeError("out of luck")
        return original(self, parameters, config)

    monkeypatch.setattr(VehicleClient, "fit", fit)


def private_states(run: Path) -> dict[str, str]:
    """SHA-256 of sub-networks, moments and local tensors of all silos."""
    files = sorted((run / "clients").rglob("*.safetensors"))
    assert files
    return {str(p.relative_to(run)): sha256_of(p.read_bytes()) for p in files}


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(cache: Path, tmp_path: Path) -> None:
    """kill -9 in the middle; sub-networks and both optimizers' moments included."""
    changes = {"num_rounds": 6, "checkpoint_every": 2, "local_updates": 3, **UNDRAWN}
    run_inprocess(config_of(cache, tmp_path, "whole", **changes))
    config = config_of(cache, tmp_path, "killed", **changes)
    kill_and_resume(tmp_path, config, 2, "--engine", "inprocess")
    assert digests(tmp_path, "whole") == digests(tmp_path, "killed")
    assert private_states(tmp_path / "whole") == private_states(tmp_path / "killed")
