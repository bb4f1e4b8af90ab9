"""From a public checkpoint to a run: imported on the command line, named with --from, and what is said on the way."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from tests.fedvln_runs import TINY
from tests.harness import toml_from
from tests.vln import envdrop_twin as public

Call = Callable[..., tuple[int, str, str]]
WORDS = ["<PAD>", "<UNK>", "<EOS>", "the", "tot", "door", "walk", "left", "."]
V, H, W, E, A, F = len(WORDS) + 1, 16, 8, 4, 4, 8  # the sizes of TINY
RUN = ["run", "run.toml", "--engine", "inprocess"]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with both checkpoints, their vocabulary, and a run's TOML."""
    torch.manual_seed(0)
    agent = {
        "encoder": public.EncoderLSTM(V, W, H, elmo=False),
        "decoder": public.AttnDecoderLSTM(E, H, F + A, A),
        "critic": public.Critic(H),
    }
    speaker = {
        "encoder": public.SpeakerEncoder(F + A, H),
        "decoder": public.SpeakerDecoder(V, W, H),
    }
    public.save(tmp_path / "agent.pth", agent)
    public.save(tmp_path / "speaker.pth", speaker)
    (tmp_path / "train_vocab.txt").write_text("\n".join(WORDS) + "\n")
    write(tmp_path, stage="train")
    return tmp_path


def write(folder: Path, **changes: Any) -> None:
    (folder / "run.toml").write_text(toml_from(TINY, cache_dir=str(folder / "cache"), **changes))


def imported(call: Call, name: str) -> str:
    """What the command printed."""
    arguments = (f"{name}.pth", "--vocabulary", "train_vocab.txt", "--out", f"models/{name}")
    code, out, err = call("data", "import-envdrop", *arguments, engine=False)
    assert (code, err) == (0, "")
    return out


def test_an_imported_agent_is_where_a_run_starts(call: Call, desk: Path) -> None:
    out = imported(call, "agent")
    assert "models/agent: an agent of" in out and f"{V} words" in out and "left out" in out
    taken = shlex.split(out.splitlines()[-1].removeprefix("runs take it with "))
    assert "agent.masked-pooling=false" in taken
    code, out, err = call(*RUN, *taken, "--set", "name=zero", "--set", "num-rounds=0", engine=False)
    assert code == 0, err
    assert "data.min-word-count is not used" in out
    model = load_file(desk / "runs" / "zero" / "model.safetensors")
    start = load_file(desk / "models" / "agent" / "model.safetensors")
    assert model.keys() == start.keys() and all(np.array_equal(model[k], start[k]) for k in start)
    words = json.loads((desk / "runs" / "zero" / "vocabulary.json").read_text())
    assert words == [*WORDS, "<BOS>"]
    text = ["--set", "data.vocabulary=train_vocab.txt", "--set", "name=one"]
    code, _, err = call(*RUN, "--from", "models/agent", *text, engine=False)
    assert code == 0, err
    code, out, err = call("data", "export-envdrop", "zero", "-o", "back", engine=False)
    assert (code, err) == (0, "") and out.startswith("back/agent: an agent of")
    back = torch.load(desk / "back" / "agent", weights_only=True)["critic"]["state_dict"]
    assert np.array_equal(back["state2value.0.bias"].numpy(), start["critic.inner.bias"])
    trained = load_file(desk / "runs" / "one" / "model.safetensors")
    assert not np.array_equal(trained["decoder.action.weight"], start["decoder.action.weight"])


def test_an_imported_speaker_describes_paths_for_an_imported_agent(call: Call, desk: Path) -> None:
    imported(call, "agent")
    imported(call, "speaker")
    write(desk, stage="augment", speaker_from="models/speaker", vocabulary="train_vocab.txt")
    code, _, err = call(*RUN, "--from", "models/agent", "--set", "name=on", engine=False)
    assert code == 0, err
    assert (desk / "runs" / "on" / "model.safetensors").is_file()


def test_what_was_not_imported_or_fits_otherwise_is_refused_with_its_cure(
    call: Call, desk: Path
) -> None:
    imported(call, "agent")
    imported(call, "speaker")
    words = ["--set", "data.vocabulary=train_vocab.txt"]
    cases = [
        (["--from", "agent.pth", *words], "import it first with `fedsuite data import-envdrop"),
        (["--from", "models", *words], "models holds several runs, such as "),
        (["--from", "cache", *words], "is a folder without model.safetensors"),
        (["--from", "train_vocab.txt", *words], "is no safetensors file"),
        (["--from", "models/agent"], f"knows {V} words, this run "),
        (["--from", "models/speaker", *words], "is a speaker, where an agent is needed"),
        (
            ["--from", "models/agent", *words, "--set", "agent.hidden-size=32"],
            "has agent.hidden-size 16, this run 32; set agent.hidden-size=16, or give another run",
        ),
        (["--from", "models/agent", *words, "--set", "data.generated-feature-size=16"], "give data.features of the width"),
        (["--from", "models/agent", "--set", "data.vocabulary=no.txt"], "no.txt is no file"),
    ]  # fmt: skip
    (desk / "cache").mkdir(exist_ok=True)
    for arguments, text in cases:
        code, _, err = call(*RUN, *arguments, engine=False)
        assert code == 2 and err.count("\n") == 1 and text in err, (arguments, err)
        assert not (desk / "runs").exists() or not any((desk / "runs").rglob("history.jsonl"))


def test_the_default_folder_lies_beside_the_checkpoint(call: Call, desk: Path) -> None:
    code, _, _ = call(
        "data", "import-envdrop", "agent.pth", "--vocabulary", "train_vocab.txt", engine=False
    )
    assert code == 0 and (desk / "agent-imported" / "model.safetensors").is_file()
    code, _, err = call(
        "data", "import-envdrop", "agent.pth", "--vocabulary", "train_vocab.txt", engine=False
    )
    assert code == 2 and err.startswith("error: agent-imported: is there already")
