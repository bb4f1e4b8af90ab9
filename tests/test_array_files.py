"""Arrays written to a file without a copy: the bytes that safetensors gives, or nothing."""

import contextlib
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedsuite.arrays import arrays_to_bytes
from fedsuite.errors import InputError, RunFailed
from fedsuite.runs import array_files
from fedsuite.runs.array_files import write_arrays
from fedsuite.runs.versions import Checkpoints, Versions
from fedsuite.storage.deleting import delete

NAMES = ("round-*.safetensors",)


@pytest.fixture(params=[0, array_files.COPIED], ids=["as large ones", "as small ones"])
def copied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Below how many bytes arrays are copied."""
    monkeypatch.setattr(array_files, "COPIED", request.param)
    below: int = request.param
    return below


def odd_arrays() -> dict[str, np.ndarray]:
    """Of all shapes, layouts and types that states have."""
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((6, 8), np.float32)
    return {
        "turned": wide.T, "each other": wide[:, ::2], "count": np.array(7, np.int64), "none": np.zeros((0, 3)),
        "flags": wide[0] > 0, "half": wide.astype(np.float16), "bytes": np.arange(5, dtype=np.uint8),
        "read only": np.broadcast_to(wide[0], (3, 8)), "swapped": wide.astype(">f4"),
    }  # fmt: skip


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("durable", [True, False])
def test_a_file_holds_what_safetensors_says_of_the_arrays(tmp_path: Path, durable: bool) -> None:
    arrays, file = odd_arrays(), tmp_path / "a file.safetensors"
    for _ in range(2):  # the second in the place of the first
        write_arrays(file, arrays, {"about": "all"}, durable)
        assert file.read_bytes() == arrays_to_bytes(arrays, {"about": "all"})
        assert [path.name for path in tmp_path.iterdir()] == [file.name]
    for name, found in load_file(file).items():
        np.testing.assert_array_equal(found, arrays[name])


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_nobody_else_may_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: int, umask: int
) -> None:
    """Neither when it is there nor before."""
    seen, replace = list[int](), os.replace

    def looked(source: Path, target: Path) -> None:
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in (source.parent, source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", looked)
    before = os.umask(umask)
    try:
        write_arrays(tmp_path / "key", odd_arrays())
    finally:
        os.umask(before)
    assert (
        seen[0 if not copied else 1 :] == [0o700, 0o600][bool(copied) :]
        and stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    )


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("kind", [Checkpoints, Versions])
def test_checkpoints_last_through_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Versions]
) -> None:
    """What a file holds is on the disk before it has its name, and then the name; private states need not."""
    done, replace = list[str](), os.replace

    def synced(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        done.append(f"{kind} on disk")

    def renamed(source: Path, target: Path) -> None:
        done.append("renamed")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    kind(tmp_path).save(1, odd_arrays(), {})
    lasting = ["file on disk", "renamed", "folder on disk"]
    assert done == (lasting if kind is Checkpoints else ["renamed"])


@pytest.mark.usefixtures("copied")
def test_a_disk_that_takes_no_more_leaves_what_was_there(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the library's error becomes one line with its cure."""
    file, large = tmp_path / "round-000001.safetensors", {"w": np.ones(100_000)}  # 0.8 MB
    write_arrays(file, odd_arrays())
    before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(RunFailed, match=rf"^{file}: File too large; make room"):
            write_arrays(file, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert file.read_bytes() == before and [*tmp_path.iterdir()] == [file]


@pytest.mark.usefixtures("copied")
def test_a_folder_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none/a: No such file or directory; see to the path"):
        write_arrays(tmp_path / "none" / "a", odd_arrays())


def test_what_a_killed_process_left_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed while the library writes; then a rollback, the next process of its number and a deletion clear it."""
    versions = Versions(tmp_path, "a house")
    versions.save(1, odd_arrays(), {})
    script = """
        import sys
        import numpy as np
        from pathlib import Path
        from fedsuite.runs.array_files import write_arrays
        arrays = {"w": np.ones(50_000_000)}
        while True:
            write_arrays(Path(sys.argv[1]), arrays, durable=False)
    """
    for _ in range(20):
        command = [sys.executable, "-c", textwrap.dedent(script), str(versions.path(2))]
        with subprocess.Popen(command) as process:
            left, until = list[Path](), time.monotonic() + 60
            while not left and time.monotonic() < until:
                with contextlib.suppress(FileNotFoundError):  # it comes and goes
                    left = [*tmp_path.glob(".*.partial/*")]
            process.kill()
        if halves := [*tmp_path.glob(".*.partial")]:
            break
    assert halves and [*halves[0].iterdir()]
    ours = tmp_path / f".round-000003.safetensors.{os.getpid()}.partial"
    halves[0].rename(ours)
    monkeypatch.setattr(array_files, "COPIED", 0)
    versions.save(3, odd_arrays(), {})
    assert not ours.exists()
    (tmp_path / ".round-000004.safetensors.7.partial").mkdir()
    (tmp_path / ".round-000004.safetensors.7.partial" / ".tmpabc").touch()
    versions.rollback(1)
    assert [*tmp_path.iterdir()] == [versions.path(1)]
    (tmp_path / ".round-000004.safetensors.7.partial").mkdir()
    (tmp_path / ".round-000004.safetensors.7.partial" / ".tmpabc").touch()
    delete(tmp_path, NAMES)
    assert not tmp_path.exists()
