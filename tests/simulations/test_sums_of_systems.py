"""Secure sums in FedVLN and CDL, on real nodes whose rosters name their keys."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy

import fedsuite.driving.report.run
from fedsuite.errors import InputError, RunFailed
from fedsuite.history import load_run
from fedsuite.privacy.identity import drawn_key, number_of
from fedsuite.roster.members import Roster, write_roster
from simulations.deploy.kit.keys import fingerprint_of_private, make_key, read_private
from simulations.systems import settings_of
from tests import cdl_runs, fedvln_runs, summed_runs
from tests.harness import config_from, prepared
from tests.nodes import deploy, grid_of, write_node
from tests.summed_runs import LosingGrid, played, without_masks

CDL = {"scenario": "star", "num_rounds": 2, "min_reply_fraction": 0.5, "checkpoint_every": 1}
FEDVLN = {"generated_seen_houses": 4, "num_rounds": 2, "min_reply_fraction": 0.5}
LOST = {(1, "masked"): [3], (2, "keys"): [0]}
NOISED = {"privacy.unit": "client", "privacy.noise": "seeded", "privacy.adaptive-clip": True}
PLAINLY_LOST = {(1, "train"): [3], (2, "train"): [0]}


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """CDL's runs end without drawings, which take longer than such a run."""
    monkeypatch.setattr(fedsuite.driving.report.run, "draw_data", lambda config, folder: None)
    monkeypatch.setattr(fedsuite.driving.report.run, "write_results", lambda config, folder: None)


def config_of(system: str, cache: Path, results: Path, name: str, **changes: Any) -> dict[str, Any]:
    if system == "cdl":
        return cdl_runs.config_of(cache, results, name, **{**CDL, **changes})
    paths = {"cache-dir": str(cache), "results-dir": str(results), "name": name}
    return config_from({**fedvln_runs.TINY, **paths}, **{**FEDVLN, **changes})


@pytest.mark.parametrize("system", ["cdl", "fedvln"])
@pytest.mark.parametrize("more", [{}, {"control_variates": True}], ids=["plain", "scaffold"])
def test_the_plain_integer_sum_and_the_mean(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, system: str, more: dict[str, Any]
) -> None:
    """Of those whose change arrived, bit for bit; and to float32's last bits what plain averaging makes."""
    found = {}
    for name in ("plain", "summed", "twin"):
        if name == "twin":
            without_masks(monkeypatch)
        on = {"secure_sum": name != "plain", **more}
        config = config_of(system, cache, tmp_path, name, **on)
        lost = PLAINLY_LOST if name == "plain" else LOST
        found[name] = played(LosingGrid(config, lost), config)
    one, other = (safetensors.numpy.load_file(found[n].model) for n in ("summed", "plain"))
    assert one.keys() == other.keys()
    # The second visit begins at a model that is off by some last bits, which training makes more of.
    assert max(float(abs(one[k] - other[k]).max()) for k in one) < 2e-3
    assert found["summed"].model.read_bytes() == found["twin"].model.read_bytes()
    rows = [(found[n].path / "history.jsonl").read_bytes() for n in ("summed", "twin")]
    assert rows[0] == rows[1]
    rounds = load_run(found["summed"].path).rounds
    assert [*rounds["secure-sum.members"].dropna()] == [3, 3]
    assert "consensus-distance-before-mixing" not in rounds


@pytest.mark.parametrize(
    ("system", "changes", "key"),
    [
        ("cdl", {"scenario": "ring"}, "ring has no server"),
        ("cdl", {"silos_per_client": 2}, "federation.silos-per-client = 1"),
        ("cdl", {"merge": "clipped"}, 'federation.merge = "mean"'),
        ("cdl", {"batch_norm": "average"}, "network.batch-norm = average"),
        ("cdl", {"optimizer": "gradient-tracking"}, "training.optimizer"),
        ("fedvln", {"aggregation": "sequential"}, 'federation.aggregation = "parallel"'),
        ("fedvln", {"client_optimizer": "shared"}, "federation.client-optimizer = shared"),
        ("fedvln", {"houses_per_message": 2}, "federation.houses-per-message = 0"),
        ("fedvln", {"method": "local-only"}, "federation.method = local-only"),
        ("fedvln", {"sabotage.clients": "0"}, "sabotage.clients"),
    ],
)
def test_what_does_not_go_with_sums(
    tmp_path: Path, cache: Path, system: str, changes: dict[str, Any], key: str
) -> None:
    config = config_of(system, cache, tmp_path, "run", **{**changes, "secure_sum": True})
    with pytest.raises(InputError) as refused:
        prepared(config)
    told = str(refused.value)
    assert told.startswith("federation.secure-sum: ") and key in told and "\n" not in told


@pytest.mark.parametrize(
    ("system", "changes"), [("cdl", {"num_silos": 2}), ("fedvln", {"participation_rate": 0.5})]
)
def test_rounds_of_two(tmp_path: Path, cache: Path, system: str, changes: dict[str, Any]) -> None:
    config = config_of(system, cache, tmp_path, "run", **{**changes, "secure_sum": True})
    own, settings = settings_of(config)
    with pytest.raises(InputError, match="a round would have 2 members, expected at least 3"):
        own.make_strategy(settings, prepared(config))


# --- real nodes -----------------------------------------------------------------------------------


def nodes_of(tmp_path: Path, roster: Roster, **keys: Any) -> list[Path]:
    """Nodes with the keys of the kit, whose rosters name them."""
    files, bound = [], []
    for member in roster.members:
        folder = tmp_path / member.name
        folder.mkdir()
        private, _ = make_key(member.name)
        (folder / "node.key").write_bytes(private)
        public = fingerprint_of_private(read_private(folder / "node.key"))
        bound.append(dataclasses.replace(member, key=public))
        allowed = {"allow_systems": ["tests.summed_runs:SYSTEM"], "own_key": "node.key", **keys}
        files.append(write_node(folder, member.name, tmp_path / "nodes.json", **allowed))
    write_roster(tmp_path / "nodes.json", dataclasses.replace(roster, members=tuple(bound)))
    write_roster(tmp_path / "server.json", roster)
    return files


@pytest.mark.parametrize(
    "own", [{}, NOISED, {"federation.control-variates": True}], ids=["plain", "noised", "scaffold"]
)
def test_nodes_that_know_each_other_make_the_bytes_of_a_simulation(
    tmp_path: Path, own: dict[str, Any]
) -> None:
    simulated = summed_runs.run(tmp_path / "simulated", "run", **own)
    changes = {**own, "roster": str(tmp_path / "server.json")}
    config = summed_runs.config_of(tmp_path / "server", "run", **changes)
    config = {**config, "min-reply-fraction": 0.3}
    files = nodes_of(tmp_path, prepared(config), secure_sums=True)
    done = deploy(config, files)
    assert done.model.read_bytes() == simulated.model.read_bytes()
    for name in summed_runs.SITES:
        (kept,) = (tmp_path / name / "state").rglob("secure-sum-peers/*.safetensors")
        assert number_of(drawn_key()) not in kept.read_bytes()


class LosingNodes(LosingGrid):
    """With nodes that have files of their own."""

    def __init__(
        self, config: dict[str, Any], files: list[Path], losses: summed_runs.Losses
    ) -> None:
        super().__init__(config, losses)
        grid = grid_of(config, files)
        self.contexts = grid.contexts
        self._partitions = {
            node: i
            for node, context in grid.contexts.items()
            for i, file in enumerate(files)
            if context.node_config["node"] == str(file)
        }

    def partition_of(self, node: int) -> int:
        return self._partitions[node]


@pytest.mark.parametrize("stage", ["keys", "shares", "masked", "unmask"])
def test_a_node_lost_at_any_stage_leaves_the_bytes_of_a_simulation(
    tmp_path: Path, stage: str
) -> None:
    """Four of five are left, of which three are enough; the one that was lost takes part in later rounds."""
    losses = {(2, stage): [1]}
    simulated = summed_runs.run(tmp_path / "simulated", "run", losses)
    config = summed_runs.config_of(tmp_path / "server", "run", roster=str(tmp_path / "server.json"))
    config = {**config, "min-reply-fraction": 0.3}
    files = nodes_of(tmp_path, prepared(config), secure_sums=True)
    deployed = played(LosingNodes(config, files, losses), config)
    for name in ("model.safetensors", "history.jsonl"):
        assert (deployed.path / name).read_bytes() == (simulated.path / name).read_bytes()
    members = load_run(deployed.path).rounds["secure-sum.members"].dropna()
    assert [*members] == [5, 5 if stage == "unmask" else 4, 5]


def test_a_node_under_another_key_is_nobodys_peer(tmp_path: Path) -> None:
    config = summed_runs.config_of(tmp_path / "server", "run", roster=str(tmp_path / "server.json"))
    files = nodes_of(tmp_path, prepared(config))
    private, _ = make_key("somebody")
    (tmp_path / "east" / "node.key").write_bytes(private)
    with pytest.raises(RunFailed, match="secure sum, shares: 0 of 5 members answered"):
        deploy(config, files)
    told = (tmp_path / "server" / "run" / "errors.log").read_text()
    assert "keys = member 2 as SHA256:" in told and "Traceback" not in told


def test_a_bad_own_key_is_told(tmp_path: Path) -> None:
    config = summed_runs.config_of(tmp_path / "server", "run", roster=str(tmp_path / "server.json"))
    files = nodes_of(tmp_path, prepared(config))
    (tmp_path / "east" / "node.key").write_text("nothing")
    # The server asks again until all are there: the file may be mended in this time.
    with pytest.raises(RunFailed, match="no private key of P-384"):
        deploy({**config, "node-deadline-s": 1.0}, files)
