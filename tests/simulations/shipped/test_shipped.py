"""Configurations by name, their heads, the list of them, and what the shell completes."""

from pathlib import Path

import pytest

from fedsuite.driving.topology import optimal_weights
from fedsuite.errors import InputError
from fedsuite.settings.config import limits_of
from simulations.commands import completion
from simulations.experiments.request import Request, describe
from simulations.shipped import FOLDER, comments_of, config_file, shipped, shipped_names
from simulations.systems import load_system
from tests.mistakes.refusing import Call, said

LONGEST = 100
NEEDS = {
    "nothing", "GPU", "recorded drives", "Room-to-Room", "Room-across-Room", "view features",
    "ResNet-152 features", "CLIP features", "published maps", "published texts", "or nothing",
}  # fmt: skip


@pytest.mark.parametrize("name", shipped_names())
def test_every_file_says_what_it_is_what_it_takes_and_needs(name: str) -> None:
    (found,) = (entry for entry in shipped() if entry.name == name)
    assert len(found.what) <= LONGEST and found.time and found.needs
    commands = [line for line in comments_of(found.file) if "fedsuite run" in line]
    assert commands and any(f"fedsuite run {name}" in line for line in commands)
    runs = "runs of "
    needs = found.needs.partition(runs)
    assert _parts(needs[0]) <= NEEDS
    described = describe(Request(Path(name)), {})
    assert described.source == name
    wanted = {run.table.get("federation.mixing-matrix", "auto") for run in described.runs}
    assert ("extra topology" in found.needs) == bool(wanted & set(optimal_weights.SOLVED))
    keys = ("start-from", "speaker-from")
    started = [str(run.table[k]) for run in described.runs for k in keys if k in run.table]
    assert {f"fedvln/{Path(run).parts[1]}" for run in started} == _parts(needs[2])


def _parts(text: str) -> set[str]:
    return {part.strip() for part in text.split(",") if part.strip()}


def test_a_file_of_that_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = Path("cdl/quickstart")
    for given in (name, name.with_suffix(".toml")):
        assert config_file(given) == FOLDER / "cdl" / "quickstart.toml"
    name.mkdir(parents=True)
    assert config_file(name) == FOLDER / "cdl" / "quickstart.toml"
    own = name.with_suffix(".toml")
    own.write_text("")
    assert config_file(own) == own and config_file(Path("cdl")) == Path("cdl")


@pytest.mark.parametrize(
    ("command", "near"),
    [
        (("run", "fedvln/quikstart"), "did you mean fedvln/quickstart or"),
        (("run", "simulations/cdl/table2.toml"), "did you mean cdl/table2 or"),
        (("config", "quickstart"), "cdl/quickstart"),
        (("deploy", "cost", "fedrl/gridworld"), "fedrl/gridworld-8"),
        (("sweep", "zzz", "--vary", "seed=1,2"), "zzz: no such file; `fedsuite configs`"),
        (("deploy", "init", "kit", "--host", "localhost", "--run", "fedvln/3"), "fedvln/3: no such"),
    ],
)  # fmt: skip
def test_an_unknown_name(call: Call, command: tuple[str, ...], near: str) -> None:
    assert near in said(call(*command, engine=False))


def test_names_hold_wherever_a_toml_does(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("config", "fedvln/three-houses", "--set", "name=x", engine=False)
    assert code == 0 and "generated-seen-houses = 2" in out
    code, out, _ = call("deploy", "cost", "fedvln/three-houses", engine=False)
    assert code == 0 and "| fedvln/three-houses.toml |" in out
    assert list(tmp_path.iterdir()) == []


def test_the_list(call: Call) -> None:
    code, out, _ = call("configs", "fedrl", engine=False)
    assert code == 0
    listed = {line.split()[0] for line in out.splitlines() if line.startswith(" fedrl/")}
    assert listed == {entry.name for entry in shipped("fedrl")}
    assert "11 minutes" in out and "published" in out
    assert "expected one of cdl, fedrl, fedvln" in said(call("configs", "vln", engine=False))


def test_a_shell_completes_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completion.configs("cdl/ta") == ["cdl/table2", "cdl/table3"]
    monkeypatch.chdir(tmp_path)
    assert completion.runs("") == []
    for file in ("runs/one/config.json", "runs/many/experiment.json", "runs/many/a/config.json"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text("{}", encoding="utf-8")
    Path("runs/other").mkdir()
    assert completion.runs("") == ["many", "one"]
    assert completion.runs("many/") == ["many/a"] and completion.runs("o") == ["one"]


def test_fast_mixing_needs_an_extra(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so before anything starts."""
    monkeypatch.setattr(optimal_weights, "find_spec", lambda name: None)
    tree = ("--set", "federation.scenario=mst", "--set", "federation.mixing-matrix=fmmc")
    line = said(call("run", "cdl/quickstart", *tree))
    assert "need cvxpy; pip install 'fedsuite[topology]'" in line
    with pytest.raises(InputError, match="cvxpy"):
        optimal_weights.fastest_weights([(0, 1)], 2, signed=True)
    assert "federation.mixing-matrix" in limits_of(load_system("cdl").config_class)
