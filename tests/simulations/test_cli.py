"""The command line with the in-process engine: what people type, what they are told, what is left on disk."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedsuite.history import load_run
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Versions
from simulations.commands import cli as command
from tests.harness import (
    ROOT,
    cli,
    exit_code_of,
    here,
    results_of,
    run_toy,
    start_cli,
    wait_for_checkpoint,
    write_toml,
)
from tests.vln.data.test_other_data_sets import with_logits

INPROCESS = ("--engine", "inprocess")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`call("run", ...)` in `tmp_path`, in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedsuite", *arguments])
        code = exit_code_of(command.main)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_run_names_the_folder_after_the_toml_and_shows_progress(call, tmp_path: Path) -> None:
    write_toml(tmp_path, "first", num_rounds=2)
    code, out, err = call("run", "first.toml", *INPROCESS)
    assert (code, err) == (0, "")
    assert "round 1/2  train-loss" in out and "round 2/2  train-loss" in out
    assert "closing  loss" in out
    assert f"completed: {tmp_path / 'runs' / 'toy-first'}" in out
    own = run_toy(tmp_path / "own", num_rounds=2)
    assert results_of(RunFolder(tmp_path / "runs" / "toy-first")) == results_of(own)


def test_set_overrides_the_file(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=2)
    code, out, _ = call(
        "run",
        "toy.toml",
        "--set",
        "num-rounds=1",
        "--set",
        "name=other",
        "--set",
        "results-dir=r",
        *INPROCESS,
    )
    assert code == 0 and "round 1/1" in out
    assert (tmp_path / "r" / "other" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("keys", "arguments", "complaint"),
    [
        ({}, ["none.toml"], "none.toml: no such file"),
        ({}, [], "give a CONFIG.toml, or a run to continue with --resume"),
        ({"num_round": 3}, ["toy.toml"], "unknown key 'num-round'; did you mean 'num-rounds'?"),
        ({"num_rounds": "3"}, ["toy.toml"], 'toy.toml: num-rounds must be a whole number, got "3"'),
        ({"width": 0}, ["toy.toml"], "toy.toml: width must be a value >= 1, got 0"),
        ({"name": "a/b"}, ["toy.toml"], "name must be letters, digits"),
        ({"data_file": "no.csv"}, ["toy.toml"], "no.csv: no such file; set data-file"),
        ({"resume": "x"}, ["toy.toml"], "resume: use the option --resume RUN"),
        ({}, ["toy.toml", "--set", "width=x"], "--set: width must be a whole number, got 'x'"),
        ({}, ["toy.toml", "--set", "width=0"], "--set: width must be a value >= 1, got 0"),
        ({}, ["toy.toml", "--set", "wdth=3"], "--set: unknown key 'wdth'; did you mean 'width'?"),
        ({}, ["toy.toml", "--set", "width"], "--set: expected KEY=VALUE, got 'width'"),
        (
            {},
            ["toy.toml", "--set", "system=fedvnl"],
            "system: unknown 'fedvnl'; did you mean",
        ),
        ({}, ["toy.toml", "--resume", "x"], "x: no such run folder"),
        ({}, ["toy.toml", "--resume", "x", "--overwrite"], "give one of them"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    call, tmp_path: Path, keys: dict, arguments: list[str], complaint: str
) -> None:
    write_toml(tmp_path, **keys)
    code, _, err = call("run", *arguments, *INPROCESS)
    assert code == 2
    assert err.startswith("error: ") and err.count("\n") == 1 and complaint in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("text", ["system = ", "[run]\nwidth = 3\n", "width = [3]\n", "\xff"])
def test_files_that_are_no_flat_toml(call, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.toml").write_bytes(b'system = "tests.toy:SYSTEM"\n' + text.encode("latin-1"))
    code, _, err = call("run", "bad.toml", *INPROCESS)
    assert code == 2 and err.startswith("error: bad.toml: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "option", "user"),
    [
        ("deploy init kit --host localhost --nodes oak --set seed=1", "--set", "--run"),
        ("deploy add kit oak --set seed=1", "--set", "--run"),
        ("deploy check node.toml --set seed=1", "--set", "a RUN.toml"),
        ("deploy server kit --log-rotation-backup-count 7", "--log-rotation-backup-count", "--log-file"),
        ("deploy node n.toml --log-rotation-interval-hours 1", "--log-rotation-interval-hours", "--log-file"),
        ("data prepare-node node.toml toy.toml --overwrite", "--overwrite", "--out"),
        ("report toy --overwrite", "--overwrite", "--out"),
        ("walk toy --overwrite", "--overwrite", "--out"),
        ("steer toy --overwrite", "--overwrite", "--out"),
        ("play toy --overwrite", "--overwrite", "--out"),
    ],
)  # fmt: skip
def test_an_option_without_the_one_that_uses_it(
    call, tmp_path: Path, arguments: str, option: str, user: str
) -> None:
    code, _, err = call(*arguments.split())
    assert code == 2
    assert err == f"error: {option}: only {user} uses it; add that, or leave it out\n"
    assert not [*tmp_path.glob("kit*")]


@pytest.mark.parametrize(
    ("arguments", "others"),
    [
        ("toy.toml", "CONFIG"),
        ("--seeds 1,2 --overwrite", "--seeds, --overwrite"),
        ("--set seed=1 --engine ray --log mlflow", "--set, --engine, --log"),
        ("--resume other --connection kit", "--resume"),
    ],
)
def test_who_watches_a_run_gives_it_nothing(call, arguments: str, others: str) -> None:
    """Nothing that is typed is left unread."""
    code, _, err = call("run", "--attach", "toy", *arguments.split())
    assert code == 2
    assert err == f"error: --attach watches a run as it is; leave out {others}\n"


@pytest.mark.parametrize(
    "arguments", [["run", "--engine", "cloud"], ["run", "--workers", "0"], ["fly"]]
)
def test_unknown_options_are_exit_code_2(call, arguments: list[str]) -> None:
    assert call(*arguments)[0] == 2


def test_gpus_that_are_not_there_are_told_before_anything_is_prepared(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulations.engines.ray.placement.visible_gpus", lambda: 0)
    write_toml(tmp_path)
    code, out, err = call("run", "toy.toml", "--gpus", "2")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert err.startswith("error: --gpus: 2 wanted, but no GPU is visible here; leave it out")
    assert not (tmp_path / "runs").exists()


def test_a_failed_run_is_one_line_and_exit_code_1(call, tmp_path: Path) -> None:
    write_toml(tmp_path, fault="raise")
    code, _, err = call("run", "toy.toml", *INPROCESS)
    assert code == 1 and err.count("\n") == 1
    assert err.startswith("error: round 2, train: 2 of 3 replies usable")
    assert "site-1: error: ValueError: the toy broke second line" in err
    assert RunFolder(tmp_path / "runs" / "toy").status()["status"] == "failed"


def test_an_existing_run_is_kept_unless_told_otherwise(call, tmp_path: Path) -> None:
    write_toml(tmp_path, name="toy", num_rounds=2)
    folder = RunFolder(tmp_path / "runs" / "toy")
    assert call("run", "toy.toml", *INPROCESS)[0] == 0
    before = results_of(folder)
    code, _, err = call("run", "toy.toml", *INPROCESS)
    assert code == 2 and "--resume" in err and "--overwrite" in err
    assert results_of(folder) == before
    bad = call("run", "toy.toml", "--overwrite", "--set", "data-file=none", *INPROCESS)
    assert bad[0] == 2 and results_of(folder) == before  # refused before anything is deleted
    assert call("run", "toy.toml", "--overwrite", "--set", "num-rounds=3", *INPROCESS)[0] == 0
    assert Versions(folder.checkpoints).rounds() == [0, 2, 3]


def test_overwrite_deletes_runs_only(call, tmp_path: Path) -> None:
    write_toml(tmp_path)
    precious = tmp_path / "runs" / "toy" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    code, _, err = call("run", "toy.toml", "--overwrite", *INPROCESS)
    assert code == 2 and "not a run folder" in err and precious.exists()


def test_a_resume_with_another_torch_is_told(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=2)
    assert call("run", "toy.toml", *INPROCESS)[0] == 0
    folder = RunFolder(tmp_path / "runs" / "toy")
    folder.note(versions={**folder.status()["versions"], "torch": "2.1.0"})
    code, out, _ = call("run", "--resume", "toy", "--set", "num-rounds=3", *INPROCESS)
    assert code == 0 and "in place of 2.1.0" in out
    assert load_run(folder.path).versions["torch"].startswith("2.1.0, then ")
    assert (
        "in place of" not in call("run", "--resume", "toy", "--set", "num-rounds=4", *INPROCESS)[1]
    )


def test_resume_by_name_by_path_and_with_the_file(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=2)
    whole = run_toy(tmp_path / "whole", num_rounds=5)
    assert call("run", "toy.toml", *INPROCESS)[0] == 0
    assert call("run", "--resume", "toy", "--set", "num-rounds=3", *INPROCESS)[0] == 0
    assert call("run", "--resume", "runs/toy", "--set", "num-rounds=4", *INPROCESS)[0] == 0
    code, _, _ = call("run", "toy.toml", "--resume", "toy", "--set", "num-rounds=5", *INPROCESS)
    assert code == 0
    folder = RunFolder(tmp_path / "runs" / "toy")
    assert results_of(folder) == results_of(whole)
    for change, complaint in (
        ("width=5", "cannot resume with width = 5, the run was made with 4"),
        ("seed=1", "cannot resume with seed = 1"),
        ("num-rounds=2", "num-rounds = 2, but round 5 is already done"),
    ):
        code, _, err = call("run", "--resume", "toy", "--set", change, *INPROCESS)
        assert code == 2 and complaint in err and err.count("\n") == 1
    assert results_of(folder) == results_of(whole)


def test_a_damaged_checkpoint_is_named_with_the_cure(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=3)
    call("run", "toy.toml", *INPROCESS)
    last = tmp_path / "runs" / "toy" / "checkpoints" / "round-000003.safetensors"
    last.write_bytes(last.read_bytes()[:-1])
    code, _, err = call("run", "--resume", "toy", "--set", "num-rounds=5", *INPROCESS)
    assert (
        code == 2
        and f"{last}: damaged checkpoint" in err
        and "move it away to resume from round" in err
    )
    last.unlink()  # what the message says
    assert call("run", "--resume", "toy", "--set", "num-rounds=5", *INPROCESS)[0] == 0
    whole = run_toy(tmp_path / "whole", num_rounds=5)
    assert results_of(RunFolder(tmp_path / "runs" / "toy")) == results_of(whole)


def test_runs_and_show(call, tmp_path: Path) -> None:
    assert call("runs")[0] == 2
    write_toml(tmp_path, num_rounds=2, width=3)
    call("run", "toy.toml", *INPROCESS)
    call("run", "toy.toml", "--set", "name=bad", "--set", "fault=nan", *INPROCESS)
    code, out, _ = call("runs")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "completed" in lines["toy"] and "2/2" in lines["toy"]
    assert "failed" in lines["bad"] and "1/2" in lines["bad"]
    code, out, _ = call("show", "toy")
    assert code == 0
    assert "completed" in out and "width" in out and "train-loss" in out and "hidden" not in out
    by_round = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    assert by_round["round"] == ["0", "1", "2"] and "…" not in out
    assert all(float(value) for value in by_round["loss"])
    code, _, err = call("show", "none")
    assert code == 2 and "none: no such run" in err


def test_an_interrupted_run_is_listed_as_such(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=1)
    call("run", "toy.toml", *INPROCESS)
    folder = RunFolder(tmp_path / "runs" / "toy")
    folder.begin()
    assert "interrupted" in call("runs")[1]
    with folder.locked():
        assert "running" in call("runs")[1]
        code, _, err = call("run", "toy.toml", "--overwrite", *INPROCESS)
        assert code == 2 and "another process is writing to this run" in err


def test_data_prepare(call, data_dir: Path, tmp_path: Path) -> None:
    arguments = [
        str(data_dir / "features.tsv"),
        str(data_dir / "connectivity"),
        str(tmp_path / "v"),
    ]
    code, out, _ = call("data", "prepare", *arguments)
    assert code == 0 and "features of width 8" in " ".join(out.split())
    assert "houses whose views are converted: 3\n" in out
    assert (tmp_path / "v" / "oak.npy").is_file()
    code, _, err = call("data", "prepare", *arguments)
    assert code == 2 and "is there already, nothing in it was touched" in err
    arguments[2] = str(tmp_path / "w")
    code, _, err = call("data", "prepare", str(tmp_path / "no.tsv"), *arguments[1:])
    assert code == 2 and "no such feature file" in err


def test_data_prepare_says_what_it_cuts_off(call, data_dir: Path, tmp_path: Path) -> None:
    file = with_logits(data_dir, "hdf5", 512)
    arguments = ["data", "prepare", str(file), str(data_dir / "connectivity"), str(tmp_path / "v")]
    code, _, err = call(*arguments)
    assert code == 2 and "512 features and 1000 logits" in err and not (tmp_path / "v").exists()
    code, out, _ = call(*arguments, "--feature-size", "512")
    assert code == 0 and "of 1512 values a view the first 512 are kept" in " ".join(out.split())


def test_help_comes_without_loading_torch() -> None:
    done = cli(ROOT, "--help")
    assert done.returncode == 0 and "run" in done.stdout
    probe = "import sys, simulations.commands.cli; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", probe], cwd=ROOT, text=True) == "False\n"


@pytest.mark.slow
def test_killed_runs_resume_to_the_same_bytes(tmp_path: Path) -> None:
    """kill -9 in the middle, twice, then an ordinary interrupt; as if nothing had happened."""
    write_toml(tmp_path, num_rounds=12, round_time_s=0.05)
    folder = RunFolder(tmp_path / "runs" / "toy")
    first = ["run", "toy.toml", *INPROCESS]
    again = ["run", "--resume", "toy", *INPROCESS]
    for arguments, number, until in (
        (first, signal.SIGKILL, 3),
        (again, signal.SIGKILL, 6),
        (again, signal.SIGINT, 9),
    ):
        process = start_cli(tmp_path, *arguments)
        wait_for_checkpoint(process, folder, until)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == (130 if number == signal.SIGINT else -9)
    assert "continue with: fedsuite run --resume" in err and "Traceback" not in err
    assert folder.status()["status"] == "stopped"
    done = here(tmp_path, *again)
    assert done.returncode == 0, done.stderr
    whole = run_toy(tmp_path / "whole", num_rounds=12)
    assert results_of(folder) == results_of(whole)


def test_a_byte_order_mark_before_a_toml_is_passed_over(call, tmp_path: Path) -> None:
    write_toml(tmp_path, num_rounds=1)
    file = tmp_path / "toy.toml"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert call("config", "toy.toml")[0] == 0
