"""The notebooks run from top to bottom, on tiny runs, and are kept without outputs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ROOT

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra dev)")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (extra dev)")

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


def test_every_notebook_has_settings_for_a_tiny_run() -> None:
    assert {p.stem for p in FOLDER.glob("*.ipynb")} == set(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_notebooks_are_kept_without_outputs(name: str) -> None:
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    assert [cell["metadata"].get("tags") for cell in code].count(["settings"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_notebooks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    settings = next(c for c in notebook.cells if c.metadata.get("tags") == ["settings"])
    settings.source += "".join(f"\n{key} = {value!r}" for key, value in SETTINGS[name].items())
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    nbclient.NotebookClient(
        notebook, timeout=250, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    drawn = [out for out in outputs if "image/png" in out.get("data", {})]
    assert drawn, "no figure was drawn"
    assert not [out for out in outputs if out.output_type == "error"]
