"""Every file that a run and an experiment leave has a name by which they may be deleted."""

from pathlib import Path
from typing import Any

import pytest

from simulations.experiments.leavings import check_replaced, delete_replaced
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from tests import cdl_runs, fedrl_runs, fedvln_runs
from tests.harness import toml_from
from tests.mistakes.refusing import names_of

VLN = {**fedvln_runs.TINY, "system": "fedvln", "generated-unseen-houses": 1}
RUNS: dict[str, dict[str, Any]] = {
    "fedvln": {**VLN, "submission": True},
    "fedvln-speaker": {**VLN, "stage": "speaker"},
    "cdl": {**cdl_runs.TINY, "num-silos": 3, "num-rounds": 1},
    "fedrl": {**fedrl_runs.TINY, "system": "fedrl", "num-rounds": 1},
}
DRAWN = {
    "fedvln": "a/walks.png",
    "fedvln-speaker": "a/statistics.csv",
    "cdl": "a/overlay.png",
    "fedrl": "learning.png",
}


@pytest.mark.parametrize("name", RUNS)
def test_all_that_is_left_can_be_replaced(call, cache: Path, tmp_path: Path, name: str) -> None:
    text = toml_from(RUNS[name], cache_dir=str(cache), name="exp")
    (tmp_path / "exp.toml").write_text(f"{text}[variants.a]\n[variants.b]\nseed = 1\n")
    assert call("run", "exp.toml")[0] == 0
    left = names_of(tmp_path / "runs" / "exp")
    assert DRAWN[name] in left and any(name.startswith("a/clients/") for name in left)
    experiment = plan_experiment(Request(tmp_path / "exp.toml", overwrite=True))
    check_replaced(experiment)
    (tmp_path / "runs" / "exp" / "a" / "clients" / "thesis.txt").touch()
    with pytest.raises(Exception, match=r"thesis\.txt: fedsuite does not write this"):
        delete_replaced(experiment)
    (tmp_path / "runs" / "exp" / "a" / "clients" / "thesis.txt").unlink()
    delete_replaced(experiment)
    assert names_of(tmp_path / "runs" / "exp") == [".lock", "experiment.json"]
