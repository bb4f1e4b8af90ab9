"""The notebooks run from top to bottom, on tiny runs, and are kept without outputs."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsuite.history import load_runs
from tests.fedrl_runs import config_of, recorded
from tests.harness import ROOT
from tests.written_runs import round_row, write_run

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra dev)")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (extra dev)")
jupyter_client = pytest.importorskip("jupyter_client", reason="nbclient's, for one kernel")

FOLDER = ROOT / "notebooks"
HOUSES = {
    "num-rounds": 1, "evaluate-every": 1, "data.generated-seen-houses": 3, "data.generated-unseen-houses": 1,
    "data.generated-paths-per-house": 6, "data.min-word-count": 1, "federation.participation-rate": 1.0,
}  # fmt: skip
# What stands in the place of the settings cell: the same names, for runs of seconds.
SETTINGS: dict[str, dict[str, Any]] = {
    "fedvln": {"CONFIG": "fedvln/three-houses", "CHANGES": {"num-rounds": 1}},
    "cdl": {
        "CHANGES": {
            "num-rounds": 2, "evaluate-every": 1, "data.train-frames": 8, "data.test-frames": 4, "data.image-size": 48,
            "data.num-silos": 3, "federation.silos-per-client": 3, "federation.underlay": "auto",
            "federation.mixings-per-round": 1, "training.batch-size": 4,
        }
    },
    "fedrl": {
        "CHANGES": {
            "num-rounds": 2, "data.maps": 200, "learning.round-length": 64, "evaluation.episodes": 16, "network.filters": 4,
            "world.step-limit": 12, "federation.parallel-episodes": 16, "learning.memory": 500,
        }
    },
    "compare": {"CHANGES": HOUSES},
}  # fmt: skip
# What sentences of a notebook say, after its last cell.
CLAIMS = {
    "fedvln": """
assert set(last["round"]) == {fedvln.rounds["round"].max()} and len(last.sort_values("value").head(10)) <= 10
assert walk.attention.shape[0] == len(walk.decisions) and abs(walk.attention.sum(1) - 1).max() < 1e-5
assert (own.config.federation.method, len(load_run(alone).roster)) == ("local-only", 3)
""",
    "cdl": """
assert set(cdl.about["clients"]) == {1} and set(sites) == {3}
assert {r.variant: r.config["objective.loss"] for r in cdl.runs} == {"cdl": "kl", "dfl": "none"}
average = Pilot.of_run(first.folder)
assert (pilot.silo, average.silo, pilot.unit) == (silo, "", "radians")
assert abs(angles - average.steer_frames(given.images)).max() > 0
assert own["everywhere"].notna().all() and len(given.images) == first.config["data.test-frames"]
""",
    "fedrl": """
assert {r.variant for r in fedrl.runs} == {"fedrl", "dqn-alpha", "random"}
assert set(shown.groupby("run").size()) == {2} and not player.plan.noisy
train = parties[parties["run"].str.endswith("fedrl") & (parties["name"] == "beta")]
assert (train["messages"] > 2 * 4).all()  # two to a party in each of four exchanges, and validations
""",
    "compare": """
assert runs.about.groupby("variant")["data"].nunique().to_dict() == {"centralised": 1, "federated": 1}
assert runs.about["data"].nunique() == 2 and set(spread["count"]) == {2}
""",
}


def opened(name: str, **settings: Any) -> Any:
    """The notebook with these settings behind its own."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    cell = next(c for c in notebook.cells if c.metadata.get("tags") == ["settings"])
    cell.source += "".join(f"\n{key} = {value!r}" for key, value in settings.items())
    return notebook


def said(name: str) -> str:
    """All sentences of a notebook."""
    return " ".join(c.source for c in opened(name).cells if c.cell_type == "markdown")


def test_every_notebook_has_settings_for_a_tiny_run() -> None:
    assert {p.stem for p in FOLDER.glob("*.ipynb")} == set(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_notebooks_are_kept_without_outputs(name: str) -> None:
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    assert [cell["metadata"].get("tags") for cell in code].count(["settings"]) == 1


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """One kernel for all notebooks, so that torch and pandas are imported once, and a folder that outlives them."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    home = tmp_path_factory.mktemp("notebooks")
    settings = {"PYTHONPATH": paths, "IPYTHONDIR": str(home / "ipython"), "OMP_NUM_THREADS": "1"}
    manager = jupyter_client.KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, **settings}, cwd=str(home))
    yield manager, home
    manager.shutdown_kernel(now=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_notebooks_run(name: str, kernel: tuple[Any, Path]) -> None:
    manager, home = kernel
    (home / name).mkdir()
    notebook = opened(name, **SETTINGS[name])
    notebook.cells.insert(0, nbformat.v4.new_code_cell(f"%reset -f\n%cd {home / name}"))
    notebook.cells.append(nbformat.v4.new_code_cell(CLAIMS[name]))
    client = nbclient.NotebookClient(notebook, manager, timeout=250)
    try:
        client.execute()
    finally:
        client.kc.stop_channels()  # of a kernel that is not its own it closes none
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    drawn = [out for out in outputs if "image/png" in out.get("data", {})]
    assert drawn, "no figure was drawn"
    assert not [out for out in outputs if out.output_type == "error"]


@pytest.mark.slow
def test_what_leaves_beta_is_what_the_notebook_says(cache: Path, tmp_path: Path) -> None:
    """Q-values and the shared MLP where parties update it in turn, as they do by default; else Q-values alone."""
    assert "so does the shared network (the MLP), which both parties update in turn" in said(
        "fedrl"
    )
    for changes, leaves in (
        ({}, {"mlp", "proposal", "q", "q-next"}),
        ({"mlp_updates": "joint"}, {"proposal", "q", "q-next"}),
    ):
        letters = recorded(config_of(cache, tmp_path, str(len(leaves)), num_rounds=1, **changes))
        sent = {key.partition(".")[0] for x in letters if x.partition == 1 for key in x.up}
        assert sent == leaves


def test_comparing_keeps_runs_that_had_fewer_rounds(tmp_path: Path) -> None:
    """The cell of scores, on written runs of two and of one evaluated round."""
    cell = next(c.source for c in opened("compare").cells if "last =" in c.source)
    for name, rounds in (("long", 2), ("short", 1)):
        scored = [round_row(n, **{"val_unseen.sr": 0.1 * n}) for n in range(rounds + 1)]
        write_run(tmp_path / name, "fedvln", [*scored, round_row(rounds, "closing")])
    names: dict[str, Any] = {"runs": load_runs([tmp_path / "long", tmp_path / "short"])}
    exec(cell, names)
    assert dict(zip(names["last"]["run"], names["last"]["value"], strict=True)) == {
        "long": 0.2, "short": 0.1,
    }  # fmt: skip
