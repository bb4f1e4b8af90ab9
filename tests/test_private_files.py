"""What is private can be read by its owner alone, from the moment that it is there, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedsuite.fedrl.learning.own_noise import OwnNoise
from fedsuite.roster.node import NodeSettings
from fedsuite.runs.versions import Versions
from fedsuite.storage.files import make_private, write_atomically, write_json
from fedsuite.vln.evaluation.houses import write_submission
from simulations.app.own_node import begin_run
from tests.harness import run_toy

UMASKS = (0o000, 0o022)


@pytest.fixture(params=UMASKS)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> set[int]:
    """Of a folder and all that is in it."""
    return {mode(path) for path in (folder, *folder.rglob("*"))}


def test_a_private_file_is_never_open_to_others(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda number: seen.append(os.fstat(number).st_mode & 0o777))
    write_atomically(tmp_path / "key", b"secret", private=True)
    write_json(tmp_path / "said.json", {}, private=True)
    write_atomically(tmp_path / "table", b"a result")
    assert seen == [0o600, 0o600, 0o666 & ~umask]
    assert [mode(tmp_path / n) for n in ("key", "said.json", "table")] == seen


def test_what_lay_there_open_is_replaced(umask: int, tmp_path: Path) -> None:
    for name in ("key", f".key.{os.getpid()}.partial"):
        (tmp_path / name).touch(0o666)
    write_atomically(tmp_path / "key", b"secret", private=True)
    assert mode(tmp_path / "key") == 0o600 and [p.name for p in tmp_path.iterdir()] == ["key"]


def test_private_folders(umask: int, tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b" / "c")
    assert modes(tmp_path / "a") == {0o700}
    make_private(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "file")


def test_states(umask: int, tmp_path: Path) -> None:
    versions = Versions(tmp_path / "clients" / "oak", "oak")
    for number in (1, 2):
        versions.save(number, {"w": np.zeros(2, np.float32)}, {})
    assert modes(tmp_path / "clients") == {0o600, 0o700}


def test_walks_and_what_noise_is_drawn_from(umask: int, tmp_path: Path) -> None:
    write_submission(tmp_path / "walks" / "oak.json", {})
    assert OwnNoise(7, "a" * 32, tmp_path / "noise").seed
    assert modes(tmp_path / "walks") == modes(tmp_path / "noise") == {0o600, 0o700}


def test_a_run_has_its_private_files_beside_its_results(umask: int, tmp_path: Path) -> None:
    run = run_toy(tmp_path, num_rounds=1)
    key = run.run_key()
    for private in (run.checkpoints, run.clients):
        assert modes(private) == {0o600, 0o700}
    assert mode(run.path / "run-key") == 0o600
    results = ("config.json", "run.json", "history.jsonl", "roster.json", "model.safetensors")
    assert {mode(run.path / name) for name in results} == {0o666 & ~umask}
    assert mode(run.path) == 0o777 & ~umask
    state = tmp_path / "state"
    begin_run(NodeSettings(name="oak", state_dir=str(state)), 7, key)
    assert modes(state) == {0o600, 0o700}
