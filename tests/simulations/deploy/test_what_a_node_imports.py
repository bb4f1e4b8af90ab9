"""What a client's process has imported when it has answered, and what a machine with the packages of a node alone can do."""

import json
import os
import pickle
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message
from packaging.requirements import Requirement

from fedsuite.errors import SIMULATION, InputError, check_installed, understood
from fedsuite.roster.members import write_roster
from simulations.client_app import app as client_app
from simulations.engines.inprocess import server_identity
from simulations.server_app import serve
from simulations.systems import settings_of
from tests import cdl_runs, fedrl_runs, fedvln_runs
from tests.harness import ROOT, config_from, prepared, write_settings
from tests.nodes import grid_of, write_node

TINY = {
    "fedvln": fedvln_runs.TINY, "cdl": cdl_runs.TINY, "fedrl": {**fedrl_runs.TINY, "num-rounds": 1},
}  # fmt: skip
# The packages of the extra, torch's compiler, and what MATCHA alone needs.
UNUSED = {*SIMULATION, "torch._dynamo", "torch._inductor", "scipy.optimize"}
ANSWER = """
import json, pickle, sys
from flwr.app import RecordDict, Context
from simulations.client_app import app
from simulations.engines.inprocess import server_identity
with server_identity():
    for message, values in pickle.load(sys.stdin.buffer):
        reply = app(message, Context(*values[:3], RecordDict(), values[3]))
        assert not reply.has_error(), reply.error.reason
print(json.dumps([message.metadata.message_type, *sys.modules]))
"""
# As if a package were not installed, for this process and those that it starts.
HIDDEN = """
import sys
from importlib.machinery import PathFinder
class Others:
    find_distributions = PathFinder.find_distributions
    @staticmethod
    def find_spec(name, path=None, target=None):
        hidden = name.partition(".")[0] in {names!r}
        return None if hidden else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Others
"""
EXTRA = "pip install 'fedsuite[simulation]'"


def asked(system: str, cache: Path, tmp_path: Path) -> list[tuple[Message, tuple[Any, ...]]]:
    """The first question and the first task that the first node of a deployed run gets, with what its context holds."""
    paths = {"cache-dir": str(cache), "results-dir": str(tmp_path / "server"), "name": "run"}
    config = config_from({**TINY[system], **paths, "system": system})
    roster = prepared(config)
    write_roster(tmp_path / "roster.json", roster)
    config["roster"] = str(tmp_path / "roster.json")
    files = [
        write_node(tmp_path / name, name, tmp_path / "roster.json", data={"cache-dir": str(cache)})
        for name in roster.names
    ]
    kept: list[tuple[Message, tuple[Any, ...]]] = []

    def answer(message: Message, context: Context) -> Message:
        told = (
            context.run_id,
            context.node_id,
            dict(context.node_config),
            dict(context.run_config),
        )
        if message.metadata.dst_node_id == node:
            kept.append((message, told))
        return client_app(message, context)

    grid = grid_of(config, files)
    node, grid.client_app = min(grid.contexts), answer
    with server_identity():
        serve(grid, config)
    assert len(kept) > 2
    first = {message.metadata.message_type: (message, told) for message, told in reversed(kept)}
    return [first["query"], first["train"]]


@pytest.mark.parametrize("system", TINY)
def test_a_client_imports_what_it_uses(system: str, cache: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ANSWER], cwd=ROOT, input=pickle.dumps(asked(system, cache, tmp_path)),
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    answered, *imported = json.loads(done.stdout.splitlines()[-1])
    assert answered == "train" and {"torch", f"simulations.{system}.client"} <= {*imported}
    assert UNUSED & {*imported} == set()


def without(names: Collection[str], tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without these packages."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HIDDEN.format(names=tuple(names)))
    places = [str(tmp_path / "site"), str(ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without the packages of the extra."""
    return without(SIMULATION, tmp_path)


def told(bare: dict[str, str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    """`fedsuite ARGUMENTS` there: exit code, output, errors."""
    done = subprocess.run(
        [sys.executable, "-m", "fedsuite", *arguments],
        cwd=folder, env=bare, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "fedvln/three-houses", "--engine", "inprocess"),
        ("sweep", "fedvln/three-houses", "--vary", "seed=1,2"),
        ("report", "mine"),
        ("watch", "mine"),
    ],
)
def test_what_is_no_nodes_work_names_the_extra(
    arguments: tuple[str, ...], bare: dict[str, str], tmp_path: Path
) -> None:
    run = tmp_path / "runs" / "mine"
    run.mkdir(parents=True)
    (run / "config.json").write_text("{}")
    code, out, err = told(bare, tmp_path, *arguments)
    assert (code, out) == (2, "") and err.startswith("error: ") and err.endswith(f"{EXTRA}\n")
    assert err.count("\n") == 1 and not (tmp_path / "runs" / "fedvln-three-houses").exists()


def test_ray_is_asked_for_by_its_own_engine_alone(tmp_path: Path) -> None:
    """A machine for which there is no Ray runs all in one process."""
    values = {**fedrl_runs.TINY, "system": "fedrl", "num-rounds": 1, "name": "run"}
    config = settings_of(config_from({**values, "results-dir": str(tmp_path / "runs")}))[1]
    file = str(write_settings(tmp_path / "run.toml", config))
    bare = without(["ray"], tmp_path)
    code, out, err = told(bare, tmp_path, "run", file, "--engine", "ray")
    assert (code, out) == (2, "") and err.startswith("error: ray: not installed")
    assert err.endswith(f"{EXTRA}, or run it with --engine inprocess\n")
    assert err.count("\n") == 1 and not (tmp_path / "runs").exists()
    code, out, err = told(bare, tmp_path, "run", file, "--engine", "inprocess")
    assert code == 0 and out.splitlines()[-1].startswith("completed: "), err


def test_a_node_is_made_and_prepared_with_its_own_packages(
    bare: dict[str, str], tmp_path: Path
) -> None:
    """A kit, the houses' data, and what a house says for the roster."""
    run = ("--run", "fedvln/three-houses", "--set", f"data.cache-dir={tmp_path / 'cache'}")
    code, _, err = told(bare, tmp_path, "deploy", "init", "kit", "--host", "localhost", *run)
    assert code == 0, err
    node = next((tmp_path / "kit" / "nodes").iterdir()) / "node.toml"
    code, out, err = told(bare, tmp_path, "data", "prepare-node", str(node), "fedvln/three-houses")
    assert code == 0 and json.loads(out)["member"]["name"] == node.parent.name, err
    code, out, err = told(bare, tmp_path, "deploy", "check", str(node))
    wrong = [line for line in out.splitlines() if line.startswith("WRONG")]
    assert code == 2 and "ok    roster: " in out and len(wrong) == 1, (out, err)
    assert wrong[0].startswith("WRONG SuperLink: ")  # none runs


def test_a_missing_package_of_another_kind_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    assert understood(ModuleNotFoundError("no", name="fedsuite.nowhere")) is None
    assert understood(ModuleNotFoundError("no", name="pandas")) is None  # it is installed
    check_installed()
    monkeypatch.setattr("fedsuite.errors.find_spec", lambda _: None)
    assert EXTRA in str(understood(ModuleNotFoundError("no", name="pandas.core")))
    with pytest.raises(InputError, match=r"^ray: not installed"):
        check_installed(["ray"])


def test_the_extra_is_what_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["simulation"]
    names = {Requirement(line).name.replace("-", "_") for line in extra}
    assert names == {*SIMULATION, "flwr"}
    base = {Requirement(line).name.replace("-", "_") for line in project["project"]["dependencies"]}
    assert not base & {*SIMULATION}
    assert project["dependency-groups"]["server"] == ["fedsuite[simulation]"]
    assert project["tool"]["uv"]["default-groups"] == ["server"]
