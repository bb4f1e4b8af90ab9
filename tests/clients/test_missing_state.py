"""Private state that a run relies on and that is gone, or another's, is noticed; the run says what is missing."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsuite.errors import RunFailed
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Checkpoints, Versions
from tests.harness import results_of, run_toy


def momentum(folder: RunFolder, site: int) -> Path:
    return folder.client(f"site-{site}") / "momentum"


def state(folder: RunFolder, site: int, number: int) -> Path:
    return Versions(momentum(folder, site)).path(number)


def _deleted(folder: RunFolder) -> None:
    shutil.rmtree(folder.client("site-1"))


def _newest_deleted(folder: RunFolder) -> None:
    state(folder, 1, 4).unlink()


def _of_another_client(folder: RunFolder) -> None:
    shutil.copy(state(folder, 0, 4), state(folder, 1, 4))


def _of_another_round(folder: RunFolder) -> None:
    shutil.copy(state(folder, 1, 3), state(folder, 1, 4))


MISSING = "missing private state of site-1, which trained in round 4; put it back from a copy"
DAMAGED = r"round-000004\.safetensors: damaged private state, it is that of"
LOSSES: dict[str, tuple[Callable[[RunFolder], None], str]] = {
    "deleted": (_deleted, MISSING),
    "newest deleted": (_newest_deleted, MISSING),
    "of another client": (_of_another_client, f"{DAMAGED} 'site-0' after round 4"),
    "of another round": (_of_another_round, f"{DAMAGED} 'site-1' after round 3; put it back from"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_does_not_go_on_without_it(tmp_path: Path, loss: str) -> None:
    lose, complaint = LOSSES[loss]
    part = run_toy(tmp_path, num_rounds=4)
    lose(part)
    with pytest.raises(
        RunFailed, match=f"round 5, train: .*site-1: error: InputError: .*{complaint}"
    ):
        run_toy(tmp_path, num_rounds=6, resume=str(part.path))


def test_clients_that_never_trained_need_none(tmp_path: Path) -> None:
    part = run_toy(tmp_path, num_rounds=0)
    run_toy(tmp_path, num_rounds=2, resume=str(part.path))


def test_a_client_that_failed_last_is_asked_for_its_last_success(tmp_path: Path) -> None:
    """It trained in round 1, failed in round 2, and joins again in round 3, also after a restart."""
    changes = {"fault": "raise", "min_reply_fraction": 0.6}
    whole = run_toy(tmp_path / "whole", num_rounds=4, **changes)
    part = run_toy(tmp_path / "part", num_rounds=2, **changes)
    stored = Checkpoints(part.checkpoints).latest()
    assert stored is not None and stored.trained == {0: 2, 1: 1, 2: 2}
    resumed = run_toy(tmp_path / "part", num_rounds=4, resume=str(part.path), **changes)
    assert results_of(resumed) == results_of(whole)


def test_a_resume_from_an_earlier_checkpoint_finds_what_belongs_to_it(tmp_path: Path) -> None:
    whole = run_toy(tmp_path / "whole", num_rounds=5)
    part = run_toy(tmp_path / "part", num_rounds=4)
    _newest_deleted(part)
    Checkpoints(part.checkpoints).path(4).unlink()
    resumed = run_toy(tmp_path / "part", num_rounds=5, resume=str(part.path))
    assert results_of(resumed)["model.safetensors"] == results_of(whole)["model.safetensors"]
