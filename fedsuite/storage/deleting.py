"""The one place where files are deleted, and by name: what somebody else keeps in a folder is never lost.

Names are paths inside a folder, each part of them a mask as in fnmatch: "checkpoints/round-*.safetensors". A file of such a
name may also lie there half written, as `write_atomically` leaves it when it is killed, or in a folder as `write_arrays`
does.
"""

import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from fedsuite.errors import InputError

Parts = tuple[str, ...]
TEMPORARY, WARM = "fs-", "fedsuite-warm-"  # how the folders begin that tempfile makes for us
_MADE = re.compile(rf"{TEMPORARY}.+|{WARM}.+|\..+\.\d+\.partial")


def delete_file(file: Path) -> None:
    """A file that the caller has written, or that bears a name which only the caller writes there; it may be gone."""
    file.unlink(missing_ok=True)


def delete(folder: Path, names: Sequence[str], kept: Collection[str] = ()) -> None:
    """Delete all of these names in `folder`, and the folder where nothing is left in it.

    kept: names that stay. Links are deleted, not followed. InputError, and nothing touched, where anything else lies there.
    """
    found = list(_found(folder, _masks(names)))
    for path, is_folder in found:
        if not is_folder and str(path.relative_to(folder)) not in kept:
            path.unlink(missing_ok=True)
    for path in [*(p for p, is_folder in reversed(found) if is_folder), folder]:
        with suppress(OSError):  # something is kept there, or has come meanwhile
            path.rmdir()


def check_own(folder: Path, names: Sequence[str]) -> None:
    """InputError where `folder` holds anything but these names."""
    for _ in _found(folder, _masks(names)):
        pass


def delete_made(made: Path) -> None:
    """A folder with all that is in it, of a name that is given to new folders alone: temporary, or yet to be completed; or a
    file of such a name."""
    if not _MADE.fullmatch(made.name):
        raise ValueError(f"{made}: not a name of what is deleted as a whole")
    if made.is_dir():
        shutil.rmtree(made, ignore_errors=True)
    else:
        delete_file(made)


def _masks(names: Sequence[str]) -> list[Parts]:
    whole = [tuple(name.split("/")) for name in names]
    halves = [(*mask[:-1], f".{mask[-1]}.[0-9]*.partial") for mask in whole]
    return [*whole, *halves, *((*half, "*") for half in halves)]


def _found(folder: Path, masks: Sequence[Parts], above: Parts = ()) -> Iterator[tuple[Path, bool]]:
    """Path, and whether it is a folder, of everything below `folder`, a folder before what is in it."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        parts, is_folder = (*above, path.name), path.is_dir() and not path.is_symlink()
        if not any(_fits(parts, mask, is_folder) for mask in masks):
            raise InputError(
                f"{path}: fedsuite does not write this, and all that lies beside it would be deleted; nothing was touched, "
                "move it elsewhere or choose another name"
            )
        yield path, is_folder
        if is_folder:
            yield from _found(path, masks, parts)


def _fits(parts: Parts, mask: Parts, is_folder: bool) -> bool:
    """Whether this is what the mask names, or a folder above it."""
    deep = len(parts) < len(mask) if is_folder else len(parts) == len(mask)
    return deep and all(map(fnmatchcase, parts, mask))
