"""Sweeps that are refused, each in one line and before anything starts; names of combinations."""

from pathlib import Path

import pytest

from fedsuite.errors import InputError
from simulations.experiments.sweep import Sweep, read_sweep
from tests.harness import write_toml
from tests.toy_sweep import NAMES, SWEEP, write

VARY = ["--vary", "width=2,3", "--metric", "loss"]


def test_names_of_combinations() -> None:
    def names(*values: object) -> list[str]:
        return list(read_sweep({"metric": "m", "vary": {"k": list(values)}}, "f").combinations())

    assert names(1.0, 2, 0.5, 1e-05, 1e20, -1) == [
        "k-1",
        "k-2",
        "k-0.5",
        "k-1e-05",
        "k-1e20",
        "k--1",
    ]
    assert names(True, False) == ["k-true", "k-false"]
    assert names("best_val", "", "/data/x y") == ["k-best-val", "k-empty", "k-data-x-y"]
    assert names("a/b", "a-b") == ["k-1-a-b", "k-2-a-b"]
    with pytest.raises(InputError, match="folder names of 303 letters, more than 200; vary fewer"):
        read_sweep({"metric": "m", "vary": {"k" * 300: [1]}}, "f")
    both = Sweep("m", {"b": (1, 2), "a": ("x", "y")}).combinations()
    assert both["b-2_a-x"] == {"b": 2, "a": "x"}
    assert list(both) == ["b-1_a-x", "b-1_a-y", "b-2_a-x", "b-2_a-y"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[2, 3]", "[]", "exp.toml: [sweep.vary] width must be a list of at least one value, got []"),
        ("[2, 3]", "2", "exp.toml: [sweep.vary] width must be a list"),
        ("[2, 3]", "[2, 2]", "exp.toml: [sweep.vary] width holds 2 twice"),
        ("[0.1, 0.05]", "[1, 1.0]", "exp.toml: [sweep.vary] step-size holds 1 twice"),
        ("[2, 3]", "[2, 0]", "exp.toml: [sweep.vary] width-0_step-size-0.1: width must be a value >= 1"),
        ("[2, 3]", '[2, "3"]', 'width must be a whole number, got "3"'),
        ("[2, 3]", "[[2], [3]]", "width must be a whole number, got [2]"),
        ("[0.1, 0.05]", "[0.1, nan]", "step-size must be a finite number, got nan"),
        ("width", "wdth", "unknown key 'wdth'; did you mean 'width'?"),
        ("width", "seed", "exp.toml: [sweep.vary] seed cannot be varied"),
        ("width = [2, 3]", 'name = ["a"]', "[sweep.vary] name cannot be varied"),
        ("width = [2, 3]", 'system = ["a"]', "[sweep.vary] system cannot be varied"),
        ("width = [2, 3]", 'results-dir = ["a"]', "[sweep.vary] results-dir cannot be varied"),
        ("width = [2, 3]", 'data-file = ["no"]', "data-file-no_step-size-0.1: no: no such file"),
        ("[20.0, 1]", "[]", "exp.toml: [sweep] targets must be a list of different finite numbers"),
        ("[20.0, 1]", "[nan]", "[sweep] targets must be a list of different finite"),
        ("[20.0, 1]", "[inf]", "[sweep] targets must be a list of different finite"),
        ("[20.0, 1]", "[1, 1.0]", "[sweep] targets must be a list of different finite"),
        ("[20.0, 1]", "0.5", "[sweep] targets must be a list of different finite"),
        ("[20.0, 1]", "[true]", "[sweep] targets must be a list of different finite"),
        ("lower = true", "lower = 1", "[sweep] lower must be true or false, got 1"),
        ("lower", "lowr", "exp.toml: [sweep] unknown key 'lowr'; did you mean 'lower'?"),
        ('"train-loss"', '""', "exp.toml: [sweep] metric must name a metric of the rounds"),
        ('metric = "train-loss"', "", "[sweep] metric must name a metric"),
        (SWEEP, "[sweep]\nmetric = 'm'\n", "exp.toml: [sweep.vary] must hold KEY = [VALUES]"),
        (SWEEP, "[sweep]\nmetric = 'm'\nvary = 3\n", "[sweep.vary] must hold KEY = [VALUES]"),
        (SWEEP, "sweep = 3\n", "exp.toml: sweep must be a table [sweep], got 3"),
        ("[sweep]", "[variants.a]\n[sweep]", "exp.toml: [variants.NAME] cannot be swept"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_before_anything_starts(
    call, tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    assert old in SWEEP
    write(tmp_path, SWEEP.replace(old, new))
    code, _, err = call("run", "exp.toml")
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and complaint in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["plain.toml"], "plain.toml: nothing to vary; give --vary KEY=VALUE,VALUE"),
        ([], "give a CONFIG.toml, or a sweep to continue with --resume"),
        (["none.toml", *VARY], "none.toml: no such file"),
        (["plain.toml", "--vary", "width=2"], "--metric must name a metric of the rounds"),
        (["plain.toml", *VARY, "--vary", "width"], "--vary: expected KEY=VALUE,VALUE, got 'width'"),
        (["plain.toml", *VARY, "--vary", "width=4"], "--vary width is given twice"),
        (["plain.toml", "--vary", "width=2,x"], "--vary: width must be a whole number, got 'x'"),
        (["plain.toml", "--vary", "width=2,"], "--vary: width must be a whole number, got ''"),
        (["plain.toml", "--vary", "width=2,0"], "--vary: width must be a value >= 1, got 0"),
        (["plain.toml", "--vary", "wdth=2"], "--vary: unknown key 'wdth'; did you mean 'width'?"),
        (["plain.toml", "--vary", "width=2,2"], "--vary width holds 2 twice"),
        (["plain.toml", "--vary", "seed=1,2"], "--vary seed cannot be varied"),
        (["plain.toml", "--vary", "data-file=no", "--metric", "m"], "--vary data-file-no: no: no such"),
        (["plain.toml", *VARY, "--target", "much"], "--target must be a number, got 'much'"),
        (["plain.toml", *VARY, "--target", "nan"], "--target must be a list of different finite"),
        (["plain.toml", *VARY, "--seeds", "1,1"], "--seeds must be different whole numbers >= 0"),
        (["plain.toml", *VARY, "--seeds", "-1"], "--seeds must be different whole numbers"),
        (["plain.toml", *VARY, "--set", "width=4"], "--set: width is varied by the sweep"),
        (["plain.toml", *VARY, "--only", "width-9"], "--only: no variant 'width-9'; did you mean"),
        (["several.toml", *VARY], "several.toml: [variants.NAME] cannot be swept"),
        (["plain.toml", *VARY, "--resume", "x"], "x: no such run folder"),
        (["plain.toml", *VARY, "--variant", "a"], "--variant: plain.toml has no [variants.NAME]"),
        (["several.toml", *VARY, "--variant", "b"], "--variant: expected one of those there are, got 'b'"),
        (["several.toml", "--variant", "a"], "several.toml: nothing to vary"),
        (["--resume", "x", "--variant", "a"], "--variant: give the CONFIG.toml too"),
        (["plain.toml", *VARY, "--from", "x"], "--from: system tests.toy:SYSTEM has no key start-from"),
    ],
)  # fmt: skip
def test_bad_options(call, tmp_path: Path, arguments: list[str], complaint: str) -> None:
    write_toml(tmp_path, "plain")
    toml = write_toml(tmp_path, "several")
    toml.write_text(toml.read_text() + "[variants.a]\n")
    code, _, err = call("sweep", *arguments)
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and complaint in err
    assert not (tmp_path / "runs").exists()


def test_resuming_what_is_no_sweep_or_with_other_runs(call, tmp_path: Path) -> None:
    write(tmp_path, "[variants.a]\n", top="num-rounds = 1")
    assert call("run", "exp.toml")[0] == 0
    code, _, err = call("sweep", "--resume", "exp")
    assert code == 2 and "not a sweep; continue it with fedsuite run --resume" in err
    write(tmp_path, top='num-rounds = 1\nname = "swept"')
    assert call("run", "exp.toml", "--only", NAMES[0])[0] == 0
    for option in (["--vary", "width=9"], ["--seeds", "3"]):
        code, _, err = call("sweep", "--resume", "swept", *option)
        assert code == 2 and f"{option[0]}: give the CONFIG.toml too" in err
    code, _, err = call("run", "--resume", "swept", "--set", "width=9")
    assert code == 2 and "--set: width is varied by the sweep" in err
    assert call("sweep", "exp.toml", "--resume", "swept")[0] == 0


def test_what_a_strategy_refuses_is_refused_before_the_first_run(call, tmp_path: Path) -> None:
    write_toml(tmp_path, "plain", num_rounds=1)
    faults = ["--vary", "fault=none,refused", "--metric", "loss"]
    code, _, err = call("sweep", "plain.toml", *faults)
    assert (
        code == 2 and err == "error: fault-refused: fault: refused by the strategy; leave it out\n"
    )
    code, _, err = call("run", "plain.toml", "--set", "fault=refused")
    assert code == 2 and err == "error: fault: refused by the strategy; leave it out\n"
    assert not (tmp_path / "runs").exists()
