"""Sweeps of which optuna chooses the combinations: what it was told, what was ended early, stopping and going on."""

import importlib.util
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from fedsuite.runs.folder import RunFolder
from tests import toy
from tests.harness import results_of, run_toy
from tests.toy_sweep import write

needs_optuna = pytest.mark.skipif(
    not importlib.util.find_spec("optuna"), reason="optuna is not installed (extra optuna)"
)
WIDTHS, STEPS = (2, 3, 4), (0.1, 0.05, 0.01, 0.001, 0.0001)
SEARCH = f"""
[sweep]
metric = "train-loss"
lower = true
optuna = 9
[sweep.vary]
width = {list(WIDTHS)}
step-size = {list(STEPS)}
"""


def study_of(folder: Path) -> Any:
    import optuna

    journal = optuna.storages.journal.JournalFileBackend(str(folder / "optuna.journal"))
    return optuna.load_study(study_name="sweep", storage=optuna.storages.JournalStorage(journal))


def told(folder: Path) -> list[tuple[Any, ...]]:
    """Of every trial: state, values varied, its value, and those of its rounds."""
    return [
        (t.state.name, sorted(t.params.items()), t.values, sorted(t.intermediate_values.items()))
        for t in study_of(folder).trials
    ]


def losses_of(folder: Path) -> dict[int, float]:
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return {
        r["round"]: r["metrics"]["train-loss"] for r in rows if r["kind"] == "round" and r["round"]
    }


@needs_optuna
def test_runs_are_ordinary_ones_and_the_median_rule_ends_some(call, tmp_path: Path) -> None:
    """The rule again in plain words, from what the runs recorded: worse at its best than the median of those before."""
    write(tmp_path, SEARCH, "num-rounds = 6")
    code, out, err = call("sweep", "exp.toml")
    assert (code, err) == (0, "")
    folder, names, before, pruned = tmp_path / "runs" / "exp", [], list[dict[int, float]](), []
    for trial in study_of(folder).trials:
        name = "width-{width}_step-size-{step-size}".format(**trial.params)
        if name in names:
            continue  # asked for again, and told what it had
        names.append(name)
        losses, ended = losses_of(folder / name), trial.state.name == "PRUNED"
        assert losses == dict(trial.intermediate_values)
        alone = run_toy(
            tmp_path / name,
            num_rounds=6,
            width=trial.params["width"],
            step_size=trial.params["step-size"],
        )
        assert losses == {r: v for r, v in losses_of(alone.path).items() if r <= max(losses)}
        for r in range(2, max(losses) + (1 if ended else 0)):
            here = [min(v for n, v in losses.items() if n <= r), [own[r] for own in before]]
            worse = len(before) >= 4 and here[0] > statistics.median(here[1])
            assert worse == (ended and r == max(losses))
        status = RunFolder(folder / name).status()
        if ended:
            pruned.append(name)
            assert status["status"] == "stopped" and max(losses) < 6
            assert status["error"].startswith(
                f"pruned by optuna after round {max(losses)}: train-loss"
            )
        else:
            assert trial.value == min(losses.values()) and status["status"] == "completed"
            assert results_of(RunFolder(folder / name)) == results_of(alone)
            before.append(losses)
    assert len(names) == 9 and pruned and f"[9/9] {names[-1]}" in out
    assert [p.name for p in folder.iterdir() if p.is_dir()] and not set(names) - {
        p.name for p in folder.iterdir()
    }
    text = (folder / "results.md").read_text()
    assert f"{9 - len(pruned)} of 15 runs are completed" in text
    assert all(f"* {name}: pruned by optuna after round" in text for name in pruned)


@needs_optuna
def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle of its third and of its seventh run."""
    write(tmp_path, SEARCH, 'num-rounds = 6\nname = "whole"')
    assert call("sweep", "exp.toml")[0] == 0
    write(tmp_path, SEARCH, 'num-rounds = 6\nname = "parts"')
    original, trained = toy.ToyClient.fit, []

    def fit(self, parameters, config):
        trained.append(1)
        if len(trained) in (40, 90):
            raise KeyboardInterrupt
        return original(self, parameters, config)

    monkeypatch.setattr(toy.ToyClient, "fit", fit)
    code, _, err = call("sweep", "exp.toml")
    assert code == 130 and "fedsuite run --resume" in err
    while (code := call("sweep", "--resume", "parts")[0]) == 130:
        pass
    assert code == 0 and len(trained) > 90
    whole, parts = tmp_path / "runs" / "whole", tmp_path / "runs" / "parts"
    assert told(whole) == told(parts)
    assert (whole / "results.csv").read_bytes() == (parts / "results.csv").read_bytes()
    runs, again = ({p.name for p in f.iterdir() if p.is_dir()} for f in (whole, parts))
    assert runs == again
    for name in runs:
        assert losses_of(whole / name) == losses_of(parts / name)
        if RunFolder(whole / name).is_completed():
            both = [results_of(RunFolder(folder / name)) for folder in (whole, parts)]
            assert both[0] == both[1]


@needs_optuna
def test_more_combinations_are_tried_later_until_none_is_left(call, tmp_path: Path) -> None:
    end = SEARCH.replace("optuna = 9", "optuna = 2").replace(str(list(STEPS)), "[0.1, 0.05]")
    write(tmp_path, end, "num-rounds = 2\nseeds = [0, 1]")
    folder = tmp_path / "runs" / "exp"

    def runs() -> set[str]:
        return {str(p.parent.relative_to(folder)) for p in folder.rglob("history.jsonl")}

    assert call("sweep", "exp.toml")[0] == 0
    first = runs()
    assert len(first) == 4 and {name[-6:] for name in first} == {"seed-0", "seed-1"}
    assert call("sweep", "--resume", "exp", "--optuna", "3")[0] == 0
    assert len(runs()) == 6 and first < runs()
    assert call("sweep", "--resume", "exp", "--optuna", "50")[0] == 0
    assert len(runs()) == 12
    trial = study_of(folder).trials[0]
    name = "width-{width}_step-size-{step-size}".format(**trial.params)
    best = [min(losses_of(folder / name / f"seed-{seed}").values()) for seed in (0, 1)]
    assert trial.value == pytest.approx(statistics.mean(best))
    assert call("sweep", "exp.toml", "--overwrite")[0] == 0
    assert runs() == first and len(study_of(folder).trials) == 2


def test_without_optuna_nothing_is_run(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    write(tmp_path, SEARCH)
    code, _, err = call("sweep", "exp.toml")
    assert code == 2 and err.count("\n") == 1
    assert "the package optuna is not installed; pip install 'fedsuite[optuna]'" in err
    assert not (tmp_path / "runs").exists()


@needs_optuna
def test_a_study_that_is_none_is_named(call, tmp_path: Path) -> None:
    write(tmp_path, SEARCH, "num-rounds = 1")
    assert call("sweep", "exp.toml")[0] == 0
    file = tmp_path / "runs" / "exp" / "optuna.journal"
    file.write_text("not a study\n" * 3)
    code, _, err = call("sweep", "--resume", "exp")
    assert code == 2 and f"{file}: no study of optuna" in err and err.count("\n") == 1


@pytest.mark.parametrize("wrong", ['"many"', "-1", "true", "1.5"])
def test_how_many_must_be_a_number(call, tmp_path: Path, wrong: str) -> None:
    write(tmp_path, SEARCH.replace("optuna = 9", f"optuna = {wrong}"))
    code, _, err = call("sweep", "exp.toml")
    assert code == 2 and "[sweep] optuna must be a number of combinations to try" in err
