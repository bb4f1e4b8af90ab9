"""What a shell is offered for --set: by typer's own protocol, as zsh and bash call it, and by the callback."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from fedsuite.settings.config import limits_of
from simulations.commands import completion
from simulations.commands.cli import app
from simulations.systems import load_system
from tests.harness import ROOT, run_toy

COMMANDS = typer.main.get_command(app)


def offered(*words: str) -> list[str]:
    """For a command line that ends with --set and the beginning of a key."""
    *before, begun = words
    top = COMMANDS.make_context("fedsuite", list(before), resilient_parsing=True)
    command = COMMANDS.commands[before[0]]  # type: ignore[attr-defined]
    rest = before[1:]
    if hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    with command.make_context(before[0], rest, parent=top, resilient_parsing=True) as ctx:
        return [value for value, _ in completion.changes(ctx, begun)]


@pytest.mark.parametrize(
    ("words", "system"),
    [
        (("run", "--set", ""), "fedvln"),
        (("run", "fedvln/quickstart", "--set", ""), "fedvln"),
        (("run", "cdl/quickstart", "--set", ""), "cdl"),
        (("run", "--set", "seed=1", "cdl/quickstart", "--seeds", "0,1", "--set", ""), "cdl"),
        (("sweep", "fedrl/gridworld-8", "--set", ""), "fedrl"),
        (("config", "fedrl/gridworld-8", "--set", ""), "fedrl"),
        (("data", "export", "roads", "--to", "lerobot", "--set", ""), "cdl"),
        (("data", "export", "houses", "--set", ""), "fedvln"),
    ],
)
def test_all_keys_of_what_stands_before(words: tuple[str, ...], system: str) -> None:
    keys = limits_of(load_system(system).config_class)
    assert offered(*words) == [f"{key}=" for key in keys]


def test_beginnings_and_values() -> None:
    run = ("run", "fedvln/quickstart", "--set")
    assert offered(*run, "data.gen") == [
        f"data.generated-{name}="
        for name in ("seed", "seen-houses", "unseen-houses", "paths-per-house", "feature-size")
    ]
    assert offered(*run, "data.dataset=") == [
        f"data.dataset={name}" for name in ("r2r", "rxr", "r4r", "reverie", "ndh")
    ]
    assert offered(*run, "data.dataset=r4") == ["data.dataset=r4r"]
    assert offered(*run, "agent.masked-pooling=") == [
        "agent.masked-pooling=true",
        "agent.masked-pooling=false",
    ]
    assert offered(*run, "seed=") == offered(*run, "nothing.such=") == offered(*run, "zzz") == []
    assert offered("run", "no/such", "--set", "") == []


def test_keys_of_a_run_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_toy(tmp_path / "runs", name="own", num_rounds=1)
    monkeypatch.chdir(tmp_path)
    assert offered("run", "--resume", "own", "--set", "wid") == ["width="]
    assert offered("run", "--resume", "gone", "--set", "") == []


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["zsh", "bash", "fish"])
def test_a_shell_asks_and_is_answered(tmp_path: Path, shell: str) -> None:
    line = "fedsuite run cdl/quickstart --set network.dro"
    asked = {
        "_FEDSUITE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args", "COMP_WORDS": line, "COMP_CWORD": "4",
    }  # fmt: skip
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'fedsuite'; from simulations.commands.cli import main; main()",
    ]
    told = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **asked, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert re.search(r"\bnetwork\.dropout=", told.stdout), told
