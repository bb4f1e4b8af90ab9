"""`--from RUN`: what start-from becomes, and what is refused."""

import dataclasses
import json
from pathlib import Path

import pytest

from fedsuite.settings.config import setting
from tests import toy
from tests.harness import write_toml


@dataclasses.dataclass(frozen=True)
class StartingSettings(toy.ToySettings):
    """A toy that can go on from a run."""

    start_from: str = setting("", "a run to go on from", path=True)


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy system with the key start-from."""
    system = dataclasses.replace(toy.SYSTEM, config_class=StartingSettings)
    monkeypatch.setattr(toy, "SYSTEM", system)


def stored_start(folder: Path) -> str:
    return str(json.loads((folder / "config.json").read_text())["start-from"])


@pytest.mark.usefixtures("starting")
def test_from_takes_a_path_or_a_name(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=1)
    assert call("run", "toy.toml", "--set", "name=agent-0")[0] == 0
    first = tmp_path / "runs" / "agent-0"
    for given, expected in (
        ("agent-0", first),
        ("runs/agent-0", first),
        (str(first), first),
        ("runs/agent-0/model.safetensors", first / "model.safetensors"),
    ):
        code, _, err = call("run", "toy.toml", "--from", given, "--overwrite")
        assert (code, err) == (0, "")
        assert stored_start(tmp_path / "runs" / "toy") == str(expected)
    toml = write_toml(tmp_path, "exp", num_rounds=1)
    toml.write_text(toml.read_text() + "[variants.a]\n[variants.b]\nwidth = 2\n")
    assert call("run", "exp.toml", "--from", "agent-0")[0] == 0
    assert {stored_start(tmp_path / "runs" / "toy-exp" / v) for v in "ab"} == {str(first)}


@pytest.mark.usefixtures("starting")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["toy.toml", "--from", "none"], "--from: none: no such run or model; `fedsuite runs`"),
        (["toy.toml", "--from", ".", "--set", "start-from=."], "say the same; give one of them"),
        (["--from", "."], "--from: give the CONFIG.toml too"),
        (["--resume", ".", "--from", "."], "--from starts a run and --resume continues one"),
    ],
)
def test_bad_from(call, tmp_path: Path, arguments: list[str], complaint: str) -> None:
    write_toml(tmp_path)
    code, _, err = call("run", *arguments)
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and complaint in err
    assert not (tmp_path / "runs").exists()
