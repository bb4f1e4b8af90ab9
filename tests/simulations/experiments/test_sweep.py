"""Sweeps with the toy system in this process: which runs they are, what is left, stopping and going on."""

import json
from pathlib import Path

import pandas as pd
import pytest

from fedsuite.runs.folder import RunFolder
from tests import toy
from tests.harness import results_of, run_toy, write_toml
from tests.toy_sweep import NAMES, SWEEP, write


def losses_of(folder: RunFolder) -> dict[int, float]:
    """Round -> train-loss, read without the code under test."""
    rows = [json.loads(line) for line in (folder.path / "history.jsonl").read_text().splitlines()]
    return {
        r["round"]: r["metrics"]["train-loss"] for r in rows if r["kind"] == "round" and r["round"]
    }


@pytest.mark.drawn
def test_every_combination_is_an_ordinary_run(call, tmp_path: Path) -> None:
    write(tmp_path)
    code, out, err = call("run", "exp.toml")
    assert (code, err) == (0, "")
    assert [out.index(f"[{i}/4] {name}") for i, name in enumerate(NAMES, 1)]
    folder = tmp_path / "runs" / "exp"
    reach = {}
    for name, (w, s) in zip(NAMES, [(2, 0.1), (2, 0.05), (3, 0.1), (3, 0.05)], strict=True):
        alone = run_toy(tmp_path / name, num_rounds=3, width=w, step_size=s)
        assert results_of(RunFolder(folder / name)) == results_of(alone)
        losses = losses_of(alone)
        for target in (20.0, 1.0):
            reach[name, target] = next((r for r, v in losses.items() if v <= target), None)
    assert {None, 1} < set(reach.values())  # some reach some targets, at different times
    lines = (folder / "results.md").read_text().splitlines()
    head = "| width | step-size | seeds | rounds to 20 | rounds to 1 | best | at round | last |"
    assert lines[2] == head
    for line, name in zip(lines[4:], NAMES, strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        expected = ["-" if (r := reach[name, t]) is None else str(r) for t in (20.0, 1.0)]
        losses = losses_of(RunFolder(folder / name))
        best = min(losses, key=lambda r: losses[r])
        assert cells[3:] == [*expected, f"{losses[best]:.4f}", str(best), f"{losses[3]:.4f}"]
    assert "at most the target" in lines[0] and "lower is better" in lines[0]
    assert "published" not in lines[0]
    table = pd.read_csv(folder / "results.csv")
    assert len(table) == 8 and table["run"].unique().tolist() == NAMES
    assert table.loc[0, ["width", "step-size", "seed", "target"]].tolist() == [2, 0.1, 0, 20.0]
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((folder / "experiment.json").read_text())
    assert record["sweep"]["vary"] == [["width", [2, 3]], ["step-size", [0.1, 0.05]]]


def test_a_variant_is_swept_with_its_own_settings(call, tmp_path: Path) -> None:
    toml = write_toml(tmp_path, "two", num_rounds=2)
    toml.write_text(toml.read_text() + "[variants.slow]\nstep-size = 0.02\n[variants.fast]\n")
    typed = ("--variant", "slow", "--vary", "width=2,3", "--metric", "train-loss", "--lower")
    assert call("sweep", "two.toml", *typed)[0] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("two-slow-sweep")
    for width in (2, 3):
        alone = run_toy(tmp_path / f"w{width}", num_rounds=2, width=width, step_size=0.02)
        assert results_of(RunFolder(folder / f"width-{width}")) == results_of(alone)
    written = {file: file.read_bytes() for file in folder.rglob("model.safetensors")}
    assert call("sweep", "two.toml", *typed, "--resume", folder.name)[0] == 0
    assert {file: file.read_bytes() for file in written} == written
    assert (
        call("sweep", "two.toml", "--variant", "fast", *typed[2:], "--resume", folder.name)[0] == 2
    )


def test_a_typed_sweep_is_the_same_as_a_written_one(call, tmp_path: Path) -> None:
    write(tmp_path)
    write_toml(tmp_path, "plain", num_rounds=3, seed=7)
    assert call("sweep", "exp.toml", "--seeds", "0")[0] == 0
    options = (
        "--vary width=2,3 --vary step-size=0.1,0.05 --metric train-loss --target 20 --target 1"
    )
    code, out, err = call("sweep", "plain.toml", *options.split(), "--lower", "--seeds", "0")
    assert (code, err) == (0, "") and "[4/4]" in out
    written, typed = tmp_path / "runs" / "exp", tmp_path / "runs" / "toy-plain-sweep"
    for name in ("results.md", "results.csv"):
        assert (written / name).read_bytes() == (typed / name).read_bytes()
    for name in NAMES:
        own, other = (RunFolder(f / name / "seed-0") for f in (written, typed))
        assert results_of(own) == results_of(other)


def test_options_go_before_the_files_sweep(call, tmp_path: Path) -> None:
    write(tmp_path, top="num-rounds = 1")
    options = ["--vary", "width=5", "--target", "3", "--metric", "loss", "--set", "name=other"]
    assert call("sweep", "exp.toml", *options)[0] == 0
    record = json.loads((tmp_path / "runs" / "other" / "experiment.json").read_text())
    vary = [["width", [5]]]
    assert record["sweep"] == {"metric": "loss", "targets": [3.0], "lower": True, "vary": vary}
    # Only the closing evaluation has this metric.
    assert pd.read_csv(tmp_path / "runs" / "other" / "results.csv")["best-round"].tolist() == [1]


def test_the_systems_own_comparison_makes_way(call, tmp_path: Path) -> None:
    path = write(tmp_path, top="num-rounds = 1")
    path.write_text(path.read_text().replace("SYSTEM", "COMPARING"))
    assert call("run", "exp.toml")[0] == 0
    assert not (tmp_path / "runs" / "exp" / "compared.json").exists()
    assert "rounds to 20" in (tmp_path / "runs" / "exp" / "results.md").read_text()


def test_an_unknown_metric_ends_the_sweep_after_one_run_and_can_be_mended(
    call, tmp_path: Path
) -> None:
    write(tmp_path, SWEEP.replace("train-loss", "train-los"), top="num-rounds = 2")
    folder = tmp_path / "runs" / "exp"
    code, _, err = call("run", "exp.toml")
    text = (folder / "results.md").read_text()
    assert code == 2 and err.count("\n") == 1 and "No completed run recorded" in err
    assert len(list(folder.rglob("model.safetensors"))) == 1
    assert "`train-los`" in text and "did you mean `train-loss`?" in text and "`loss`" in text
    assert not (folder / "sweep.png").exists() and not (folder / "results.csv").exists()
    mend = ["--metric", "train-loss", "--target", "30"]
    code, out, err = call("sweep", "--resume", "exp", *mend)
    assert (code, err) == (0, "") and out.count("(completed before)") == 1
    assert len(list(folder.rglob("model.safetensors"))) == 4
    assert "rounds to 30" in (folder / "results.md").read_text()
    record = json.loads((folder / "experiment.json").read_text())
    assert record["sweep"]["metric"] == "train-loss" and record["sweep"]["targets"] == [30.0]
    assert call("sweep", "--resume", "exp", "--metric", "nothing")[0] == 2
    assert not (folder / "sweep.png").exists() and not (folder / "results.csv").exists()


def test_an_interrupted_sweep_goes_on_without_the_file(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    assert call("run", "exp.toml", "--set", "name=whole")[0] == 0
    original, raised = toy.ToyClient.fit, []

    def fit(self, parameters, config):
        if self.c.width == 3 and config["round"] == 2 and not raised:
            raised.append(True)
            raise KeyboardInterrupt
        return original(self, parameters, config)

    monkeypatch.setattr(toy.ToyClient, "fit", fit)
    code, _, err = call("run", "exp.toml")
    folder = tmp_path / "runs" / "exp"
    assert code == 130 and f"continue with: fedsuite run --resume {folder}" in err
    assert not (folder / "results.md").exists()
    (tmp_path / "exp.toml").unlink()
    code, out, _ = call("run", "--resume", "exp")
    assert code == 0 and out.count("(completed before)") == 2
    for name in ("results.md", "results.csv", "sweep.png"):
        assert (folder / name).read_bytes() == (folder.parent / "whole" / name).read_bytes()
    write(tmp_path, SWEEP.replace("[2, 3]", "[2, 3, 4]"))  # more values
    code, out, _ = call("run", "exp.toml", "--resume", "exp", "--only", "width-4_step-size-0.1")
    assert code == 0 and "[1/1] width-4_step-size-0.1" in out
    text = (folder / "results.md").read_text()
    assert "5 of 6 runs are completed" in text and "| 4 | 0.1 | 1 |" in text
    write(tmp_path, SWEEP.replace("[2, 3]", "[2]"))
    code, _, err = call("run", "exp.toml", "--resume", "exp")
    assert code == 2 and "exp.toml: lacks width-3" in err
