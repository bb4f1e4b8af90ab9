"""What other programs are told: versions, and as JSON what people get as tables; and what a source package holds."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

import fedsuite
from fedsuite.history import load_run
from simulations.app.app_config import PYPROJECT
from simulations.app.key_rows import key_rows
from simulations.deploy.check import registered
from simulations.deploy.check.registered import Registered
from simulations.shipped import shipped_names
from tests.harness import ROOT

PROJECT = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]


def test_version(call) -> None:  # type: ignore[no-untyped-def]
    assert call("--version", engine=False) == (0, f"fedsuite {PROJECT['version']}\n", "")
    assert fedsuite.__version__ == PROJECT["version"]


def test_configurations_and_keys(call) -> None:  # type: ignore[no-untyped-def]
    found = json.loads(call("configs", "--json", engine=False)[1])
    assert [entry["name"] for entry in found] == list(shipped_names())
    assert all(entry["what"] and entry["time"] and entry["needs"] for entry in found)
    rows = json.loads(call("keys", "cdl", "--json", engine=False)[1])
    assert [(r["key"], r["default"]) for r in rows] == [(r.key, r.default) for r in key_rows("cdl")]
    told = {row.key: row.meaning for row in key_rows("cdl")}
    assert told["seed"] == "the one seed of all randomness (>= 0)"
    assert told["data.dir"].startswith("folder of recorded drives;") and "(" not in told["data.dir"]


@pytest.mark.slow
def test_runs_from_beginning_to_end(call, cache: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Trained, shown, made longer."""
    keys = ("name=mine", "num-rounds=1", f"data.cache-dir={cache}", "federation.local-epochs=1")
    changes = [word for key in keys for word in ("--set", key)]
    code, _, err = call(
        "run", "fedvln/three-houses", "--engine", "inprocess", *changes, engine=False
    )
    assert code == 0, err
    again = ("run", "--resume", "mine", "--set", "num-rounds=2", "--engine", "inprocess")
    code, _, err = call(*again, engine=False)
    assert code == 0, err
    run = load_run(tmp_path / "runs" / "mine")
    shown = json.loads(call("show", "mine", "--json", engine=False)[1])
    assert shown["status"] == "completed" and shown["error"] == ""
    assert shown["settings"]["num-rounds"] == 2 and shown["versions"]
    assert [line["round"] for line in shown["rounds"]] == [0, 1, 2]
    row = run.rounds.set_index("round").loc[1]
    metrics = shown["rounds"][1]["metrics"]
    assert metrics and all(row[name] == value for name, value in metrics.items())
    assert (
        len(json.loads(call("show", "mine", "--json", "--rounds", "1", engine=False)[1])["rounds"])
        == 1
    )
    (tmp_path / "runs" / "mine" / "history.jsonl").write_text("{}\n[]\n")
    (damaged,) = json.loads(call("runs", "--json", engine=False)[1])
    assert (
        damaged["run"] == "mine"
        and damaged["status"] == "damaged"
        and "history" in damaged["error"]
    )


def test_nodes(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    init = ("deploy", "init", "kit", "--host", "localhost", "--nodes", "oak,elm")
    assert call(*init, engine=False)[0] == 0
    node = Registered("oak", "ab", 7, "online", "2026-01-01 00:00:00")
    monkeypatch.setattr(registered, "registered_and_running", lambda _: ([node], set()))
    (told,) = json.loads(call("deploy", "status", "kit/server", "--json", engine=False)[1])
    assert told["member"] == "oak" and told["status"] == "online" and told["node id"] == "7"


def test_a_source_package_leaves_out_nothing_that_is_kept() -> None:
    """Every folder and file of the repository is a package, or named in MANIFEST.in, or always part of a source package."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tops = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    named = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    always = {"pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"}
    packages = {"fedsuite", "strategies", "clients", "simulations"}
    assert tops - {*named} - always - packages <= {".ci", ".dockerignore"}
    assert PROJECT["license"] == {"file": "LICENSE"}  # as Flower wants it
    # setup.py says its name, beside which no classifier may say it again.
    assert not [c for c in PROJECT["classifiers"] if c.startswith("License ::")]
