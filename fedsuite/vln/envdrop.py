"""Checkpoints of the public EnvDrop code (R2R-EnvDrop, Tan et al. 2019; FedVLN's code writes the same) as models of ours.

A checkpoint is what torch.save made of {module: {"epoch", "state_dict", "optimizer"}}: of an agent the modules encoder
(EncoderLSTM), decoder (AttnDecoderLSTM) and critic, of a speaker encoder and decoder. Arrays are ours one to one under other
names; in both codes the gates of LSTMs, the halves of attention outputs and the order of directions are the same. The
vocabulary is a file beside it, a word a line, without the start symbol.

The optimizer is left behind. The release pools over padding: agent.masked-pooling=false makes an agent do what it did there.
"""

import json
import pickle
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from fedsuite.arrays import Arrays, non_finite
from fedsuite.errors import InputError
from fedsuite.roster.members import VOCABULARY
from fedsuite.storage.files import make_folder
from fedsuite.vln.data.instructions import read_vocabulary
from fedsuite.vln.model.agent import Agent, AgentSizes
from fedsuite.vln.model.shapes import AGENT, DEAD, SPEAKER, VIEWS, WORDS, is_dead, sizes_of
from fedsuite.vln.model.speaker import Speaker, SpeakerSizes
from fedsuite.vln.start import MODEL

Names = Mapping[str, Mapping[str, str]]  # module -> beginning of a name there -> here
AGENT_NAMES: Names = {
    "encoder": {"embedding.": "embedding.", "lstm.": "lstm.", "encoder2decoder.": "to_hidden."},
    "decoder": {
        "embedding.0.": "action.",
        "lstm.": "cell.",
        "feat_att_layer.linear_in.": "view_attention.query.",
        "feat_att_layer.linear_out.": "view_attention.output.",
        "attention_layer.linear_in.": "language_attention.query.",
        "attention_layer.linear_out.": "language_attention.output.",
        "candidate_att_layer.linear_in.": "candidate_attention.query.",
        "candidate_att_layer.linear_out.": "candidate_attention.output.",
    },
    "critic": {"state2value.0.": "inner.", "state2value.3.": "value."},
}
_ATTENTION = {
    "attention_layer.linear_in.": "attention.query.",
    "attention_layer.linear_out.": "attention.output.",
}
SPEAKER_NAMES: Names = {
    "encoder": {"lstm.": "lstm.", "post_lstm.": "post_lstm.", **_ATTENTION},
    "decoder": {
        "embedding.": "embedding.",
        "lstm.": "lstm.",
        "projection.": "to_words.",
        "baseline_projection.0.": "baseline.0.",
        "baseline_projection.3.": "baseline.2.",  # without the dropout between
        **_ATTENTION,
    },
}
_UNUSED = {"encoder.elmo_weight", "encoder.gamma"}  # early versions have them, for ELMo's vectors
_EXPECTED = "expected one of R2R-EnvDrop: an agent's encoder, decoder and critic, or a speaker's encoder and decoder"


def import_checkpoint(
    file: Path, vocabulary_file: Path, out: Path, dead_layers: bool = False
) -> list[str]:
    """Write model.safetensors and vocabulary.json to the new folder `out`; lines about what it is and what was left out.

    dead_layers: keep those that never got a gradient, for runs with agent.dead-layers=true. InputError in one line if the
    checkpoint is none of EnvDrop's, or its vocabulary another.
    """
    words = read_vocabulary(vocabulary_file).words
    kind, arrays = read_checkpoint(file)
    left = [] if dead_layers else sorted(filter(is_dead, arrays))
    left += sorted(_UNUSED & arrays.keys())
    kept = {k: v for k, v in arrays.items() if k not in left}
    sizes = checked_sizes(file, kind, kept)
    if sizes[WORDS] != len(words):
        raise InputError(
            f"{file}: knows {sizes[WORDS]} words, but {vocabulary_file} has {len(words)} with <BOS>; give the vocabulary "
            "that it was trained with"
        )

    def fill(folder: Path) -> None:
        folder.mkdir()
        save_file(kept, folder / MODEL)
        (folder / VOCABULARY).write_text(json.dumps(words), encoding="utf-8")

    if not make_folder(out, fill):
        raise InputError(f"{out}: is there already, nothing in it was touched; give a new folder")
    numbers, width = sum(a.size for a in kept.values()), sizes[VIEWS]
    lines = [
        f"{out}: {kind} of {numbers:,} parameters, {len(words)} words, views and angles of {width} numbers"
    ]
    if left:
        lines.append(f"left out, for nothing reads them: {', '.join(left)}")
    return [*lines, f"runs take it with {_settings(kind, sizes, out)}"]


def _settings(kind: str, sizes: Mapping[str, int], out: Path) -> str:
    """Options of `fedsuite run` with which a run takes the model and computes what it computed there."""
    start = "speaker-from" if kind == SPEAKER else "start-from"
    keys: dict[str, object] = {start: out, "data.vocabulary": out / VOCABULARY}
    keys |= {key: n for key, n in sizes.items() if key not in (WORDS, VIEWS)}
    keys[DEAD] = bool(sizes[DEAD])
    if kind == AGENT:
        keys["agent.masked-pooling"] = False
    given = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in keys.items()}
    return " ".join(f"--set {key}={shlex.quote(value)}" for key, value in given.items())


def read_checkpoint(file: Path) -> tuple[str, Arrays]:
    """AGENT or SPEAKER, and its arrays under our names, float32 and finite; nothing but tensors is unpickled."""
    parts = _states(file)
    kind, names = (AGENT, AGENT_NAMES) if "critic" in parts else (SPEAKER, SPEAKER_NAMES)
    if parts.keys() != names.keys():
        raise InputError(f"{file}: holds {', '.join(sorted(parts)) or 'no module'}; {_EXPECTED}")
    arrays: Arrays = {}
    for module, state in parts.items():
        for name, value in state.items():
            ours = f"{module}.{name}"
            if ours not in _UNUSED:
                ours = f"{module}.{_renamed(file, ours, name, names[module])}"
            arrays[ours] = np.ascontiguousarray(value.float().numpy())
    if bad := non_finite(arrays):
        raise InputError(f"{file}: holds NaN or infinity in {bad[0]}; give another checkpoint")
    return kind, arrays


def _states(file: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Tensors by module and name, on the CPU."""
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(
            f"{file}: no such checkpoint; give the file that the EnvDrop code saved"
        ) from None
    except pickle.UnpicklingError as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"{file}: PyTorch's safe loader refuses it, for it holds other things than tensors ({reason[:200]}); "
            "save the state_dicts alone with the code that wrote it"
        ) from None
    except Exception as error:  # a damaged file may end in anything
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"{file}: cannot be read as a PyTorch checkpoint ({type(error).__name__}: {reason[:200]}); it is truncated "
            "or damaged, fetch it again"
        ) from None
    parts: dict[Any, Any] = content if isinstance(content, dict) else {"": None}
    if not all(
        isinstance(p, dict) and isinstance(p.get("state_dict"), dict) for p in parts.values()
    ):
        raise InputError(f"{file}: holds no modules with a state_dict each; {_EXPECTED}")
    states = {str(name): part["state_dict"] for name, part in parts.items()}
    if strange := _not_tensors(states):
        raise InputError(f"{file}: {strange} is no tensor of numbers; {_EXPECTED}")
    return states


def _not_tensors(states: Mapping[str, Mapping[Any, Any]]) -> str:
    for module, state in states.items():
        for name, value in state.items():
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                return f"{module}.{name}"
    return ""


def _renamed(file: Path, whole: str, name: str, names: Mapping[str, str]) -> str:
    for there, here in names.items():
        if name.startswith(there):
            return here + name.removeprefix(there)
    raise InputError(f"{file}: {whole} is unknown; {_EXPECTED}")


def checked_sizes(file: Path, kind: str, arrays: Arrays) -> dict[str, int]:
    """The sizes that the arrays tell, if an agent or speaker of these has exactly these arrays."""
    shapes = {k: v.shape for k, v in arrays.items()}
    sizes = sizes_of(shapes)
    expected = _shapes_for(kind, sizes)
    for name in sorted(expected.keys() | shapes.keys()):
        own, wanted = shapes.get(name), expected.get(name)
        if own != wanted:
            raise InputError(
                f"{file}: {name} has shape {list(own) if own else 'none'}, expected {list(wanted) if wanted else 'none'} "
                "beside the others; only two-way encoders on word indices (bidir, without ELMo) can be imported"
            )
    return sizes


def _shapes_for(kind: str, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Shapes of our model of these sizes; {} if there is none such."""
    # A speaker does not tell views from angles.
    angle = sizes.get("agent.angle-feature-size", 4)
    try:
        common: dict[str, Any] = {
            "vocabulary": sizes[WORDS],
            "feature": sizes[VIEWS] - angle,
            "angle": angle,
            "hidden": sizes["agent.hidden-size"],
            "word": sizes["agent.word-embedding-size"],
            "dead_layers": bool(sizes[DEAD]),
        }
        with torch.device("meta"):  # shapes without numbers
            if kind == SPEAKER:
                model: torch.nn.Module = Speaker(SpeakerSizes(**common))
            else:
                model = Agent(AgentSizes(**common, action=sizes["agent.action-embedding-size"]))
    except (KeyError, ValueError, RuntimeError):
        return {}
    return {k: tuple(v.shape) for k, v in model.state_dict().items()}
