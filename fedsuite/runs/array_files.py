"""Named arrays as a safetensors file: whole or not at all, for their owner alone, large ones without a copy in memory.

safetensors writes to a name of its own first, which a killed process would leave behind. So it writes in a new folder,
`.<name>.<process>.partial`, that its owner alone can enter, and the file is renamed out of it; what is left of such a folder
bears a name that is swept like that of any half written file.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from fedsuite.arrays import arrays_to_bytes, num_bytes
from fedsuite.errors import refused
from fedsuite.storage.deleting import delete_made
from fedsuite.storage.files import PRIVATE_FILE, PRIVATE_FOLDER, sync, telling, write_atomically

COPIED = 1 << 20  # bytes below which a folder takes longer than a copy
_CODE = re.compile(r"\(os error (\d+)\)")


def write_arrays(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    metadata: dict[str, str] | None = None,
    durable: bool = True,
) -> None:
    """The bytes of `arrays_to_bytes`, for arrays of any memory layout. durable: to disk before it has its name.

    InputError or RunFailed, in one line, for what the operating system refuses; then `path` is as it was.
    """
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    if num_bytes(plain.values()) < COPIED:
        return write_atomically(path, arrays_to_bytes(plain, metadata), durable, private=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with telling(path):
            delete_made(partial)  # of a killed process with our number
            partial.mkdir(PRIVATE_FOLDER)
            file = partial / path.name
            save_file(plain, file, metadata)
            file.chmod(PRIVATE_FILE)
            if durable:
                sync(file)
            os.replace(file, path)
    except SafetensorError as error:
        if (code := _CODE.search(str(error))) is None:
            raise
        number = int(code[1])
        raise refused(OSError(number, os.strerror(number)), path) from None
    finally:
        delete_made(partial)
