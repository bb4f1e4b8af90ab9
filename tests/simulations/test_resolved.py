"""`fedsuite config`: what it prints is a run-config that Flower takes and that means the same settings."""

import os
from pathlib import Path
from typing import Any

import pytest
from flwr.common.config import flatten_dict, fuse_dicts, parse_config_args

from simulations.app import app_config
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from simulations.systems import settings_of

TOMLS = app_config.PYPROJECT.parent / "simulations"
VARIANTS = "seeds = [0, 1]\n[variants.thin]\nagent.hidden-size = 8\n[variants.wide]\n"


@pytest.fixture
def printed(tmp_path: Path, call: Any) -> Any:
    """`printed(path, ...)`: what `fedsuite config` prints, as Flower makes a run-config of it."""

    def printed(path: Path, *arguments: str) -> dict[str, Any]:
        code, out, err = call("config", str(path), *arguments, engine=False)
        assert code == 0, err
        file = tmp_path / "printed.toml"
        file.write_text(out)
        defaults = flatten_dict(app_config.all_defaults())
        return fuse_dicts(defaults, parse_config_args([str(file)]))

    return printed


@pytest.mark.parametrize(
    ("toml", "only", "change"),
    [
        ("fedvln/quickstart", "", "federation.participation-rate=0.25"),
        ("cdl/quickstart", "cdl", "data.cache-dir=kept"),
        ("fedrl/gridworld-8", "fedrl", "privacy.noise-sigma=2"),
        ("fedvln/sweep", "server-learning-rate-4_local-epochs-5", "seed=3"),
    ],
)
def test_what_is_printed_gives_the_same_settings(
    printed: Any, tmp_path: Path, toml: str, only: str, change: str
) -> None:
    path = TOMLS / f"{toml}.toml"
    options = ["--only", only] if only else []
    run_config = printed(path, *options, "--set", change)
    plan = plan_experiment(Request(path, [change])).plans[only]
    system, settings = settings_of(run_config)
    assert settings == plan.settings and system is plan.system
    assert Path(settings.results_dir).is_absolute() and settings.name == plan.folder.path.name
    assert not (tmp_path / "runs").exists()


def test_one_of_several_runs_must_be_chosen(call: Any, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(VARIANTS)
    for chosen, words in (
        ([], "thin/seed-0, thin/seed-1, wide/seed-0, wide/seed-1"),
        (
            ["--only", "wide"],
            "describes several runs; choose one with --only: wide/seed-0, wide/seed-1",
        ),
        (["--only", "wiede"], "no variant 'wiede'; did you mean 'wide'?"),
    ):
        code, out, err = call("config", "x.toml", *chosen, engine=False)
        assert (code, out) == (2, "") and err.count("\n") == 1 and words in err
    code, out, _ = call("config", "x.toml", "--only", "thin/seed-1", engine=False)
    assert code == 0 and "[fedvln.agent]\n" in out and "hidden-size = 8\n" in out
    assert 'name = "seed-1"\n' in out and f"{tmp_path / 'runs' / 'fedvln-x' / 'thin'}" in out


def test_runs_that_are_there_do_not_matter(call: Any, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(VARIANTS)
    (tmp_path / "runs" / "fedvln-x").mkdir(parents=True)
    (tmp_path / "runs" / "fedvln-x" / "notes.txt").write_text("of somebody else")
    assert call("config", "x.toml", "--only", "wide/seed-0", engine=False)[0] == 0
    assert os.listdir(tmp_path / "runs" / "fedvln-x") == ["notes.txt"]
