"""What runs are called: a name that is asked for, or the TOML's with the system before it, numbered where it is taken."""

import dataclasses
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.progress import Progress
from simulations.experiments.folders import default_name
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from tests import toy
from tests.harness import ROOT, results_of, write_toml

VARIANTS = "[variants.a]\n[variants.b]\nwidth = 2\n"


@pytest.mark.parametrize(
    ("system", "stem", "name"),
    [
        ("fedvln", "quickstart", "fedvln-quickstart"),
        ("cdl", "cdl-small", "cdl-small"),
        ("cdl", "cdl", "cdl"),
        ("cdl", "cdlx", "cdl-cdlx"),
        ("own", "first", "own-first"),
    ],
)
def test_a_default_name_carries_the_system(system: str, stem: str, name: str) -> None:
    assert default_name(system, stem) == name


def test_files_of_one_name_in_two_systems_do_not_collide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for system in ("fedvln", "cdl"):
        toml = ROOT / "simulations" / system / "quickstart.toml"
        folder = plan_experiment(Request(toml)).folder
        assert folder == tmp_path / "runs" / f"{system}-quickstart"
        assert plan_experiment(Request(toml, ["name=own"])).folder == tmp_path / "runs" / "own"


@pytest.mark.parametrize("end", ["", VARIANTS])
def test_a_default_name_that_is_taken_is_numbered(call, tmp_path: Path, end: str) -> None:
    toml = write_toml(tmp_path, "first", num_rounds=1)
    toml.write_text(toml.read_text() + end)
    runs = tmp_path / "runs"
    for name in ("toy-first", "toy-first-2", "toy-first-3"):
        code, out, err = call("run", "first.toml")
        assert (code, err) == (0, "") and f"completed: {runs / name}\n" in out
        told = f"toy-first is there already, this one is {name}\n"
        assert out.count(told) == (name != "toy-first")
    (runs / "toy-first-2").rename(runs / "elsewhere")
    (runs / "toy-first-3" / ".lock").touch()
    assert f"completed: {runs / 'toy-first-2'}\n" in call("run", "first.toml")[1]
    code, out, _ = call("run", "first.toml", "--overwrite", "--set", "num-rounds=2")
    assert code == 0 and f"completed: {runs / 'toy-first'}\n" in out and "already" not in out
    assert len(list(runs.iterdir())) == 4
    for name in ("toy-first", "toy-first-3"):
        code, _, err = call("run", "first.toml", "--set", f"name={name}")
        assert code == 2 and f"{runs / name}: a" in err and "of this name is there already" in err


@pytest.mark.parametrize("stem", ["my run", "my ü"])
def test_a_file_that_no_run_can_be_called_after(call, tmp_path: Path, stem: str) -> None:
    write_toml(tmp_path, stem, num_rounds=1)
    code, _, err = call("run", f"{stem}.toml")
    assert code == 2 and err.count("\n") == 1 and "give --set name=NAME, or rename the file" in err
    assert err.startswith(f"error: {stem}.toml: no run can be called after this file: name must be")
    assert f"got 'toy-{stem}';" in err
    code, _, err = call("run", f"{stem}.toml", "--set", "results-dir=~nobody-here/x")
    assert code == 2 and err.count("\n") == 1
    assert call("run", f"{stem}.toml", "--set", "name=own")[0] == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["own"]


def test_a_typed_sweep_is_numbered_too(call, tmp_path: Path) -> None:
    write_toml(tmp_path, "plain", num_rounds=1, name="own")
    for name in ("own-sweep", "own-sweep-2"):
        code, out, _ = call("run", "plain.toml", "--vary", "width=2", "--metric", "loss")
        assert code == 0 and f"completed: {tmp_path / 'runs' / name}\n" in out


def test_what_others_keep_under_a_default_name_is_left_alone(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=1)
    precious = tmp_path / "runs" / "toy" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    assert call("run", "toy.toml")[0] == 0 and (tmp_path / "runs" / "toy-2").is_dir()
    code, _, err = call("run", "toy.toml", "--overwrite")
    assert code == 2 and "not a run folder" in err
    assert [p.name for p in precious.parent.iterdir()] == ["thesis.txt"]


def test_a_completed_run_is_passed_over_as_in_an_experiment(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=1)
    assert call("run", "toy.toml")[0] == 0
    folder = RunFolder(tmp_path / "runs" / "toy")
    before = results_of(folder), folder.status()
    code, out, _ = call("run", "--resume", "toy")
    assert code == 0 and f"{folder.path}  (completed before)" in out
    assert (results_of(folder), folder.status()) == before


@pytest.fixture
def quicker(monkeypatch: pytest.MonkeyPatch):
    """`quicker(act)`: act() happens while data are prepared, as if another process did it."""

    def quicker(act: Callable[[], object]) -> None:
        prepared = toy.SYSTEM.prepare

        def prepare(settings: toy.ToySettings, progress: Progress) -> Roster:
            act()
            return prepared(settings, progress)

        monkeypatch.setattr(toy, "SYSTEM", dataclasses.replace(toy.SYSTEM, prepare=prepare))

    return quicker


def begin(folder: Path, *names: str) -> None:
    """What a process leaves in its run's folder before the server takes the lock."""
    folder.mkdir(parents=True)
    for name in names or (".unfinished", "roster.json"):
        (folder / name).touch()


@pytest.mark.parametrize("end", ["", VARIANTS])
def test_of_two_processes_at_once_the_later_one_takes_the_next_number(
    call, quicker, tmp_path: Path, end: str
) -> None:
    toml = write_toml(tmp_path, "first", num_rounds=1)
    toml.write_text(toml.read_text() + end)
    other, own = tmp_path / "runs" / "toy-first", tmp_path / "runs" / "toy-first-2"
    quicker(lambda: other.exists() or begin(other))
    code, out, err = call("run", "first.toml")
    assert (code, err) == (0, "") and f"completed: {own}\n" in out
    assert "toy-first is there already, this one is toy-first-2\n" in out
    assert {path.name for path in other.iterdir()} == {".unfinished", "roster.json"}


def test_what_was_left_over_is_used_when_nobody_writes_there(
    call, quicker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulations.experiments.running.MOMENT_S", 0.0)
    write_toml(tmp_path, num_rounds=1)
    quicker(lambda: begin(tmp_path / "runs" / "toy", ".lock"))
    assert f"completed: {tmp_path / 'runs' / 'toy'}\n" in call("run", "toy.toml")[1]


def test_a_name_that_was_asked_for_is_refused_while_another_process_writes_there(
    call, quicker, tmp_path: Path
) -> None:
    write_toml(tmp_path, num_rounds=1, name="own")
    folder = RunFolder(tmp_path / "runs" / "own")
    with ExitStack() as stack:

        def write() -> None:
            begin(folder.path)
            if len(complaints) == 1:
                stack.enter_context(folder.locked())

        quicker(write)
        complaints: list[str] = []
        for _ in range(2):
            code, _, err = call("run", "toy.toml")
            assert code == 2 and err.count("\n") == 1
            complaints.append(err)
            shutil.rmtree(folder.path)
    assert "own: another process is about to begin a run here" in complaints[0]
    assert "own: another process is writing to this run" in complaints[1]


def test_a_run_that_goes_on_keeps_its_place(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=1)
    toml = write_toml(tmp_path, "two", num_rounds=1)
    toml.write_text(toml.read_text() + VARIANTS)
    assert call("run", "toy.toml")[0] == 0 and call("run", "two.toml")[0] == 0
    for name, change in (
        ("toy", "name=other"),
        ("toy-two", "name=other"),
        ("runs/toy", "results-dir=elsewhere"),
        ("runs/toy-two/a", "name=b"),
    ):
        code, _, err = call("run", "--resume", name, "--set", change)
        assert code == 2 and err.count("\n") == 1
        assert "--set: a run that goes on keeps its name and place" in err
    for name, change in (
        ("toy", "name=toy"),
        ("toy-two", "results-dir=runs"),
        ("runs/toy-two/a", "results-dir=runs"),
    ):
        assert call("run", "--resume", name, "--set", change)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "toy.toml", "two.toml"}


def test_a_roster_is_remarked_on_only_where_the_user_gave_one(call, tmp_path: Path) -> None:
    """A run that goes on without its TOML finds the roster that it left itself, also after a move."""
    write_toml(tmp_path, num_rounds=1)
    remark = "roster: nothing reads it with --engine inprocess"
    assert remark not in call("run", "toy.toml")[1]
    assert remark not in call("run", "--resume", "toy", "--set", "num-rounds=2")[1]
    (tmp_path / "runs" / "toy").rename(tmp_path / "moved")
    code, out, _ = call("run", "--resume", "moved", "--set", "num-rounds=3")
    assert code == 0 and remark not in out
    given = ["--set", "num-rounds=4", "--set", "roster=mine.json"]
    code, out, _ = call("run", "--resume", "moved", *given)
    assert code == 0 and remark in out


@pytest.mark.parametrize("ending", ["running", "failed"])
def test_a_run_that_was_killed_before_it_began_leaves_its_name_free(
    call, tmp_path: Path, ending: str
) -> None:
    """By kill -9 at any moment until its settings are written; a run that goes on keeps its name."""
    write_toml(tmp_path, num_rounds=1, name="own")
    folder = RunFolder(tmp_path / "runs" / "own")
    folder.path.mkdir(parents=True)
    for name in (".lock", ".unfinished", ".run.json.17.partial", "run-key", "roster.json"):
        (folder.path / name).write_text("")
    folder.begin()
    if ending == "failed":
        folder.end("failed", "no data", "input")
    with folder.locked():
        code, _, err = call("run", "toy.toml")
        assert code == 2 and "another process is writing to this run" in err
    code, out, err = call("run", "toy.toml")
    assert (code, err) == (0, "") and f"completed: {folder.path}\n" in out
