"""Runs whose replies wait on disk: the bytes of runs that hold them, no file left, one line where it cannot be."""

import errno
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from fedsuite.averaging.stored import Stored
from fedsuite.errors import RunFailed
from fedsuite.federation import Reply
from fedsuite.runs.folder import RunFolder
from simulations.engines.inprocess import run_inprocess
from strategies.runtime.spill import Spill
from tests.golden.runs import RUNS
from tests.harness import Recorder, config_from, results_of, run_toy

ARRAYS = {"w": np.arange(250_000, dtype=np.float32)}  # 1 MB


def reply(partition: int) -> Reply:
    return Reply(partition, ARRAYS, 1, {})


def test_replies_go_to_disk_when_they_outweigh_what_is_held(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "spill", 2)
    kept = [spill.kept(reply(p)) for p in (0, 1, 2, 2)]
    assert [isinstance(r.arrays, Stored) for r in kept] == [False, False, True, True]
    assert all(r.arrays["w"].tobytes() == ARRAYS["w"].tobytes() for r in kept)
    assert len(list(spill.folder.iterdir())) == 2, "a second answer took the place of the first"
    spill.empty()
    assert not spill.folder.exists()
    assert not isinstance(spill.kept(reply(3)).arrays, Stored), "a new round has all its room"


def test_a_full_disk_is_one_line_that_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spill = Spill(tmp_path / "spill", 0)
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(RunFailed, match=r"/spill: No space left on device; make room"):
        spill.kept(reply(0))


def folder_of(
    tmp_path: Path, cache: Path, name: str, values: dict[str, Any], **more: Any
) -> RunFolder:
    places = {"results_dir": str(tmp_path), "cache_dir": str(cache)}
    run_inprocess(config_from({**values, **more}, name=name, **places))
    return RunFolder(tmp_path / name)


ROBUST = {"merge": "trimmed-mean", "tolerated": 1, "update-bound": 1.5, "participation-rate": 1.0}
CASES: dict[str, dict[str, Any]] = {
    "agents": RUNS["vln-train-parallel"] | ROBUST,
    "control variates": RUNS["vln-train-parallel"] | {"control-variates": True, "client-optimizer": "fresh"},
    "chains": RUNS["vln-train-parallel"] | {"group-size": 2, "client-optimizer": "fresh"},
    "in turn": RUNS["vln-train-sequential"],
    "handed on": RUNS["vln-train-shared"],
    "partial sums": RUNS["vln-train-parallel"] | {"houses-per-message": 2, "participation-rate": 1.0},
    "local only": RUNS["vln-train-local-only"],
    "speakers": RUNS["vln-speaker"] | {"server-optimizer": "fedexp"},
    "saboteurs": RUNS["vln-train-parallel"] | {"sabotage.attack": "sign-flip", "sabotage.clients": "0"},
    "silos": RUNS["cdl-ring-plain"],
    "star": RUNS["cdl-star"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_run_from_disk_has_the_bytes_of_one_from_memory(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    held = results_of(folder_of(tmp_path, cache, "held", CASES[case]))
    monkeypatch.setattr("strategies.runtime.spill.MEGABYTE", 0)
    written: list[int] = []
    emptied = Spill.empty

    def counted(spill: Spill) -> None:
        written.append(getattr(spill, "written", 0))
        emptied(spill)

    monkeypatch.setattr(Spill, "empty", counted)
    spilled = folder_of(tmp_path, cache, "spilled", CASES[case])
    assert sum(written) > 0 and not spilled.spill.exists()
    assert results_of(spilled) == held


def test_an_attack_that_looks_at_all_replies_is_refused_from_disk(
    tmp_path: Path, cache: Path
) -> None:
    hostile = {"sabotage.attack": "alie", "sabotage.clients": "0", "participation-rate": 1.0}
    with pytest.raises(RunFailed, match=r"sabotage\.attack = alie .* raise spill-above"):
        folder_of(tmp_path, cache, "run", RUNS["vln-train-parallel"] | hostile, spill_above=0)


class Killed(BaseException):
    """As a kill -9: nobody cleans up."""


def test_a_run_killed_while_replies_lie_on_disk_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = results_of(run_toy(tmp_path / "whole", spill_above=0))

    class Dies(Recorder):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            if len(self.received) == 3 + 2 * 3 + 2:
                os._exit(-signal.SIGKILL)
            return super().pull_messages(message_ids)

    child = os.fork()
    if child == 0:
        run_toy(tmp_path / "cut", Dies, spill_above=0)
        os._exit(0)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) != 0
    cut = tmp_path / "cut" / "run"
    assert list((cut / "spill").iterdir()), "the run was not killed while replies lay on disk"
    folder = run_toy(tmp_path / "cut", resume=str(cut), spill_above=0)
    assert results_of(folder) == want and not folder.spill.exists()
