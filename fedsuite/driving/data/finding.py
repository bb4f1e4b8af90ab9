"""Where the drives of a folder lie."""

from pathlib import Path

from fedsuite.driving.data.readers import AUTO, LOOKED_FOR, detect_kind, has_kind
from fedsuite.driving.data.readers.drive import visible
from fedsuite.errors import InputError
from fedsuite.storage.progress import Progress, silent

LEVELS = 2
RELEASE = ["test", "train"]  # folders of the CDL release


def find_drives(data_dir: Path, kind: str = AUTO, progress: Progress = silent) -> list[Path]:
    """`data_dir` itself, or the folders that hold a drive at most two levels below, in natural order of their names.

    In place of a folder with archives come the archives. Those of the CDL release are taken from train/ only: train.npz
    there is the union of the others, and every silo holds frames of its own back for testing. Folders that are passed
    over are told to `progress`.
    """
    found, passed = _search(_checked(data_dir), kind, LEVELS)
    if not found:
        looked_for = LOOKED_FOR if kind == AUTO else f"those of kind {kind}"
        raise InputError(
            f"{data_dir}: no drive found in it or {LEVELS} levels below; looked for {looked_for}"
        )
    if passed:
        names = ", ".join(str(path.relative_to(data_dir)) for path in passed)
        progress(f"{data_dir}: passed over {names}")
    return [path for folder in found for path in _expanded(folder, kind)]


def find_release(data_dir: Path) -> tuple[list[Path], list[Path]]:
    """Archives of the CDL release for training, one a silo, and for testing; InputError if these are not there."""
    test, train = (_checked(data_dir) / name for name in RELEASE)
    if not all(folder.is_dir() and has_kind(folder, "npz") for folder in (test, train)):
        raise InputError(
            f"data.test-split: official needs {data_dir}/train and {data_dir}/test with .npz archives; make data.dir the "
            "folder that has both, or set data.test-split=blocks"
        )
    return _expanded(train, "npz"), visible(test, "*.npz")


def _checked(data_dir: Path) -> Path:
    if not data_dir.is_dir():
        raise InputError(
            f"data.dir: {data_dir} is not a folder; give one that holds recorded drives"
        )
    return data_dir


def _search(folder: Path, kind: str, levels: int) -> tuple[list[Path], list[Path]]:
    """Folders with drives, and those that hold none at any level."""
    if has_kind(folder, kind):
        return [folder], []
    found: list[Path] = []
    passed: list[Path] = []
    for below in filter(Path.is_dir, visible(folder) if levels else []):
        for known, more in zip((found, passed), _search(below, kind, levels - 1), strict=True):
            known += more
    if [p.name for p in found] == RELEASE and all(has_kind(p, "npz") for p in found):
        passed.append(found.pop(0))
    return found, passed if found else [folder]


def _expanded(folder: Path, kind: str) -> list[Path]:
    """The folder, or its archives: numbered ones without their union."""
    if (detect_kind(folder) if kind == AUTO else kind) != "npz":
        return [folder]
    files = visible(folder, "*.npz")
    return [p for p in files if p.stem.isdecimal()] or files
