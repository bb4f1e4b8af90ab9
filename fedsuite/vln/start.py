"""Where a run's first model and its speaker come from: the results of earlier runs.

A run folder holds `model.safetensors`, the arrays by name, and `vocabulary.json`, the words behind their indices. A
model goes on only with the same words and the same sizes; everything is checked before training. A pre-exploration
leaves, beside what its server merged, one agent per house in `clients/<house>/model.safetensors`; a later one that
starts from it gives every house its own. Where a folder holds the runs of several seeds (`seed-0`, `seed-1`, ...), a
run starts from that of its own seed.
"""

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from fedsuite.arrays import Arrays, non_finite
from fedsuite.errors import InputError
from fedsuite.roster.members import VOCABULARY
from fedsuite.storage.files import as_typed, check_readable
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.model.shapes import Shapes, difference

MODEL = "model.safetensors"
CONFIG, CHECKPOINTS = "config.json", "checkpoints"  # of a run folder


def run_of(path: str, seed: int) -> Path:
    """The run at `path`, or the one of this seed among several."""
    of_seed = Path(path) / f"seed-{seed}"
    return of_seed if of_seed.is_dir() else Path(path)


def model_file(given: Path, key: str) -> Path:
    """The model of a run folder, or the file itself; InputError names `key` and what was given instead."""
    file = given / MODEL if given.is_dir() else given
    if not file.is_file():
        raise InputError(
            f"{key}: {given} {_what_instead(given)}; give the folder of a completed run"
        )
    if _is_pickled(file):
        raise InputError(
            f"{key}: {file} is a PyTorch checkpoint; import it first with `fedsuite data import-envdrop {as_typed(file)} "
            "--vocabulary train_vocab.txt`"
        )
    return file


def _what_instead(given: Path) -> str:
    """What is there where no model is."""
    if not given.exists():
        return "does not exist"
    if (given / CONFIG).is_file():
        return f"has not ended: it holds no {MODEL}"
    if inside := sorted(given.glob(f"*/{MODEL}")):
        return f"holds several runs, such as {inside[0].parent}, and no {MODEL} itself"
    return f"is a folder without {MODEL}"


def _is_pickled(file: Path) -> bool:
    """Whether it is what torch.save writes: a zip archive, or a pickle. A safetensors file starts with a small number."""
    head = b""
    with suppress(OSError), file.open("rb") as opened:  # whoever reads the model says what is wrong
        head = opened.read(8)
    return head.startswith(b"PK\x03\x04") or (head[:1] == b"\x80" and any(head[4:]))


def house_model(config: FedVLNConfig, scan: str) -> Path | None:
    """A house's own agent in the pre-exploration that the run starts from; None if there is none."""
    if not config.start_from:
        return None
    file = run_of(config.start_from, config.seed) / "clients" / scan / MODEL
    return file if file.is_file() else None


def read_model(file: Path, key: str) -> Arrays:
    """Arrays of a model file."""
    check_readable(file)
    try:
        return dict(safetensors.numpy.load_file(file))
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{key}: {file} is no safetensors file, or is damaged ({error}); give another run or run it again"
        ) from None


def checked_model(run: Path, key: str, shapes: Shapes, words: Sequence[str]) -> Arrays:
    """The model of `run` if all its arrays fit `shapes` and its words are `words`, the run's vocabulary."""
    file = model_file(run, key)
    arrays = checked_arrays(file, key, shapes)
    _check_words(file.parent / VOCABULARY, words, key)
    return arrays


def checked_arrays(file: Path, key: str, shapes: Shapes) -> Arrays:
    """Arrays of a model file if they are those of `shapes`, float32 and finite."""
    arrays = read_model(file, key)
    theirs = {name: a.shape for name, a in arrays.items()}
    if shapes and not theirs.keys() & shapes.keys():
        raise InputError(f"{key}: {file} {_foreign(file, theirs)}; give a completed run of FedVLN")
    if problem := difference(theirs, shapes, str(file.parent / VOCABULARY)):
        raise InputError(f"{key}: {file} {problem}, or give another run")
    for name in sorted(set(arrays) | set(shapes)):
        if name not in arrays:
            problem = f"lacks {name}"
        elif name not in shapes:
            problem = f"holds {name}, which this run's model has not"
        elif arrays[name].shape != shapes[name] or arrays[name].dtype != np.float32:
            own = f"{arrays[name].dtype} {list(arrays[name].shape)}"
            problem = f"holds {name} {own}, this run's is float32 {list(shapes[name])}"
        else:
            continue
        raise InputError(
            f"{key}: {file} {problem}; use the sizes and data of the run it comes from, or another run"
        )
    if bad := non_finite(arrays):
        raise InputError(
            f"{key}: {file} holds NaN or infinity in {bad[0]}; give a run that has not diverged"
        )
    return arrays


def _foreign(file: Path, names: Collection[str]) -> str:
    """What a model is that has nothing in common with the run's."""
    if not names:
        return "holds no arrays"
    if file.parent.name == CHECKPOINTS:
        return (
            f"is a checkpoint of a run, which goes on with --resume {as_typed(file.parent.parent)}"
        )
    what = f"is no model of FedVLN: it holds {min(names)}"
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        config = json.loads((file.parent / CONFIG).read_text(encoding="utf-8"))
        return f"{what}, the run is of system {config['system']}"
    return what


def _check_words(theirs: Path, ours: Sequence[str], key: str) -> None:
    """Indices must stand for the same words."""
    if not theirs.is_file():
        raise InputError(
            f"{key}: {theirs} does not exist, so its word indices cannot be checked; keep it beside the model"
        )
    check_readable(theirs)
    try:
        words = json.loads(theirs.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{key}: {theirs} is damaged ({error}); give another run or run it again"
        ) from None
    if words != list(ours):
        raise InputError(
            f"{key}: {theirs} has other words than this run's data; use the data of the run it comes from, or its words "
            f"with data.vocabulary={theirs}"
        )
