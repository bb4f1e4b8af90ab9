"""Every stage of FedVLN writes the same bytes twice, and after a cut; what cannot run is refused in one line."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fedsuite.errors import InputError
from fedsuite.history import load_runs
from simulations.commands import cli as command
from tests.fedvln_runs import MARKER, METHODS, Chain, chain_in, results_of
from tests.harness import cli, exit_code_of, here

BEST = {"selection": "best-val-unseen"}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "speaker-centralised": ("speaker", {"method": "centralised"}),
    "speaker-sequential": ("speaker", {"aggregation": "sequential", "selection": "best-val-seen"}),
    "augment": ("augment", {}),
    "augment-shared": ("augment", {"client_optimizer": "shared", "objective": "a2c"}),
    "augment-centralised": ("augment", {"method": "centralised"}),
    **{name: ("pre-explore", changes) for name, changes in METHODS.items()},
    "fed-lan-newest": ("pre-explore", {**METHODS["fed-lan"], **BEST, "personal_encoder": "newest"}),
    "fed-lan-fresh": ("pre-explore", {**METHODS["fed-lan-seen"], "client_optimizer": "fresh"}),
    "fed-lan-sequential": ("pre-explore", {**METHODS["fed-lan"], "aggregation": "sequential"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_stage_and_method_writes_the_same_bytes_twice(chain: Chain, name: str) -> None:
    stage, changes = RUNS[name]
    for twin in ("one", "two"):
        chain.play(f"{name}-{twin}", stage, **changes)
    one, two = (results_of(chain.run(f"{name}-{twin}")) for twin in ("one", "two"))
    assert one == two and len(one) > 2
    scores = load_runs(chain.run(f"{name}-one")).rounds
    split = "bleu-1" if stage == "speaker" else "sr"
    assert scores[f"val_unseen.{split}"].notna().all()


def test_methods_end_at_different_agents(chain: Chain) -> None:
    """Exported agents of one unseen house, after a round from the same start."""
    found = {}
    for name in ("env-based", "fed-full", "fed-lan-seen"):
        chain.play(f"differs-{name}", num_rounds=2, **METHODS[name])
        files = results_of(chain.run(f"differs-{name}"))
        exported = {k: v for k, v in files.items() if k.endswith("/model.safetensors")}
        assert len(set(exported.values())) == len(exported) >= 2
        found[name] = frozenset(v for k, v in exported.items())
    assert len(set().union(*found.values())) == 2 + 2 + 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("lan-last", {**METHODS["fed-lan"], "checkpoint_every": 2}),
        ("lan-best", {**METHODS["fed-lan-seen"], "seen_participation_rate": 1.0, **BEST}),
    ],
)
def test_killed_pre_exploration_resumes_to_the_same_bytes(
    chain: Chain, tmp_path: Path, name: str, changes: dict[str, Any]
) -> None:
    """SIGKILL in round 3, when the first house has trained already and the second has not."""
    changes = {"num_rounds": 4, **changes}
    chain.play(f"{name}-whole", **changes)
    killed = f"{name}-killed"
    toml = chain.write_toml(tmp_path, killed, **changes)
    marker = chain.runs / f"{killed}.{MARKER}"
    marker.touch()
    first = cli(tmp_path, "run", toml, "--engine", "inprocess")
    assert first.returncode != 0 and not marker.exists()
    states = chain.run(killed) / "clients"
    assert list(states.glob("*/round-000003.safetensors"))
    assert not list(states.glob("*/model.safetensors"))
    done = here(tmp_path, "run", "--resume", str(chain.run(killed)), "--engine", "inprocess")
    assert done.returncode == 0, done.stderr
    whole = results_of(chain.run(f"{name}-whole"))
    assert results_of(chain.run(killed)) == whole
    houses = 4 if "seen_participation_rate" in changes else 2
    assert sum(k.endswith("/model.safetensors") for k in whole) == houses


# --- runs that are refused ----------------------------------------------------------------------


@pytest.fixture
def refusal(
    chain: Chain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    """`refusal(stage, **changes)`: the one line with which the command line refuses such a run, having written nothing."""
    monkeypatch.chdir(tmp_path)

    def refusal(stage: str, **changes: Any) -> str:
        toml = chain.write_toml(tmp_path, "refused", stage, **changes)
        monkeypatch.setattr(sys, "argv", ["fedsuite", "run", toml, "--engine", "inprocess"])
        code = exit_code_of(command.main)
        _, err = capsys.readouterr()
        assert code == 2 and err.startswith("error: ") and err.count("\n") == 1, err
        assert "Traceback" not in err
        assert not chain.run("refused").exists()
        return err

    return refusal


SETTINGS: dict[str, tuple[str, dict[str, Any], str]] = {
    "no speaker": ("augment", {"speaker_from": ""}, "speaker-from: empty, but stage augment"),
    "no speaker to explore": ("pre-explore", {"speaker_from": ""}, "speaker-from: empty"),
    "no agent": ("pre-explore", {"start_from": ""}, "start-from: empty"),
    "idle speaker": ("train", {"speaker_from": "x"}, "speaker-from: stage train uses no speaker"),
    "nowhere": ("augment", {"start_from": "/no/such/run"}, "start-from: /no/such/run does not exist"),
    "speaker nowhere": ("augment", {"speaker_from": "/no/run"}, "speaker-from: /no/run does not"),
    "hidden size": ("augment", {"hidden_size": 32}, "has agent.hidden-size 16, this run 32; set agent.hidden-size=16"),
    "dead layers": ("augment", {"dead_layers": True}, "start-from: .* set agent.dead-layers=false, or give another"),
    "unknown stage": ("explore", {}, "stage"),
    "augment alone": ("augment", {"method": "local-only"}, "method: stage augment has no local"),
    "speaker alone": ("speaker", {"method": "local-only"}, "method: stage speaker has no local"),
    "share pooled": (
        "pre-explore", {"method": "centralised", "share": "language-encoder"}, "share: language-encoder is for",
    ),
    "share alone": (
        "pre-explore", {"method": "local-only", "share": "language-encoder"}, "share: language-encoder is for",
    ),
    "seen in training": ("train", {"seen_participation_rate": 0.2}, "seen-participation-rate: "),
    "seen pooled": (
        "pre-explore", {"method": "centralised", "seen_participation_rate": 0.2}, "seen-participation-rate: ",
    ),
    "seen alone": (
        "pre-explore", {"method": "local-only", "seen_participation_rate": 0.2}, "seen-participation-rate: ",
    ),
    "published with seen": (
        "pre-explore",
        {"share": "language-encoder", "seen_participation_rate": 0.2, "participation": "published"},
        "participation: published draws",
    ),
    "seen too often": ("pre-explore", {"seen_participation_rate": 1.2}, "seen-participation-rate"),
    "chosen in seen": ("pre-explore", {"selection": "best-val-seen"}, "selection: pre-exploration scores"),
    "chosen alone": (
        "train", {"method": "local-only", "selection": "best-val-seen"}, "selection: local-only training",
    ),
    "handed on": ("pre-explore", {"client_optimizer": "shared"}, "client-optimizer: shared hands on"),
    "handed on alone": (
        "pre-explore", {"method": "local-only", "client_optimizer": "shared"}, "client-optimizer: local-only",
    ),
    "Adam handed on": ("speaker", {"client_optimizer": "shared"}, "client-optimizer: a speaker's Adam"),
    "walking speaker": ("speaker", {"submission": True}, "submission: a speaker does not walk"),
    "nothing to learn": (
        "pre-explore", {"objective": "none", "generated_weight": 0.0}, "generated-weight: 0 with objective.kind none",
    ),
    "nothing from people": (
        "augment", {"objective": "none", "teacher_weight": 0.0}, "teacher-weight: 0 with objective.kind none",
    ),
    "nothing from the speaker": (
        "augment", {"objective": "none", "generated_weight": 0.0}, "generated-weight: 0 with objective.kind none",
    ),
    "nothing from seen houses": (
        "pre-explore",
        {"objective": "none", "teacher_weight": 0.0, "share": "language-encoder", "seen_participation_rate": 0.5},
        "teacher-weight: 0 with objective.kind none",
    ),
    "a speaker's words unseen": ("augment", {"blind_to": "language"}, "blind-to: language hides annotated"),
    "nothing to describe": ("speaker", {"blind_to": "language"}, "blind-to: language hides annotated"),
    "a speaker's words dealt": ("pre-explore", {"shuffle_instructions": True}, "shuffle-instructions: the instruc"),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_are_refused_in_one_line(refusal: Callable[..., str], case: str) -> None:
    stage, changes, words = SETTINGS[case]
    try:
        line = refusal(stage, **changes)
    except InputError as error:  # a choice that no configuration can hold
        line = str(error)
        assert "\n" not in line
    assert re.search(words, line), line


def _truncate(run: Path) -> None:
    file = run / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])


def _other_words(run: Path) -> None:
    file = run / "vocabulary.json"
    file.write_text(file.read_text().replace("left", "lefft"))


def _other_type(run: Path) -> None:
    file = run / "model.safetensors"
    save_file({k: v.astype(np.float64) for k, v in load_file(file).items()}, file)


def _not_finite(run: Path) -> None:
    arrays = load_file(run / "model.safetensors")
    save_file({k: v * np.float32("nan") for k, v in arrays.items()}, run / "model.safetensors")


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no model": (lambda run: (run / "model.safetensors").unlink(), "has not ended"),
    "half a header": (
        lambda run: (run / "model.safetensors").write_bytes(b"\x40\0\0"),
        "is damaged",
    ),
    "empty": (lambda run: (run / "model.safetensors").write_bytes(b""), "is damaged"),
    "text": (lambda run: (run / "model.safetensors").write_text("weights " * 99), "is damaged"),
    "truncated": (_truncate, "is damaged"),
    "other type": (_other_type, "holds .*float64"),
    "not finite": (_not_finite, "NaN"),
    "no words": (lambda run: (run / "vocabulary.json").unlink(), "word indices cannot be checked"),
    "other words": (_other_words, "has other words"),
    "damaged words": (lambda run: (run / "vocabulary.json").write_text("[1, "), "is damaged"),
}


@pytest.mark.parametrize("key", ["start-from", "speaker-from"])
@pytest.mark.parametrize("case", DAMAGES)
def test_models_that_cannot_be_used_are_refused_in_one_line(
    chain: Chain, tmp_path: Path, refusal: Callable[..., str], key: str, case: str
) -> None:
    damage, words = DAMAGES[case]
    shutil.copytree(chain.run("train" if key == "start-from" else "speaker"), tmp_path / "copy")
    damage(tmp_path / "copy")
    line = refusal("augment", **{key.replace("-", "_"): str(tmp_path / "copy")})
    assert re.match(f"error: (refused.toml: )?{key}: ", line) and re.search(words, line), line


def test_a_speaker_is_no_agent(chain: Chain, refusal: Callable[..., str]) -> None:
    line = refusal("augment", start_from=str(chain.run("speaker")))
    assert re.search("start-from: .* is a speaker, where an agent is needed .*stage train", line)
    line = refusal("augment", speaker_from=str(chain.run("train")))
    assert re.search(
        "speaker-from: .* is an agent, where a speaker is needed .*stage speaker", line
    )
