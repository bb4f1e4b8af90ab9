"""Checkpoints of the public EnvDrop code: imported, they compute what they computed there; others are refused in a line."""

import collections
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from fedsuite.arrays import load_arrays
from fedsuite.errors import InputError
from fedsuite.vln.envdrop import import_checkpoint
from fedsuite.vln.envdrop_export import export_checkpoint
from fedsuite.vln.model.agent import AgentSizes, Panorama, build_agent
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.speaker import PathViews, SpeakerSizes, build_speaker
from tests.vln import envdrop_twin as public

WORDS = ["<PAD>", "<UNK>", "<EOS>", "the", "tot", "door", ".", "left"]  # and <BOS>
V, F, A, H, W, E = len(WORDS) + 1, 10, 8, 12, 6, 5
SIZES: dict[str, Any] = {"vocabulary": V, "feature": F, "angle": A, "hidden": H, "word": W}
Modules = dict[str, nn.Module]


@pytest.fixture
def doubles() -> Iterator[None]:
    """Computed in float64, so that the order of sums does not hide a difference."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def agent_of_public_code(elmo: bool = False) -> Modules:
    torch.manual_seed(3)
    made: Modules = {
        "encoder": public.EncoderLSTM(V, W, H, elmo),
        "decoder": public.AttnDecoderLSTM(E, H, F + A, A),
        "critic": public.Critic(H).eval(),
    }
    return enlarged(made)


def speaker_of_public_code() -> Modules:
    torch.manual_seed(4)
    return enlarged(
        {"encoder": public.SpeakerEncoder(F + A, H), "decoder": public.SpeakerDecoder(V, W, H)}
    )


def enlarged(modules: Modules) -> Modules:
    """Larger weights than the initial ones, so that outputs differ well."""
    with torch.no_grad():
        for parameter in (p for m in modules.values() for p in m.parameters()):
            parameter.copy_((parameter * 2.5).float())  # as a checkpoint has them
    return modules


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    file = tmp_path / "train_vocab.txt"
    file.write_text("\n".join(WORDS) + "\n")
    return file


def angles(generator: torch.Generator, *shape: int) -> Tensor:
    """[sin, cos, sin, cos] of random directions, [.., 4]."""
    heading, elevation = (torch.rand(*shape, generator=generator) * 6 for _ in range(2))
    return torch.stack([heading.sin(), heading.cos(), elevation.sin(), elevation.cos()], -1)


def full(visual: Tensor, angle: Tensor) -> Tensor:
    """Features at the width that the public code has: angles repeated A / 4 times."""
    return torch.cat([visual, angle.repeat(*[1] * (angle.dim() - 1), A // 4)], -1)


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
def test_an_imported_agent_decides_as_it_did(
    tmp_path: Path, vocabulary: Path, options: dict[str, Any]
) -> None:
    """Encoder, two decisions, critic; in PyTorch's present file format and in that of 2019."""
    there = agent_of_public_code(elmo=bool(options))
    file = public.save(tmp_path / "best_val_unseen", there, **options)
    import_checkpoint(file, vocabulary, tmp_path / "out")
    agent = build_agent(AgentSizes(**SIZES, action=E), seed=0, masked_pooling=False)
    load_arrays(agent, load_file(tmp_path / "out" / "model.safetensors"))
    g = torch.Generator().manual_seed(0)
    batch, candidates = 3, 4
    length = torch.tensor([7, 5, 2])
    tokens = torch.randint(1, V, (batch, 7), generator=g)
    tokens[torch.arange(7) >= length[:, None]] = 0
    with torch.no_grad():
        context, state, cell = there["encoder"](tokens, length)
        ours, our_state, our_cell = agent.encoder(tokens, length, NO_DROPOUT)
        assert_equal((ours.context, context), (our_state, state), (our_cell, cell))
        for _ in range(2):
            views, candidate = (
                torch.rand(batch, 36, F, generator=g),
                torch.rand(batch, candidates, F, generator=g),
            )
            look, towards, pose = (
                angles(g, *s) for s in ((batch, 36), (batch, candidates), (batch,))
            )
            choices = torch.cat([full(candidate, towards), torch.zeros(batch, 1, F + A)], 1)
            logits, hidden, cell, state = there["decoder"](
                full(torch.zeros(batch, 0), pose), full(views, look), choices, state, cell, context, tokens == 0
            )  # fmt: skip
            see = Panorama(
                views,
                look,
                candidate,
                towards,
                torch.zeros(batch, candidates, dtype=torch.bool),
                pose,
                torch.zeros(batch, candidates, dtype=torch.int64),
            )
            got, our_hidden, our_cell, our_state = agent.decoder(
                see, our_state, our_cell, ours, NO_DROPOUT, Gathered()
            )
            stop_first = torch.cat([logits[:, -1:], logits[:, :-1]], 1)
            assert_equal(
                (got, stop_first), (our_hidden, hidden), (our_cell, cell), (our_state, state)
            )
            value = there["critic"](hidden)
            assert_equal((agent.critic(our_hidden, NO_DROPOUT), value))
            assert logits.std() > 0.1 and value.std() > 0.01, "inputs that tell nothing"


@pytest.mark.usefixtures("doubles")
def test_an_imported_speaker_writes_as_it_did(tmp_path: Path, vocabulary: Path) -> None:
    """Paths of one length: the public code reads over the padding of others, see docs/fedvln-differences.md."""
    there = speaker_of_public_code()
    import_checkpoint(public.save(tmp_path / "speaker.pth", there), vocabulary, tmp_path / "out")
    speaker = build_speaker(SpeakerSizes(**SIZES), seed=0)
    load_arrays(speaker, load_file(tmp_path / "out" / "model.safetensors"))
    g = torch.Generator().manual_seed(1)
    batch, places = 3, 4
    views, actions = (
        torch.rand(batch, places, 36, F, generator=g),
        torch.rand(batch, places, F, generator=g),
    )
    look, towards = angles(g, batch, places, 36), angles(g, batch, places)
    tokens = torch.randint(3, V, (batch, 6), generator=g)
    path = PathViews(views, look, actions, towards, torch.full((batch,), places))
    with torch.no_grad():
        context = there["encoder"](full(actions, towards), full(views, look))
        logits = there["decoder"](tokens, context)[:, :-1].flatten(0, 1)
        ours = speaker.encoder(path, NO_DROPOUT)
        assert_equal((ours.context, context), (speaker(path, tokens, NO_DROPOUT)[0], logits))
    assert logits.std() > 0.1


def assert_equal(*pairs: tuple[Tensor, Tensor]) -> None:
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=0)


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("make", [agent_of_public_code, speaker_of_public_code])
def test_what_is_written_is_what_a_run_of_these_settings_has(
    tmp_path: Path, vocabulary: Path, make: Callable[[], Modules], dead: bool
) -> None:
    lines = import_checkpoint(
        public.save(tmp_path / "x", make()), vocabulary, tmp_path / "out", dead
    )
    is_agent = make is agent_of_public_code
    sizes = {**SIZES, "dead_layers": dead}
    model = (
        build_agent(AgentSizes(**sizes, action=E), 0)
        if is_agent
        else build_speaker(SpeakerSizes(**sizes), 0)
    )
    arrays = load_file(tmp_path / "out" / "model.safetensors")
    assert {k: v.shape for k, v in arrays.items()} == {
        k: tuple(v.shape) for k, v in model.state_dict().items()
    }
    assert all(v.dtype == np.float32 for v in arrays.values())
    assert json.loads((tmp_path / "out" / "vocabulary.json").read_text()) == [*WORDS, "<BOS>"]
    assert f"{V} words" in lines[0] and f"agent.hidden-size={H}" in lines[-1]
    assert f"agent.dead-layers={str(dead).lower()}" in lines[-1]
    assert ("start-from=" if is_agent else "speaker-from=") in lines[-1]
    left = "view_attention.output" if is_agent else "baseline.0.weight"
    assert any(left in line for line in lines) != dead, "what is left out is said"


def refused(*arguments: Any) -> str:
    with pytest.raises(InputError) as error:
        import_checkpoint(*arguments)
    line = str(error.value)
    assert "\n" not in line
    return line


class Unsafe:
    """What no tensor file holds."""


def damage(**changes: Any) -> dict[str, Any]:
    """An agent's checkpoint with some arrays replaced (None: left out), by module__name with dots as __."""
    content = {k: {"state_dict": dict(m.state_dict())} for k, m in agent_of_public_code().items()}
    for key, value in changes.items():
        module, _, name = key.replace("__", ".").partition(".")
        content[module]["state_dict"].pop(name, None)
        if value is not None:
            content[module]["state_dict"][name] = value
    return content


def without(module: str) -> dict[str, Any]:
    return {k: v for k, v in damage().items() if k != module}


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "a class": (lambda: {"encoder": Unsafe()}, "safe loader refuses it"),
    "a counter": (lambda: {"encoder": collections.Counter({"a": 1})}, "modules with a state_dict"),
    "a list": (lambda: [1, 2], "no modules with a state_dict"),
    "a state alone": (lambda: {"w": torch.ones(2)}, "no modules with a state_dict"),
    "no module": (lambda: {}, "holds no module; expected one of R2R-EnvDrop"),
    "another module": (lambda: {**damage(), "extra": {"state_dict": {}}}, "holds critic, decoder, encoder, extra"),
    "no decoder": (lambda: without("decoder"), "holds critic, encoder; expected"),
    "an agent without critic": (lambda: without("critic"), "encoder.embedding.weight is unknown"),
    "a stranger": (lambda: damage(decoder__lstm2__x=torch.ones(1)), "decoder.lstm2.x is unknown"),
    "numbers": (lambda: damage(critic__state2value__0__bias=3), "critic.state2value.0.bias is no tensor of numbers"),
    "one way": (
        lambda: damage(encoder__lstm__weight_ih_l0_reverse=None), "encoder.lstm.weight_ih_l0_reverse has shape none",
    ),
    "another shape": (lambda: damage(critic__state2value__3__bias=torch.ones(2)), "critic.value.bias has shape [2]"),
    "no number": (lambda: damage(critic__state2value__3__bias=torch.full((1,), torch.nan)), "NaN or infinity"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_checkpoint_of_envdrop_is_refused(
    tmp_path: Path, vocabulary: Path, case: str
) -> None:
    make, text = CASES[case]
    torch.save(make(), tmp_path / "file.pth")
    line = refused(tmp_path / "file.pth", vocabulary, tmp_path / "out")
    assert line.startswith(f"{tmp_path / 'file.pth'}: ") and text in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04", b"\x80\x02.", None])
def test_files_that_cannot_be_read(tmp_path: Path, vocabulary: Path, content: bytes | None) -> None:
    file = tmp_path / "file.pth"
    if content is not None:
        file.write_bytes(content)
    line = refused(file, vocabulary, tmp_path / "out")
    assert str(file) in line


@pytest.mark.parametrize("cut", [100, 2000, -1])
def test_truncated_checkpoints(tmp_path: Path, vocabulary: Path, cut: int) -> None:
    file = public.save(tmp_path / "file.pth", agent_of_public_code())
    file.write_bytes(file.read_bytes()[:cut])
    assert "truncated or damaged" in refused(file, vocabulary, tmp_path / "out")


def test_the_vocabulary_must_be_its_own_and_the_folder_new(
    tmp_path: Path, vocabulary: Path
) -> None:
    file = public.save(tmp_path / "file.pth", agent_of_public_code())
    vocabulary.write_text(vocabulary.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    line = refused(file, vocabulary, tmp_path / "out")
    assert f"knows {V} words, but {vocabulary} has {V + 1} with <BOS>" in line
    vocabulary.write_text("\n".join(WORDS), encoding="utf-8")
    import_checkpoint(file, vocabulary, tmp_path / "out")
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    assert "is there already, nothing in it was touched" in refused(
        file, vocabulary, tmp_path / "out"
    )
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("make", [agent_of_public_code, speaker_of_public_code])
def test_what_was_imported_goes_back_to_the_byte(
    tmp_path: Path, vocabulary: Path, make: Callable[[], Modules], dead: bool
) -> None:
    """import(export(x)) = x, and with the layers that nothing reads export(import(y)) has all tensors of y."""
    there = make()
    import_checkpoint(public.save(tmp_path / "x", there), vocabulary, tmp_path / "ours", dead)
    lines = export_checkpoint(tmp_path / "ours", tmp_path / "back")
    name = "agent" if make is agent_of_public_code else "speaker"
    assert (
        lines[0].startswith(f"{tmp_path / 'back' / name}: a") and f"{len(WORDS)} words" in lines[0]
    )
    assert any("which nothing reads" in line for line in lines) != dead
    assert any("pools words over padding" in line for line in lines) == (name == "agent")
    assert (tmp_path / "back" / "train_vocab.txt").read_bytes() == vocabulary.read_bytes()
    written = torch.load(tmp_path / "back" / name, weights_only=True)
    for module, layers in there.items():
        got, want = written[module]["state_dict"], layers.state_dict()
        assert got.keys() <= want.keys() and (got.keys() == want.keys()) >= dead
        assert all(torch.equal(got[k], want[k].float()) for k in got)
        layers.load_state_dict({**want, **got})
    import_checkpoint(
        tmp_path / "back" / name, tmp_path / "back" / "train_vocab.txt", tmp_path / "again", dead
    )
    for file in ("model.safetensors", "vocabulary.json"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "ours" / file).read_bytes()


def export_refusal(*arguments: Any) -> str:
    with pytest.raises(InputError) as error:
        export_checkpoint(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_has_no_names_there_is_not_exported(tmp_path: Path, vocabulary: Path) -> None:
    file = public.save(tmp_path / "x", agent_of_public_code())
    import_checkpoint(file, vocabulary, tmp_path / "ours")
    model, out = tmp_path / "ours" / "model.safetensors", tmp_path / "back"
    arrays = load_file(model)
    assert "import-envdrop" in export_refusal(file, out)
    save_file(arrays | {"decoder.own.weight": np.zeros(2, np.float32)}, model)
    assert "holds decoder.own.weight, which the EnvDrop code has not" in export_refusal(model, out)
    save_file({k: v for k, v in arrays.items() if not k.startswith("critic")}, model)
    assert "critic.inner.bias has shape none" in export_refusal(model, out)
    save_file({"w": np.zeros(2, np.float32)}, model)
    assert "holds w, which the EnvDrop code has not" in export_refusal(model, out)
    save_file(arrays, model)
    export_checkpoint(model, out)
    assert "is there already, nothing in it was touched" in export_refusal(model, out)
    words = json.loads((tmp_path / "ours" / "vocabulary.json").read_text())
    (tmp_path / "ours" / "vocabulary.json").write_text(json.dumps([*words[:-1], "more", "<BOS>"]))
    assert f"knows {V} words, but" in export_refusal(model, tmp_path / "new")
