import fcntl
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from fedsuite.errors import InputError
from fedsuite.runs.folder import RunFolder, check_folder, folder_of, variant_of
from fedsuite.settings.config import RunSettings, to_flat
from fedsuite.storage.files import write_json

HOLD = """
import sys, time
from pathlib import Path
from fedsuite.runs.folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_status_from_begin_to_end(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.status() == {}
    folder.begin()
    assert folder.status()["status"] == "running"
    started = folder.status()["started"]
    folder.end("failed", "line one\nline two", "run")
    status = folder.status()
    assert (status["status"], status["error"]) == ("failed", "line one line two")
    assert status["started"] == started and status["ended"]
    assert "flwr" in status["versions"]


def test_a_run_that_goes_on_with_other_versions_says_so_and_keeps_them(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin()
    here = folder.status()["versions"]
    assert folder.other_versions() == ""
    for before in ("2.1.0", "2.1.0, then 2.2.0"):
        folder.note(versions={**here, "torch": before})
        told = folder.other_versions()
        assert f"torch {here['torch']} in place of {before[-5:]}:" in told and "numpy" not in told
        folder.begin(resumed=True)
        assert folder.status()["versions"] == {**here, "torch": f"{before}, then {here['torch']}"}
        assert folder.other_versions() == ""
    folder.begin()
    assert folder.status()["versions"] == here


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"versions": ["torch"]}', '{"versions": {"numpy": ["1"], "other": 1}}']
)
def test_what_is_no_version_keeps_no_run_from_going_on(tmp_path: Path, text: str) -> None:
    folder = RunFolder(tmp_path)
    folder.status_file.write_text(text)
    folder.begin(resumed=True)
    status = folder.status()
    assert status["status"] == "running" and "torch" in status["versions"]
    assert all(isinstance(version, str) for version in status["versions"].values())


def test_another_process_keeps_us_out_until_it_is_killed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder.path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    assert folder.is_being_written()
    with pytest.raises(InputError, match="another process is writing"), folder.locked():
        pass
    holder.kill()
    holder.wait()
    assert not folder.is_being_written()
    with folder.locked(patience_s=5):
        assert folder.is_being_written()


def test_who_looks_keeps_nobody_out(tmp_path: Path) -> None:
    """Another process that looks whether the lock is free has it for a moment, shared."""
    folder = RunFolder(tmp_path)
    with folder.locked():
        pass
    with (tmp_path / ".lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not folder.is_being_written()
        Timer(0.2, fcntl.flock, (other, fcntl.LOCK_UN)).start()
        with folder.locked():
            assert folder.is_being_written()


def test_where_a_run_goes(tmp_path: Path) -> None:
    assert folder_of(RunSettings(results_dir=str(tmp_path), name="a")).path == tmp_path / "a"
    assert folder_of(RunSettings(results_dir="r", name="a")).path == Path.cwd() / "r" / "a"
    assert folder_of(RunSettings(results_dir="r", system="m.x:S")).path.name == "m.x.S"
    assert folder_of(RunSettings(name="a", resume=str(tmp_path / "b"))).path == tmp_path / "b"


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "a b", "-x", "ä", "x" * 201])
def test_names_that_are_no_folder_names(name: str) -> None:
    with pytest.raises(InputError, match="name must be letters"):
        folder_of(RunSettings(name=name))


def test_an_existing_run_is_refused_with_the_cure(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    check_folder(folder, RunSettings())
    folder.path.mkdir()
    folder.begin()
    with pytest.raises(InputError, match=r"--resume .*run, choose another name, .*--overwrite"):
        check_folder(folder, RunSettings())


def test_resume_needs_a_run_with_the_same_settings(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    wanted = RunSettings(resume=str(tmp_path), seed=1)
    with pytest.raises(InputError, match="no run to resume here"):
        check_folder(folder, wanted)
    write_json(folder.config, to_flat(RunSettings(seed=2)))
    with pytest.raises(InputError, match="cannot resume with seed = 1, the run was made with 2"):
        check_folder(folder, wanted)
    folder.config.write_text("{")
    with pytest.raises(InputError, match=r"config\.json: not the settings of a run"):
        check_folder(folder, wanted)


def test_a_runs_key_is_drawn_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    key = folder.run_key()
    assert len(key) == 32 and RunFolder(tmp_path).run_key() == key
    (tmp_path / "run-key").write_text("../../another")
    with pytest.raises(
        InputError, match="run-key: expected a run's key, 32 digits from 0 to f, got"
    ):
        folder.run_key()
    (tmp_path / "run-key").unlink()
    assert folder.run_key() != key


def test_variants_of_an_experiments_runs() -> None:
    found = {
        "seed-3": "", "rate-2": "rate-2", "rate-2/seed-3": "rate-2", "rate-2/mean": "rate-2", "a/b/seed-0": "a/b",
        "seed-x": "seed-x", "seed-3b": "seed-3b", "": "",
    }  # fmt: skip
    assert {label: variant_of(label) for label in found} == found


def test_what_a_folder_says_of_a_run_before_it_has_settings(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert not folder.never_began() and not folder.is_beginning()
    folder.path.mkdir()
    assert not folder.never_began() and not folder.is_beginning()
    (folder.path / ".unfinished").touch()
    assert folder.is_beginning() and not folder.never_began()
    (folder.path / ".lock").touch()
    assert folder.is_beginning() and folder.never_began()
    (folder.path / "notes.txt").touch()
    assert not folder.is_beginning() and not folder.never_began()
