"""Experiments of several runs, with the toy system in this process: order, folders, bytes, stopping and going on."""

import dataclasses
import json
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder, variant_of
from fedsuite.runs.versions import Versions
from fedsuite.storage.progress import Progress, silent
from simulations.commands import cli as command
from simulations.experiments.comparison import add_rounds
from simulations.experiments.folders import labels_of
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from tests import toy
from tests.harness import exit_code_of, here, results_of, run_toy, start_cli, wait_for_checkpoint

INPROCESS = ("--engine", "inprocess")
TWO = """
[variants.wide]
width = 6
[variants.a-narrow]
width = 2
step-size = 0.05
"""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`call("run", ...)` in `tmp_path`, in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        engine = INPROCESS if arguments[0] == "run" else ()
        monkeypatch.setattr(sys, "argv", ["fedsuite", *arguments, *engine])
        code = exit_code_of(command.main)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def write(
    folder: Path, end: str = TWO, system: str = "SYSTEM", top: str = "num-rounds = 3"
) -> Path:
    """exp.toml of the toy system, whose runs are called exp unless `top` says otherwise."""
    path = folder / "exp.toml"
    top = top if "name =" in top else f'name = "exp"\n{top}'
    path.write_text(f'system = "tests.toy:{system}"\n{top}\n{end}')
    return path


def run_at(tmp_path: Path, label: str) -> RunFolder:
    """A run of the experiment."""
    return RunFolder(tmp_path / "runs" / "exp" / label)


def times_of(folder: RunFolder) -> tuple[str, int]:
    """When a run began, and which file of its history this is: both change if it is played again."""
    return folder.status()["started"], (folder.path / "history.jsonl").stat().st_ino


def interrupt_fit(
    monkeypatch: pytest.MonkeyPatch, width: int, number: int, error: BaseException
) -> None:
    """The first client of the run with this `width` raises in this round, once."""
    original, raised = toy.ToyClient.fit, []

    def fit(self, parameters, config):
        if self.c.width == width and config["round"] == number and not raised:
            raised.append(True)
            raise error
        return original(self, parameters, config)

    monkeypatch.setattr(toy.ToyClient, "fit", fit)


def test_variants_are_played_in_order_as_ordinary_runs(call, tmp_path: Path) -> None:
    write(tmp_path)
    code, out, err = call("run", "exp.toml")
    assert (code, err) == (0, "")
    assert -1 < out.index("[1/2] wide") < out.index("[2/2] a-narrow") < out.index(" seeds ")
    assert out.rstrip().endswith(f"completed: {tmp_path / 'runs' / 'exp'}")
    for label, keys in (("wide", {"width": 6}), ("a-narrow", {"width": 2, "step_size": 0.05})):
        own = run_toy(tmp_path / label, num_rounds=3, **keys)
        assert results_of(run_at(tmp_path, label)) == results_of(own)
        stored = json.loads(run_at(tmp_path, label).config.read_text())
        assert (stored["name"], stored["resume"]) == (label, "")
        assert stored["results-dir"] == str(tmp_path / "runs" / "exp")
        assert (run_at(tmp_path, label).path / "closing.txt").is_file()
    record = json.loads((tmp_path / "runs" / "exp" / "experiment.json").read_text())
    assert record["variants"] == ["wide", "a-narrow"] and record["seeds"] == []
    assert len(record["source-sha256"]) == 64 and str(tmp_path) not in json.dumps(record)


def test_the_default_comparison_holds_the_last_metrics(call, tmp_path: Path) -> None:
    write(tmp_path)
    call("run", "exp.toml")
    lines = (tmp_path / "runs" / "exp" / "results.md").read_text().splitlines()
    assert lines[0] == "| variant | seeds | loss | train-loss |"
    history = (run_at(tmp_path, "wide").path / "history.jsonl").read_text().splitlines()
    rows = [r for r in map(json.loads, history) if r["kind"] in ("round", "closing")]
    loss, train = rows[-1]["metrics"]["loss"], rows[-2]["metrics"]["train-loss"]
    assert lines[2] == f"| wide | 1 | {loss:.4f} | {train:.4f} |"


@pytest.mark.parametrize(
    ("end", "folders", "own"),
    [
        ("", ["seed-4", "seed-1"], {}),
        ("[variants.w]\nwidth = 5\n", ["w/seed-4", "w/seed-1"], {"width": 5}),
    ],
)
def test_seeds(call, tmp_path: Path, end: str, folders: list[str], own: dict) -> None:
    write(tmp_path, end, top="num-rounds = 2\nseeds = [4, 1]")
    code, out, err = call("run", "exp.toml")
    assert (code, err) == (0, "")
    assert out.index(f"[1/2] {folders[0]}") < out.index(f"[2/2] {folders[1]}")
    losses = []
    for label, seed in zip(folders, (4, 1), strict=True):
        alone = run_toy(tmp_path / f"alone-{seed}", num_rounds=2, seed=seed, **own)
        assert results_of(run_at(tmp_path, label)) == results_of(alone)
        rows = (alone.path / "history.jsonl").read_text().splitlines()
        losses.append(json.loads(rows[-1])["metrics"]["loss"])
    table = (tmp_path / "runs" / "exp" / "results.md").read_text().splitlines()
    name = "w" if own else "exp"
    mean, spread = np.mean(losses), np.std(losses, ddof=1)
    assert table[2].startswith(f"| {name} | 2 | {mean:.4f} ± {spread:.4f} |") and len(table) == 3
    code, _, err = call("run", "--resume", "exp", "--set", "seed=3")
    assert code == 2 and "--set: seed is given by the experiment's seeds" in err


@pytest.mark.parametrize(
    ("top", "end", "complaint"),
    [
        ("", "[variants.a]\n[variants.dfl]\nwdth = 1\n", "exp.toml: [variants.dfl] unknown key 'wdth'; did"),
        ("", "[variants.a]\n[variants.b]\nwidth = 0\n", "exp.toml: [variants.b] width must be a value >="),
        ("wdth = 1", TWO, "exp.toml: unknown key 'wdth'; did you mean 'width'?"),
        ("", '[variants.a]\n[variants.b]\ndata-file = "no"\n', "exp.toml: [variants.b] no: no such file"),
        ("", "[variants.a]\nwidth = [1]\n", "exp.toml: [variants.a] width must be a whole number"),
        ("", "[variants.v1.5]\nwidth = 1\n", "exp.toml: [variants.v1] unknown section [5]"),
        ("variants = 3", "", "exp.toml: variants must be tables [variants.NAME], got 3"),
        ("", "[variants]\n", "exp.toml: variants must be tables"),
        ("", "[variants]\nwidth = 2\n", "exp.toml: variants must be tables"),
        ("", '[variants."a/b"]\n', "exp.toml: [variants.a/b] the name must be letters"),
        ("", '[variants."../b"]\n', "the name must be letters"),
        ("", "[variants.seed-1]\n", "must not be seed-NUMBER"),
        ("", '[variants.a]\nname = "x"\n', "exp.toml: [variants.a] name cannot differ"),
        ("", '[variants.a]\nresults-dir = "x"\n', "[variants.a] results-dir cannot differ"),
        ("", '[variants.a]\nresume = "x"\n', "[variants.a] resume cannot differ"),
        ("", '[variants.a]\nsystem = "fedvln"\n', "[variants.a] system cannot differ"),
        ("seeds = []", "", "exp.toml: seeds must be a list of different whole numbers"),
        ("seeds = [1, 1]", "", "seeds must be a list of different"),
        ("seeds = [true]", "", "seeds must be a list of different"),
        ("seeds = [-1]", "", "seeds must be a list of different"),
        ("seeds = 3", "", "seeds must be a list of different"),
        ("seeds = [1]\nseed = 1", "", "seed and seeds are both given"),
        ("seeds = [1]", "[variants.a]\nseed = 1\n", "[variants.a] seed cannot differ"),
        ('name = "a/b"', TWO, "name must be letters, digits"),
        ('resume = "x"', TWO, "resume: use the option --resume RUN"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_before_anything_starts(
    call, tmp_path: Path, top: str, end: str, complaint: str
) -> None:
    write(tmp_path, end, top=top)
    code, _, err = call("run", "exp.toml")
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and complaint in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("end", "arguments", "complaint"),
    [
        (TWO, ["--set", "width=x"], "error: --set: width must be a whole number, got 'x'"),
        (TWO, ["--set", "width=0"], "error: --set: width must be a value >= 1, got 0"),
        (TWO, ["--only", "narrow"], "--only: no variant 'narrow'; did you mean 'a-narrow'?"),
        ("", ["--only", "wide"], "--only: this is a single run without [variants.NAME]"),
        (TWO, ["--resume", "exp"], "exp: no such run folder"),
        (TWO, ["--resume", "exp", "--overwrite"], "give one of them"),
    ],
)
def test_bad_options(call, tmp_path: Path, end: str, arguments: list[str], complaint: str) -> None:
    write(tmp_path, end)
    code, _, err = call("run", "exp.toml", *arguments)
    assert code == 2 and err.count("\n") == 1 and complaint in err
    assert not (tmp_path / "runs").exists()


def test_set_wins_over_variants_and_places_the_experiment(call, tmp_path: Path) -> None:
    write(tmp_path)
    changes = ["width=3", "num-rounds=1", "name=other", "results-dir=r"]
    code, _, err = call("run", "exp.toml", *[a for c in changes for a in ("--set", c)])
    assert (code, err) == (0, "")
    for label, step in (("wide", 0.1), ("a-narrow", 0.05)):
        stored = json.loads((tmp_path / "r" / "other" / label / "config.json").read_text())
        assert (stored["width"], stored["step-size"], stored["num-rounds"]) == (3, step, 1)


def test_an_interrupted_experiment_goes_on_without_the_file(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml = write(tmp_path, TWO + "[variants.third]\n")
    interrupt_fit(monkeypatch, width=2, number=2, error=KeyboardInterrupt())
    code, _, err = call("run", "exp.toml")
    assert code == 130 and err.count("\n") == 1
    folder = tmp_path / "runs" / "exp"
    assert f"continue with: fedsuite run --resume {folder} --engine inprocess\n" in err
    assert run_at(tmp_path, "a-narrow").status()["status"] == "stopped"
    assert not run_at(tmp_path, "third").path.exists()
    first = times_of(run_at(tmp_path, "wide"))
    assert call("run", "exp.toml")[0] == 2  # it is there already
    toml.unlink()
    code, out, err = call("run", "--resume", "exp")
    assert (code, err) == (0, "")
    assert "[1/3] wide  (completed before)" in out and "[3/3] third" in out
    assert "round 1/3" not in out[out.index("[2/3]") : out.index("[3/3]")]  # not from the start
    assert times_of(run_at(tmp_path, "wide")) == first
    own = {"wide": {"width": 6}, "a-narrow": {"width": 2, "step_size": 0.05}, "third": {}}
    for label, keys in own.items():
        alone = run_toy(tmp_path / label, num_rounds=3, **keys)
        assert results_of(run_at(tmp_path, label)) == results_of(alone)


def test_what_is_to_be_typed_has_the_runs_and_the_engine_that_were_asked_for(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, TWO + "[variants.third]\n")
    interrupt_fit(monkeypatch, width=2, number=2, error=KeyboardInterrupt())
    asked = ["--only", "a-narrow", "--only", "third"]
    code, _, err = call("run", "exp.toml", *asked, "--engine", "inprocess")
    typed = shlex.split(err.partition("continue with: fedsuite ")[2])
    assert code == 130 and typed == [
        "run",
        "--resume",
        str(tmp_path / "runs" / "exp"),
        *asked,
        "--engine",
        "inprocess",
    ]
    assert call(*typed)[0] == 0
    ended = [run_at(tmp_path, name).status()["status"] for name in ("a-narrow", "third")]
    assert ended == ["completed", "completed"] and not run_at(tmp_path, "wide").path.exists()


@pytest.mark.parametrize("end", ["", TWO])
def test_what_is_to_be_typed_is_quoted(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    write(tmp_path, end, top='num-rounds = 2\nresults-dir = "own dir ü"')
    interrupt_fit(monkeypatch, width=6 if end else 4, number=2, error=KeyboardInterrupt())
    code, _, err = call("run", "exp.toml")
    typed = err.partition("continue with: fedsuite ")[2]
    folder = tmp_path / "own dir ü" / "exp"
    assert code == 130 and shlex.split(typed) == [
        "run",
        "--resume",
        str(folder),
        "--engine",
        "inprocess",
    ]
    assert call(*shlex.split(typed), "--set", "num-rounds=3")[0] == 0
    code, _, err = call("run", "exp.toml")
    assert code == 2 and f"continue it with --resume '{folder}', choose" in err


def test_a_failing_run_ends_the_experiment_and_keeps_the_others(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    interrupt_fit(monkeypatch, width=2, number=1, error=ValueError("a bad day"))
    code, _, err = call("run", "exp.toml")
    assert code == 1 and err.count("\n") == 1
    assert err.startswith("error: a-narrow: round 1, train: 2 of 3 replies usable")
    assert f"continue with: fedsuite run --resume {tmp_path / 'runs' / 'exp'}" in err
    assert run_at(tmp_path, "wide").status()["status"] == "completed"
    assert not (tmp_path / "runs" / "exp" / "results.md").exists()
    assert call("run", "exp.toml", "--resume", "exp")[0] == 0
    alone = run_toy(tmp_path / "alone", num_rounds=3, width=2, step_size=0.05)
    assert results_of(run_at(tmp_path, "a-narrow")) == results_of(alone)


def test_a_run_stopped_before_its_first_checkpoint_starts_anew(call, tmp_path: Path) -> None:
    write(tmp_path)
    assert call("run", "exp.toml", "--only", "wide")[0] == 0
    begun = run_at(tmp_path, "a-narrow")
    begun.path.mkdir()
    begun.begin()
    (begun.path / "history.jsonl").write_text('{"round": 0, "kin')
    assert call("run", "--resume", "exp")[0] == 0
    alone = run_toy(tmp_path / "alone", num_rounds=3, width=2, step_size=0.05)
    assert results_of(begun) == results_of(alone)


def test_resuming_checks_every_begun_run_first(call, tmp_path: Path) -> None:
    toml = write(tmp_path)
    assert call("run", "exp.toml")[0] == 0
    before = {label: results_of(run_at(tmp_path, label)) for label in ("wide", "a-narrow")}
    for change, complaint in (
        ("width=5", "cannot resume with width = 5, the run was made with 6"),
        ("num-rounds=2", "num-rounds = 2, but round 3 is already done"),
    ):
        code, _, err = call("run", "--resume", "exp", "--set", change)
        assert code == 2 and complaint in err and err.count("\n") == 1
    toml.write_text(toml.read_text().replace("a-narrow", "thin"))
    code, _, err = call("run", "exp.toml", "--resume", "exp")
    assert code == 2 and "exp.toml: lacks a-narrow" in err
    assert {label: results_of(run_at(tmp_path, label)) for label in before} == before


def test_resuming_adds_rounds_and_variants(call, tmp_path: Path) -> None:
    write(tmp_path)
    assert call("run", "exp.toml")[0] == 0
    write(tmp_path, TWO + "[variants.new]\nseed = 3\n")
    code, _, err = call("run", "exp.toml", "--resume", "runs/exp", "--set", "num-rounds=5")
    assert (code, err) == (0, "")
    assert labels_of(tmp_path / "runs" / "exp") == ["wide", "a-narrow", "new"]
    for label, keys in (("wide", {"width": 6}), ("new", {"seed": 3})):
        assert Versions(run_at(tmp_path, label).checkpoints).rounds()[-1] == 5
        alone = run_toy(tmp_path / label, num_rounds=5, **keys)
        history = (run_at(tmp_path, label).path / "history.jsonl").read_bytes()
        assert history == (alone.path / "history.jsonl").read_bytes()
    code, out, _ = call("run", "--resume", "exp")  # the added rounds are remembered
    assert code == 0 and out.count("(completed before)") == 3


def test_an_experiment_is_kept_unless_told_otherwise(call, tmp_path: Path) -> None:
    write(tmp_path)
    assert call("run", "exp.toml")[0] == 0
    before = results_of(run_at(tmp_path, "wide"))
    code, _, err = call("run", "exp.toml")
    assert code == 2 and "--resume" in err and "--overwrite" in err and err.count("\n") == 1
    bad = call("run", "exp.toml", "--overwrite", "--set", "data-file=none")
    assert bad[0] == 2 and results_of(run_at(tmp_path, "wide")) == before
    with RunFolder(tmp_path / "runs" / "exp").locked():
        code, _, err = call("run", "exp.toml", "--overwrite")
        assert code == 2 and "another process is writing" in err
    assert results_of(run_at(tmp_path, "wide")) == before
    write(tmp_path, "[variants.wide]\nwidth = 8\n")
    assert call("run", "exp.toml", "--overwrite")[0] == 0
    assert not run_at(tmp_path, "a-narrow").path.exists()
    alone = run_toy(tmp_path / "alone", num_rounds=3, width=8)
    assert results_of(run_at(tmp_path, "wide")) == results_of(alone)


def test_only_and_overwrite_replace_just_these_runs(call, tmp_path: Path) -> None:
    write(tmp_path)
    only_wide = ["run", "exp.toml", "--only", "wide", "--overwrite"]
    assert call(*only_wide)[0] == 0  # there was nothing to replace
    assert not run_at(tmp_path, "a-narrow").path.exists()
    assert call("run", "--resume", "exp")[0] == 0
    wide, narrow = (results_of(run_at(tmp_path, label)) for label in ("wide", "a-narrow"))
    began = times_of(run_at(tmp_path, "a-narrow"))
    code, out, err = call(*only_wide)
    assert (code, err) == (0, "") and "[1/1] wide" in out
    assert "| a-narrow |" in (tmp_path / "runs" / "exp" / "results.md").read_text()
    assert times_of(run_at(tmp_path, "a-narrow")) == began
    assert results_of(run_at(tmp_path, "wide")) == wide
    assert results_of(run_at(tmp_path, "a-narrow")) == narrow
    for toml, change, complaint in (
        (
            TWO,
            ["--set", "seed=9"],
            "a-narrow: cannot resume with seed = 9, the run was made with 0",
        ),
        ("[variants.wide]\n", [], "exp.toml: lacks a-narrow"),
    ):
        write(tmp_path, toml)
        code, _, err = call(*only_wide, *change)
        assert code == 2 and complaint in err and err.count("\n") == 1
    assert results_of(run_at(tmp_path, "wide")) == wide
    write(tmp_path, TWO.replace("width = 6", "width = 3"))  # the replaced run may be another
    assert call(*only_wide)[0] == 0
    alone = run_toy(tmp_path / "alone", num_rounds=3, width=3)
    assert results_of(run_at(tmp_path, "wide")) == results_of(alone)
    assert labels_of(tmp_path / "runs" / "exp") == ["wide", "a-narrow"]


@pytest.mark.parametrize("file", ["thesis.txt", "other/run.json", "run.json", "experiment.json"])
@pytest.mark.parametrize("option", [[], ["--overwrite"]])
def test_folders_of_others_are_left_alone(call, tmp_path: Path, file: str, option: list) -> None:
    write(tmp_path)
    precious = tmp_path / "runs" / "exp" / file
    precious.parent.mkdir(parents=True)
    precious.write_text("{}")
    code, _, err = call("run", "exp.toml", *option)
    assert code == 2 and err.count("\n") == 1
    assert [p for p in (tmp_path / "runs").rglob("*") if p.is_file()] == [precious]


def test_a_single_run_does_not_move_into_an_experiment(call, tmp_path: Path) -> None:
    write(tmp_path)
    assert call("run", "exp.toml")[0] == 0
    write(tmp_path, "")
    for option in ([], ["--overwrite"]):
        code, _, err = call("run", "exp.toml", *option)
        assert code == 2 and "holds an experiment of several runs" in err
    code, _, err = call("run", "exp.toml", "--resume", "exp")
    assert code == 2 and "has neither [variants.NAME] nor seeds" in err
    write(tmp_path)
    code, _, err = call("run", "exp.toml", "--resume", "runs/exp/wide")
    assert code == 2 and "a single run, but exp.toml describes several" in err
    assert call("run", "--resume", "runs/exp/wide", "--set", "num-rounds=4")[0] == 0


def test_only_and_the_systems_own_comparison(call, tmp_path: Path) -> None:
    write(tmp_path, system="COMPARING")
    folder = tmp_path / "runs" / "exp"
    code, out, _ = call("run", "exp.toml", "--only", "a-narrow")
    assert code == 0 and "[1/1] a-narrow" in out and "compared a-narrow" in out
    assert json.loads((folder / "compared.json").read_text()) == {
        "a-narrow": ["a-narrow", str(folder), 2, 0]
    }
    assert not (folder / "wide").exists()
    assert labels_of(folder) == ["wide", "a-narrow"]
    code, out, _ = call("run", "--resume", "exp", "--only", "wide")
    assert code == 0 and "[1/1] wide" in out
    assert list(json.loads((folder / "compared.json").read_text())) == ["wide", "a-narrow"]


def test_only_takes_one_seed_of_a_variant(call, tmp_path: Path) -> None:
    write(tmp_path, system="COMPARING", top="num-rounds = 1\nseeds = [0, 1]")
    arguments = ["--only", "wide/seed-1", "--only", "a-narrow"]
    assert call("run", "exp.toml", *arguments)[0] == 0
    compared = json.loads((tmp_path / "runs" / "exp" / "compared.json").read_text())
    assert list(compared) == ["wide/seed-1", "a-narrow/seed-0", "a-narrow/seed-1"]
    where = str(tmp_path / "runs" / "exp" / "wide")
    assert compared["wide/seed-1"] == ["seed-1", where, 6, 1]
    assert [variant_of(label) for label in (*compared, "seed-1", "wide")] == [
        "wide", "a-narrow", "a-narrow", "", "wide"
    ]  # fmt: skip


def test_data_is_prepared_once_for_equal_settings_and_told_once(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = toy.SYSTEM.prepare

    def prepare(settings: toy.ToySettings, progress: Progress) -> Roster:
        print(f"width {settings.width}")
        for done in (1, 2, 3):
            progress("prepared", done, 3)
        return prepared(settings, silent)

    monkeypatch.setattr(toy, "SYSTEM", dataclasses.replace(toy.SYSTEM, prepare=prepare))
    write(tmp_path, "[variants.a]\n[variants.b]\n[variants.c]\nwidth = 2\n")
    code, out, _ = call("run", "exp.toml", "--set", "num-rounds=1")
    before = out[: out.index("[1/3]")].split("\n")
    assert code == 0 and before == ["width 4", "prepared: 3", "width 2", ""]


def test_runs_and_show_know_experiments(call, tmp_path: Path) -> None:
    write(tmp_path, top="num-rounds = 1\nseeds = [0]")
    assert call("run", "exp.toml")[0] == 0
    write(tmp_path, "", top='num-rounds = 1\nname = "single"')
    assert call("run", "exp.toml")[0] == 0
    for arguments, names in (
        (["runs"], ["exp/wide/seed-0", "exp/a-narrow/seed-0", "single"]),
        (["runs", "runs/exp"], ["wide/seed-0", "a-narrow/seed-0"]),
    ):
        code, out, _ = call(*arguments)
        lines = [line.split() for line in out.splitlines()[1:] if line.strip()]
        assert code == 0 and [line[0] for line in lines] == names
        assert all(line[1:3] == ["completed", "1/1"] for line in lines)
    code, out, _ = call("show", "exp/wide/seed-0")
    assert code == 0 and "train-loss" in out
    code, _, err = call("show", "exp")
    assert code == 2 and "show one of exp/wide/seed-0, exp/a-narrow/seed-0" in err


def test_a_damaged_run_is_listed_as_such_among_the_others(call, tmp_path: Path) -> None:
    write(tmp_path, top="num-rounds = 1")
    assert call("run", "exp.toml")[0] == 0
    runs = tmp_path / "runs"
    shutil.copytree(runs / "exp" / "wide", runs / "dmg")
    shutil.copytree(runs / "exp", runs / "lost")
    torn, record = runs / "dmg" / "config.json", runs / "lost" / "experiment.json"
    for file in (torn, record):
        file.write_text(file.read_text()[:9])
    (runs / "exp" / "a-narrow" / "run.json").write_text("[]")
    code, out, err = call("runs")
    table, told = out.split("\ndmg: ")
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in table.splitlines()[1:]] == [
        ["dmg", "damaged"],
        ["exp/wide", "completed"],
        ["exp/a-narrow", "damaged"],
        ["lost", "damaged"],
    ]
    cure = "put it back from a copy, or move this folder away"
    first, second, third = told.splitlines()
    assert first.startswith("runs/dmg/config.json: not the settings of a run") and first.endswith(
        cure
    )
    assert second.endswith("delete this one file")
    assert third.startswith("lost: runs/lost/experiment.json: not the record of an experiment")
    code, _, err = call("report", "runs/dmg")
    assert code == 2 and f"{torn}: not" in err and err.endswith(f"{cure}\n")


def test_an_experiment_can_be_moved(call, tmp_path: Path) -> None:
    write(tmp_path)
    assert call("run", "exp.toml", "--only", "wide")[0] == 0
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    code, out, err = call("run", "--resume", "elsewhere/exp")
    assert (code, err) == (0, "") and "[1/2] wide  (completed before)" in out
    assert (tmp_path / "elsewhere" / "exp" / "a-narrow" / "model.safetensors").is_file()
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_killed_experiment_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """kill -9 in the second variant, then SIGTERM in it, then to the end."""
    write(tmp_path, top="num-rounds = 8\nround-time-s = 0.05")
    second = run_at(tmp_path, "a-narrow")
    again = ["run", "--resume", "exp", *INPROCESS]
    first = ["run", "exp.toml", *INPROCESS]
    for arguments, number, until in ((first, signal.SIGKILL, 2), (again, signal.SIGTERM, 4)):
        process: subprocess.Popen[str] = start_cli(tmp_path, *arguments)
        wait_for_checkpoint(process, second, until)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == (130 if number == signal.SIGTERM else -9)
    assert f"fedsuite run --resume {tmp_path / 'runs' / 'exp'}" in err and "Traceback" not in err
    done = here(tmp_path, *again)
    assert done.returncode == 0, done.stderr
    alone = run_toy(tmp_path / "alone", num_rounds=8, width=2, step_size=0.05)
    history = (second.path / "history.jsonl").read_bytes()
    assert history == (alone.path / "history.jsonl").read_bytes()
    assert second.model.read_bytes() == alone.model.read_bytes()


@pytest.mark.slow
def test_what_is_not_played_now_needs_no_start(tmp_path: Path) -> None:
    """A variant that --only leaves out may start from a run that is yet to be made; its keys are read all the same."""
    stages = '[variants.a]\n[variants.b]\nstage = "augment"\n'
    toml = tmp_path / "two.toml"
    toml.write_text(f'system = "fedvln"\nresults-dir = "{tmp_path}"\n{stages}')
    found = plan_experiment(Request(toml, only=["a"]))
    assert found.chosen == ["a"] and set(found.plans) == {"a", "b"}
    with pytest.raises(InputError, match=r"two.toml: \[variants.b\] speaker-from: empty"):
        plan_experiment(Request(toml))
    toml.write_text(toml.read_text() + "agent.hidden-size = 0\n")
    with pytest.raises(InputError, match=r"\[variants.b\] agent.hidden-size must be"):
        plan_experiment(Request(toml, only=["a"]))


def test_seeds_may_be_typed(tmp_path: Path) -> None:
    """--seeds takes the place of the file's seed or seeds; it needs the file."""
    toml = tmp_path / "one.toml"
    toml.write_text(f'system = "fedvln"\nresults-dir = "{tmp_path}"\nseed = 3\n')
    found = plan_experiment(Request(toml, seeds="1,0"))
    assert list(found.plans) == ["seed-1", "seed-0"]
    assert [p.settings.seed for p in found.plans.values()] == [1, 0]
    toml.write_text(f'system = "fedvln"\nresults-dir = "{tmp_path}"\nseeds = [7]\n[variants.a]\n')
    found = plan_experiment(Request(toml, seeds="2"))
    assert list(found.plans) == ["a/seed-2"]
    for wrong in ("1,1", "-1", "a"):
        with pytest.raises(InputError, match="--seeds must be different whole numbers"):
            plan_experiment(Request(toml, seeds=wrong))
    with pytest.raises(InputError, match=r"--seeds: give the CONFIG.toml too"):
        plan_experiment(Request(seeds="1"))


def test_more_rounds_for_one_run_leave_the_others_as_they_are(call, tmp_path: Path) -> None:
    toml = write(tmp_path, TWO + "[variants.third]\n")
    assert call("run", "exp.toml", "--only", "wide", "--only", "a-narrow")[0] == 0
    again = ["--resume", "exp", "--only", "wide", "--set", "num-rounds=5"]
    for arguments in (again, ["exp.toml", *again]):
        code, _, err = call("run", *arguments)
        assert (code, err) == (0, "")
        record = json.loads((tmp_path / "runs" / "exp" / "experiment.json").read_text())
        rounds = {run["name"]: run["settings"]["num-rounds"] for run in record["runs"]}
        assert rounds == {"wide": 5, "a-narrow": 3, "third": 3}
    results = (tmp_path / "runs" / "exp" / "results.md").read_text()
    assert results.endswith(
        "|\n\nThe runs have different numbers of rounds. 3: a-narrow; 5: wide.\n"
    )
    began = times_of(run_at(tmp_path, "a-narrow"))
    assert call("run", "--resume", "exp", "--only", "a-narrow")[0] == 0
    assert times_of(run_at(tmp_path, "a-narrow")) == began
    overwrite = ["run", "exp.toml", "--overwrite", "--only", "wide", "--set", "num-rounds=2"]
    assert call(*overwrite)[0] == 0
    toml.unlink()
    code, _, err = call("run", "--resume", "exp", "--only", "third", "--set", "seed=9")
    assert code == 2 and "cannot resume with seed = 9, the run was made with 0" in err
    assert call("run", "--resume", "exp", "--set", "num-rounds=3")[0] == 0
    results = (tmp_path / "runs" / "exp" / "results.md").read_text()
    assert results.count("\n") == 5 and "different" not in results


def test_numbers_of_rounds_are_said_by_variant_where_its_seeds_agree(tmp_path: Path) -> None:
    results = tmp_path / "results.md"
    for rounds, said in (
        ({"a/seed-0": 3, "a/seed-1": 3, "b/seed-0": 3, "random": 0}, ""),
        ({"a/seed-0": 3, "a/seed-1": 3, "b/seed-0": 4}, "3: a; 4: b"),
        ({"a/seed-0": 3, "a/seed-1": 5, "b/seed-0": 5}, "3: a/seed-0; 5: a/seed-1, b"),
        ({"seed-0": 3, "seed-1": 5}, "3: seed-0; 5: seed-1"),
    ):
        results.write_text("")
        add_rounds(tmp_path, rounds)
        expected = f"\nThe runs have different numbers of rounds. {said}.\n" if said else ""
        assert results.read_text() == expected
