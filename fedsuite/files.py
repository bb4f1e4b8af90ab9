"""Files that are either there in full or not at all."""

import hashlib
import json
import os
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary name beside `path`, to disk, then rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_json(path: Path, content: object) -> None:
    """Pretty, sorted JSON, atomically."""
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` last through a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()
