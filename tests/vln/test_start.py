"""Where first models come from: found, checked, and refused in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from fedsuite.errors import InputError
from fedsuite.vln.checks import validate
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.start import (
    checked_arrays,
    checked_model,
    house_model,
    model_file,
    read_model,
    run_of,
)

WORDS = ("<PAD>", "left")  # of the run that goes on
ARRAYS = {"encoder.w": np.ones((2, 3), np.float32), "critic.b": np.zeros((), np.float32)}
SHAPES = {k: v.shape for k, v in ARRAYS.items()}
KEY = "start-from"


def write_run(folder: Path, arrays: dict[str, np.ndarray] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(ARRAYS if arrays is None else arrays, folder / "model.safetensors")
    (folder / "vocabulary.json").write_text(json.dumps(["<PAD>", "left"]))
    return folder


def refused(call: Any, *arguments: Any) -> str:
    with pytest.raises(InputError) as error:
        call(*arguments)
    line = str(error.value)
    assert "\n" not in line and line.startswith("start-from: ")
    return line


def test_a_fitting_model_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    for given in (run, run / "model.safetensors"):
        arrays = checked_model(given, KEY, SHAPES, WORDS)
        assert arrays.keys() == ARRAYS.keys()
        assert all(np.array_equal(arrays[k], v) for k, v in ARRAYS.items())


@pytest.mark.parametrize(
    ("arrays", "words_of_it"),
    [
        ({"encoder.w": ARRAYS["encoder.w"]}, "lacks critic.b"),
        ({**ARRAYS, "more": np.ones(1, np.float32)}, "holds more, which this run's model has not"),
        (
            {**ARRAYS, "encoder.w": np.ones((3, 2), np.float32)},
            "holds encoder.w float32 [3, 2], this run's is float32 [2, 3]",
        ),
        (
            {**ARRAYS, "critic.b": np.zeros(())},
            "holds critic.b float64 [], this run's is float32 []",
        ),
        ({**ARRAYS, "critic.b": np.array(np.inf, np.float32)}, "holds NaN or infinity in critic.b"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, arrays: dict[str, np.ndarray], words_of_it: str
) -> None:
    run = write_run(tmp_path / "run", {k: np.asarray(v) for k, v in arrays.items()})
    line = refused(checked_model, run, KEY, SHAPES, WORDS)
    assert words_of_it in line and str(run) in line
    assert refused(checked_arrays, run / "model.safetensors", KEY, SHAPES) == line


@pytest.mark.parametrize(
    "text", ['["<PAD>", "right"]', '["left", "<PAD>"]', '["<PAD>"]', "[", "{}"]
)
def test_other_words_are_refused(tmp_path: Path, text: str) -> None:
    """The same words in another order are others: indices would change their meaning."""
    run = write_run(tmp_path / "run")
    (run / "vocabulary.json").write_text(text)
    line = refused(checked_model, run, KEY, SHAPES, WORDS)
    assert "has other words" in line or "is damaged" in line
    (run / "vocabulary.json").unlink()
    assert "cannot be checked" in refused(checked_model, run, KEY, SHAPES, WORDS)


def test_words_are_compared_not_bytes(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "vocabulary.json").write_text('[\n  "<PAD>",\n  "left"\n]\n')
    assert checked_model(run, KEY, SHAPES, WORDS).keys() == ARRAYS.keys()


@pytest.mark.parametrize("cut", [0, 5, 20, -1])
def test_damaged_files(tmp_path: Path, cut: int) -> None:
    file = write_run(tmp_path / "run") / "model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    assert "is damaged" in refused(read_model, file, KEY)


def test_missing_models(tmp_path: Path) -> None:
    (tmp_path / "unfinished").mkdir()
    assert "is a folder without model" in refused(model_file, tmp_path / "unfinished", KEY)
    (tmp_path / "unfinished" / "config.json").write_text("{}")
    assert "has not ended" in refused(model_file, tmp_path / "unfinished", KEY)
    assert "does not exist" in refused(model_file, tmp_path / "nothing", KEY)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pytorch_checkpoint_is_to_be_imported_first(tmp_path: Path, zipped: bool) -> None:
    file = tmp_path / "best_val_unseen"
    torch.save({"encoder": {}}, file, _use_new_zipfile_serialization=zipped)
    line = refused(model_file, file, KEY)
    assert f"import it first with `fedsuite data import-envdrop {file} --vocabulary" in line


def test_no_model_is_taken_for_a_checkpoint(tmp_path: Path) -> None:
    """Whatever number of bytes its header has, which is what a model file starts with: 0x80 among them."""
    file, heads = tmp_path / "model.safetensors", set()
    for pad in range(1, 1200, 8):
        save_file({"x" * pad: np.ones(1, np.float32)}, file)
        assert model_file(file, KEY) == file
        heads.add(file.read_bytes()[0])
    assert 0x80 in heads


def test_a_model_of_another_system_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"conv1.weight": np.ones(3, np.float32)})
    line = refused(checked_arrays, run / "model.safetensors", KEY, SHAPES)
    assert "is no model of FedVLN: it holds conv1.weight; give a completed run of FedVLN" in line
    (run / "config.json").write_text('{"system": "cdl"}')
    line = refused(checked_arrays, run / "model.safetensors", KEY, SHAPES)
    assert "the run is of system cdl" in line
    (run / "config.json").write_text("[")
    assert "cdl" not in refused(checked_arrays, run / "model.safetensors", KEY, SHAPES)
    checkpoint = write_run(run / "checkpoints", {"arrays.encoder.w": ARRAYS["encoder.w"]})
    line = refused(checked_arrays, checkpoint / "model.safetensors", KEY, SHAPES)
    assert f"is a checkpoint of a run, which goes on with --resume {run}; give a completed" in line
    assert "holds no arrays" in refused(
        checked_arrays, write_run(tmp_path / "empty", {}) / "model.safetensors", KEY, SHAPES
    )


def test_the_run_of_the_own_seed_is_taken(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "seed-3")
    assert run_of(str(tmp_path / "runs"), 3) == tmp_path / "runs" / "seed-3"
    assert run_of(str(tmp_path / "runs"), 4) == tmp_path / "runs"
    config = FedVLNConfig(stage="train", start_from=str(tmp_path / "runs"))
    line = refused(validate, config)
    assert "holds several runs, such as" in line and "seed-3" in line
    validate(FedVLNConfig(stage="train", start_from=str(tmp_path / "runs"), seed=3))


def test_a_houses_own_agent_is_found_by_its_scan(tmp_path: Path) -> None:
    write_run(tmp_path / "run" / "clients" / "oak")
    write_run(tmp_path / "runs" / "seed-1" / "clients" / "oak")
    config = FedVLNConfig(stage="pre-explore", start_from=str(tmp_path / "run"))
    assert house_model(config, "oak") == tmp_path / "run" / "clients" / "oak" / "model.safetensors"
    assert house_model(config, "elm") is None
    seeds = FedVLNConfig(stage="pre-explore", start_from=str(tmp_path / "runs"), seed=1)
    found = house_model(seeds, "oak")
    assert found is not None and found.parts[-4:-1] == ("seed-1", "clients", "oak")
