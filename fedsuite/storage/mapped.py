"""Array files (.npy) mapped into memory. Damage is told by their header and their length; values have no checksum."""

from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from fedsuite.errors import InputError, is_short, refused
from fedsuite.storage.files import check_readable

_DAMAGED = (ValueError, OSError, EOFError, OverflowError, SyntaxError, TypeError, TokenError)


def map_array(file: Path, cure: str) -> np.ndarray[Any, Any]:
    """The array of a file, read where it is used. InputError that ends with the cure for what is no array, or has more or
    fewer bytes than one of its shape; RunFailed where this machine is short of open files or memory.
    """
    check_readable(file)
    try:
        found = open_memmap(file, mode="r")
        behind = file.stat().st_size - found.offset - found.nbytes
        if behind:  # which numpy takes no notice of
            raise ValueError(f"{behind} bytes stand behind the array")
    except _DAMAGED as error:
        if is_short(error):
            raise refused(error, file) from None
        raise InputError(f"{file}: truncated or no array file ({error}); {cure}") from None
    return found
