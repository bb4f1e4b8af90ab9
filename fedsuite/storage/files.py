"""Files and folders that are written in full or not at all, locks, names fit for paths, and JSON that is checked."""

import fcntl
import hashlib
import json
import math
import os
import re
import shlex
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from fedsuite.errors import InputError, one_line, refused
from fedsuite.storage.deleting import delete_file, delete_made
from fedsuite.storage.progress import Progress, silent

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BARRED = '/ \\ : * ? " < > |'
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONGEST_NAME = 200  # bytes; file systems take 255, and files beside it have longer names


def path_name(name: object, where: str, plain: bool = False) -> str:
    """`name` if it is fit to name one file or folder; InputError, which starts with `where`, if it may lead elsewhere.

    plain: it must also be fit for a command line as it stands.
    """
    text = name if isinstance(name, str) and name.isprintable() else ""
    single = text[:1].isalnum() and text[-1] != " " and not set(text) & set(_BARRED.split())
    if not single or len(text.encode()) > _LONGEST_NAME or (plain and not _PLAIN.fullmatch(text)):
        signs = "'.', '_' and '-'" if plain else f"spaces and signs other than {_BARRED}"
        raise InputError(
            f"{where} must be letters, digits, {signs}, starting with a letter or digit, at most {_LONGEST_NAME} "
            f"bytes long, got {repr(name)[:60]}; rename it"
        )
    return text


def as_typed(path: object) -> str:
    """A path, or a name, as it stands in a command that people copy: quoted where a shell would part or change it."""
    return shlex.quote(str(path))


def full_path(text: str, where: str) -> Path:
    """The absolute path that a text stands for, "~" resolved; InputError, opened by `where`, if nobody has that home."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise InputError(
            f"{where}: {text!r} starts at a home folder that is not there; write the path in full"
        ) from None


@contextmanager
def telling(file: Path) -> Iterator[None]:
    """What the operating system refuses while `file` is read or written is said in one line that names it."""
    try:
        yield
    except OSError as error:
        raise refused(error, file) from None


def check_readable(
    file: Path, what: str = "a file", cure: str = "put the file there, or name another one"
) -> None:
    """InputError if something is there that is no file, or may not be read: whoever opens a pipe waits for ever, and
    "damaged" is no word for what is closed. What is not there readers say themselves.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, ValueError):  # nothing there, or a name that no file can have
        return
    except OSError as error:
        raise refused(error, file) from None
    kind = os.fstat(descriptor).st_mode
    os.close(descriptor)
    if not stat.S_ISREG(kind):
        found = "a folder" if stat.S_ISDIR(kind) else "a pipe or a device"
        raise InputError(f"{file}: {found}, not {what}; {cure}")


def parsed_json(text: str) -> Any:
    """The content of JSON text; ValueError for what is none, also for half a character (a surrogate by itself), which JSON
    can write but no file and no message can hold.
    """
    content = json.loads(text)
    if _SURROGATE.search(text):
        json.dumps(content, ensure_ascii=False).encode()
    return content


def read_json(file: Path, what: str, cure: str) -> Any:
    """The content of a JSON file; InputError says that `file` is missing or is not `what`, why, and the cure."""
    check_readable(file, what, cure)
    try:
        return parsed_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; {cure}") from None
    except (OSError, ValueError, RecursionError) as error:
        why = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(f"{file}: not {what} ({why}); {cure}") from None


def read_object(file: Path, what: str, cure: str) -> dict[str, Any]:
    """The same, of a file that holds an object."""
    if not isinstance(content := read_json(file, what, cure), dict):
        raise InputError(f"{file}: not {what} (no JSON object); {cure}")
    return content


@contextmanager
def locked(file: Path, patience_s: float = math.inf) -> Iterator[bool]:
    """Hold the lock `file`, at most as long as the process lives; False if another has it after `patience_s`."""
    give_up = time.monotonic() + patience_s
    with telling(file):
        held = file.open("ab")
    with held:
        while not (ours := _take(held.fileno())) and time.monotonic() < give_up:
            time.sleep(0.1)
        yield ours


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock `file`, which must be there; who asks needs no right to write it."""
    with telling(file), file.open("rb") as looked_at:
        return not _take(looked_at.fileno(), fcntl.LOCK_SH)


def _take(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    return False


def lock_of(folder: Path) -> Path:
    """Where processes that want to write `folder` wait for one another; it stays behind."""
    return folder.with_name(f".{folder.name}.lock")


@contextmanager
def in_turn(folder: Path, progress: Progress) -> Iterator[None]:
    """Alone among the processes that want to write `folder`; says so where it has to wait for another one."""
    with telling(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    lock = lock_of(folder)
    with locked(lock, 0) as free:
        if not free:
            progress(f"waiting for another process that writes {folder}")
    with locked(lock):
        yield


def make_folder(folder: Path, fill: Callable[[Path], object], progress: Progress = silent) -> bool:
    """Have `fill` write a folder that gets its name when it is complete; False if there is something of that name.

    Of several processes one writes, while the others wait for it. Nothing that is there is touched.
    """
    with in_turn(folder, progress):
        if (folder.is_dir() and any(folder.iterdir())) or folder.is_file():
            return False
        ours = re.compile(rf"\.{re.escape(folder.name)}\.\d+\.partial")
        for left_over in [path for path in folder.parent.iterdir() if ours.fullmatch(path.name)]:
            delete_made(left_over)
        partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
        try:
            fill(partial)
            partial.rename(folder)
        finally:
            delete_made(partial)
    return True


def make_new_folder(
    folder: Path, fill: Callable[[Path], object], progress: Progress = silent
) -> None:
    """The same; InputError, before anything is filled, if there is something of that name."""
    if not make_folder(folder, fill, progress):
        raise InputError(
            f"{folder}: is there already, nothing in it was touched; give a new folder"
        )


def write_atomically(path: Path, data: bytes, durable: bool = True, private: bool = False) -> None:
    """Write to a temporary name beside `path`, to disk (where `durable`), then rename.

    private: nobody but the owner can read it, not for a moment.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with telling(path):
            delete_file(temporary)  # of a killed process with our number
            with open_new(temporary, PRIVATE_FILE if private else 0o666) as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            delete_file(temporary)
        raise


def open_new(file: Path, mode: int = PRIVATE_FILE) -> BinaryIO:
    """A new file, open for writing; it has this mode, or less as the umask says, from the start."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")


def make_private(folder: Path) -> None:
    """Make a folder that its owner alone can enter, and those above it that are missing; what is there stays as it is."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)


def write_json(path: Path, content: object, private: bool = False) -> None:
    """Pretty, sorted JSON, atomically; private: for its owner alone."""
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode(), private=private)


def sync(path: Path) -> None:
    """Make what a file holds, or renames inside a folder, last through a loss of power."""
    with telling(path):
        descriptor = os.open(path, os.O_RDONLY)
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
