"""Models of ours under the names of the public EnvDrop code (Tan et al. 2019): the way back of envdrop.py.

What is written is what that code's `load` reads: {module: {"epoch", "state_dict", "optimizer"}} by torch.save, and
`train_vocab.txt` beside it. Imported again it has the bytes of the model that was exported.

Layers that get no gradient are left out of our models unless agent.dead-layers was true; the public code says NOTICE then,
and keeps its own, which nothing reads. The optimizer's state is empty: that code reads it with --loadOptim alone.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from fedsuite.arrays import Arrays, non_finite
from fedsuite.errors import InputError
from fedsuite.roster.members import VOCABULARY
from fedsuite.storage.files import make_folder
from fedsuite.vln.data.instructions import read_vocabulary
from fedsuite.vln.envdrop import AGENT_NAMES, SPEAKER_NAMES, checked_sizes
from fedsuite.vln.model.shapes import AGENT, DEAD, SPEAKER, WORDS, kind_of
from fedsuite.vln.start import model_file, read_model

WORD_FILE = "train_vocab.txt"
EPOCH = 1  # of the modules: the public code goes on after it


def export_checkpoint(run: Path, out: Path) -> list[str]:
    """Write the model of a run, or a model file, to the new folder `out`; lines about what it is.

    InputError in one line if it is no agent and no speaker of EnvDrop's kind, or if `out` is there.
    """
    file = model_file(run, "data export-envdrop")
    arrays, words = read_model(file, "data export-envdrop"), file.parent / VOCABULARY
    vocabulary = read_vocabulary(words).words
    kind = kind_of(arrays)
    parts = states_of(file, kind, arrays)
    sizes = checked_sizes(file, kind, arrays)
    if bad := non_finite(arrays):
        raise InputError(
            f"{file}: holds NaN or infinity in {bad[0]}; give a run that has not diverged"
        )
    if sizes[WORDS] != len(vocabulary):
        raise InputError(
            f"{file}: knows {sizes[WORDS]} words, but {words} has {len(vocabulary)}; keep the vocabulary.json "
            "of its run beside it"
        )
    content = {
        name: {"epoch": EPOCH, "state_dict": state, "optimizer": {}}
        for name, state in parts.items()
    }
    name = "speaker" if kind == SPEAKER else "agent"

    def fill(folder: Path) -> None:
        folder.mkdir()
        torch.save(content, folder / name)
        text = "".join(f"{word}\n" for word in vocabulary[:-1])  # <BOS> is not in that file
        (folder / WORD_FILE).write_text(text, encoding="utf-8")

    if not make_folder(out, fill):
        raise InputError(f"{out}: is there already, nothing in it was touched; give a new folder")
    return list(_lines(out / name, kind, arrays, len(vocabulary), bool(sizes[DEAD])))


def _lines(file: Path, kind: str, arrays: Arrays, words: int, dead: bool) -> Iterator[str]:
    numbers = sum(a.size for a in arrays.values())
    yield f"{file}: {kind} of {numbers:,} parameters, with {words - 1} words in {WORD_FILE} beside it"
    if kind == AGENT:
        yield "the public code pools words over padding: agents of agent.masked-pooling=false do there what they do here"
    if not dead:
        yield "without the layers that never get a gradient: the public code keeps its own of these, which nothing reads"


def states_of(file: Path, kind: str, arrays: Arrays) -> dict[str, dict[str, torch.Tensor]]:
    """Tensors by module and name there; InputError if one has no name there."""
    names = SPEAKER_NAMES if kind == SPEAKER else AGENT_NAMES
    states: dict[str, dict[str, torch.Tensor]] = {module: {} for module in names}
    for whole, array in arrays.items():
        module, _, name = whole.partition(".")
        there = _named_there(names.get(module, {}), name)
        if not there:
            raise InputError(
                f"{file}: holds {whole}, which the EnvDrop code has not; only agents and speakers of agent.decoder=envdrop "
                "can be exported"
            )
        states[module][there] = torch.from_numpy(array)
    return states


def _named_there(names: Mapping[str, str], name: str) -> str:
    """The name there of an array of a module, "" if it has none."""
    for there, here in names.items():
        if name.startswith(here):
            return there + name.removeprefix(here)
    return ""
