"""A model card: its head is YAML that Hugging Face can read, its sections say what is known, and no path is told."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from fedsuite.errors import InputError
from fedsuite.reports.page.formats.table import format_of
from fedsuite.storage.files import sha256_of
from simulations.results.report import make_report
from tests.report.page.test_same_data import house
from tests.written_runs import HOSTILE, houses_run, parties_run, silos_run


def card(run: Path, file: Path) -> str:
    format_of(str(file))(make_report([str(run)]), file)
    return file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    settings = {"data.dir": "/home/somebody/r2r", "num-rounds": 2}
    run = houses_run(
        folder / "one",
        3,
        0.4,
        members=[house("oak", "seen"), house("elm", "unseen")],
        settings=settings,
    )
    save_file({"encoder.weight": np.zeros((2, 3), np.float32)}, run / "model.safetensors")
    return run


def test_the_head_is_yaml_with_the_scores(trained: Path, tmp_path: Path) -> None:
    text = card(trained, tmp_path / "card.md")
    start, head, body = text.split("---\n", 2)
    assert start == "" and body.lstrip().startswith("# one\n")
    told = yaml.safe_load(head)
    assert told["library_name"] == "fedsuite" and told["tags"] == ["federated-learning", "fedvln"]
    assert "license" not in told  # nobody but the user can state it
    (index,) = told["model-index"]
    (result,) = index["results"]
    assert result["task"]["type"] == "robotics" and {"type", "name"} <= result["dataset"].keys()
    values = {m["type"]: m["value"] for m in result["metrics"]}
    assert values["val_unseen.sr"] == 40.0 and values["val_unseen.spl"] == 20.0
    assert "local-steps" not in values


def test_the_card_says_what_is_known_and_no_path(trained: Path, tmp_path: Path) -> None:
    text = card(trained, tmp_path / "card.md")
    titles = [line[3:] for line in text.split("\n") if line.startswith("## ")]
    assert titles == [
        "Model", "Data", "Training", "What came out", "Privacy", "Limits", "Loading", "Licence",
    ]  # fmt: skip
    digest = sha256_of((trained / "model.safetensors").read_bytes())
    assert f"1 arrays, 6 numbers; SHA-256 {digest}" in text.replace("\\", "")
    assert "Clients: 2, with 18 examples" in text and "Fingerprint" in text
    assert 'Walker.of_run("runs/one"' in text
    assert "somebody" not in text and str(trained.parent) not in text
    assert "reached its goal in 40.00 %" in text


def test_a_run_with_noise_is_told_with_its_guarantee(tmp_path: Path) -> None:
    settings = {"privacy.unit": "example"}
    text = card(houses_run(tmp_path / "one", 0, 0.4, settings=settings), tmp_path / "card.md")
    privacy = text.split("## Privacy")[1].split("## ")[0]
    assert "Differential privacy, unit example: epsilon" in privacy and "No noise" not in privacy


def test_hostile_names_break_neither_head_nor_body(tmp_path: Path) -> None:
    run = parties_run(tmp_path / HOSTILE[1], "fedrl", 0, 0.6)
    text = card(run, tmp_path / "card.md")
    told = yaml.safe_load(text.split("---\n", 2)[1])
    assert told["model-index"][0]["name"] == HOSTILE[1]
    assert told["model-index"][0]["results"][0]["task"]["type"] == "reinforcement-learning"
    (title,) = (line for line in text.split("\n") if line.startswith("# 50"))
    assert r"\`a\` \*\*b\*\*" in title


def test_a_card_is_of_one_completed_run(trained: Path, tmp_path: Path) -> None:
    silos = silos_run(tmp_path / "silos")
    two = make_report([str(trained), str(silos)])
    with pytest.raises(
        InputError, match=r"card\.md: a model card is of one run, these are several; name one run"
    ):
        format_of("card.md")(two, tmp_path / "card.md")
    (silos / "run.json").write_text(json.dumps({"status": "stopped"}))
    with pytest.raises(
        InputError, match=r"silos: a model card is of a completed run, this one is stopped"
    ):
        card(silos, tmp_path / "card.md")
    assert not (tmp_path / "card.md").exists()
