"""Files that are written in full or not at all, and tables that stand beside the code that reads them."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_atomically(path: Path, data: bytes, durable: bool = True) -> None:
    """Write to a temporary name beside `path`, to disk (where `durable`), then rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with temporary.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)


def write_json(path: Path, content: object) -> None:
    """Pretty, sorted JSON, atomically."""
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


@contextmanager
def alone(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the file `lock`, which stays behind; if another process has it, call `waiting` and wait until that ends."""
    with lock.open("a") as file:
        if not take_lock(file.fileno()):
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def take_lock(descriptor: int) -> bool:
    """Whether the lock on an open file is ours now; the system releases it when this process ends, however it ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` last through a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_table(module: str, name: str) -> Any:
    """The JSON file `name` beside a module, given its `__file__`; lists come as tuples, for tables never change."""
    return _as_tuples(json.loads(Path(module).with_name(name).read_text(encoding="utf-8")))


def _as_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_tuples(part) for key, part in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
