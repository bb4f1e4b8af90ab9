"""CDL through the app: every scenario and loss runs, equal runs write equal bytes, cuts into messages change nothing, and
frames, angles, sub-networks and optimizers stay at home."""

import json
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Message
from flwr.common.serde import message_to_proto
from PIL import Image
from safetensors.numpy import load_file

import simulations.cdl_closing
from clients.private_state import PrivateState
from clients.vehicle import VehicleClient
from fedsuite.checkpoint import rounds
from fedsuite.config import to_flat
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.frames import silo_names
from fedsuite.driving.learner import Learner
from fedsuite.driving.plan import make_plan
from fedsuite.driving.sources import silos_folder
from fedsuite.errors import InputError, RunFailed
from fedsuite.files import sha256_of
from fedsuite.history import load_runs, read_rows
from fedsuite.run_folder import RunFolder, folder_of
from simulations import cli as command
from simulations.cdl_comparison import trained_parameters
from simulations.cdl_system import SYSTEM, num_partitions
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, run_inprocess, server_identity
from simulations.engines.ray import Resources, run_ray
from simulations.experiment import Request, find_experiment
from simulations.server_app import serve
from simulations.systems import settings_of
from tests.harness import Recorder, cli, start_cli, wait_for_checkpoint

TOMLS = Path(__file__).parents[2] / "simulations" / "cdl"
TINY: dict[str, Any] = {
    "system": "cdl", "network": "gaia", "num-silos": 4, "image-size": 40, "train-frames": 12,
    "test-frames": 6, "batch-size": 4, "num-rounds": 3, "checkpoint-every": 3,
}  # fmt: skip
Digests = tuple[str, str]
RunOnce = Callable[[str], Digests]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cdl-cache")


@pytest.fixture(autouse=True)
def tidy(tmp_path: Path) -> Iterator[None]:
    """Run folders go at once: together they would fill over a gigabyte."""
    yield
    shutil.rmtree(tmp_path)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end without their drawings, which take longer than such a run."""
    monkeypatch.setattr(simulations.cdl_closing, "write_closing", lambda config, run_dir: None)


def config_of(cache: Path, results: Path, name: str, **changes: Any) -> dict[str, Any]:
    paths = {"cache-dir": str(cache), "results-dir": str(results), "name": name}
    values = {k.replace("_", "-"): v for k, v in changes.items()}
    return to_flat(settings_of({**TINY, **paths, **values})[1])


def settings_from(config: Mapping[str, Any]) -> CDLConfig:
    settings = settings_of(config)[1]
    assert isinstance(settings, CDLConfig)
    return settings


def model_of(results: Path, name: str) -> bytes:
    return (results / name / "model.safetensors").read_bytes()


def digests(results: Path, name: str) -> Digests:
    """What must be equal between equal runs: the model and the history."""
    history = (results / name / "history.jsonl").read_bytes()
    return sha256_of(model_of(results, name)), sha256_of(history)


def round_rows(run: Path) -> dict[int, dict[str, float]]:
    rows = read_rows(run / "history.jsonl")
    return {r["round"]: r["metrics"] for r in rows if r["kind"] == "round"}


# --- equal runs, and what each setting does --------------------------------------------------------

VARIANTS: dict[str, dict[str, Any]] = {
    "pooled": {"scenario": "cll", "loss": "kl", "cross_evaluation": True},
    "fedavg by frames": {
        "scenario": "fedavg", "loss": "none", "data_weighted": True, "silo_sizes": "power",
    },
    "fedprox": {"scenario": "fedprox", "loss": "cd_k", "local_updates": 2},
    "star": {"scenario": "star", "loss": "kl_release", "regression": "huber"},
    "ring, one stem": {"scenario": "ring", "share_stem": True},
    "mst, features": {"scenario": "mst", "loss_space": "feature", "mixing_matrix": "fmmc"},
    "delta_mbst, sgd": {"scenario": "delta_mbst", "loss": "none", "optimizer": "sgd"},
    "matcha, mirrored": {
        "scenario": "matcha", "flip": True, "influence": "linear", "influence_floor": 0.2,
    },
    "matcha_plus": {
        "scenario": "matcha_plus", "loss": "cd_k", "influence": "exponential", "influence_floor": 0.1,
    },
    "complete, group norm": {"scenario": "complete", "batch_norm": "group", "kl_direction": "literal"},
    "local, own norm": {"scenario": "local", "batch_norm": "local"},
    "custom, two clients": {"scenario": "custom", "silos_per_client": 2, "apply_beta": False},
    "ring, colour, own norm": {"batch_norm": "local", "channels": 3, "evaluate_every": 2},
    "ring, chains of features": {"loss": "cd_k", "loss_space": "feature", "metropolis": True},
    "ring, gaussian, stacked": {"loss_space": "gaussian", "stacked": "yes", "silos_per_client": 4},
}  # fmt: skip


@pytest.fixture(scope="session")
def own_matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four silos in a one-way ring that weigh themselves differently."""
    path = tmp_path_factory.mktemp("matrix") / "mixing.csv"
    path.write_text("0.5,0.5,0,0\n0,0.6,0.4,0\n0,0,0.7,0.3\n0.2,0,0,0.8\n")
    return path


@pytest.fixture(scope="session")
def first_runs() -> dict[str, Digests]:
    return {}


@pytest.fixture
def first_run(
    cache: Path, own_matrix: Path, tmp_path: Path, first_runs: dict[str, Digests], undrawn: None
) -> RunOnce:
    """`first_run(variant)`: digests of a variant's first run, played once a session."""

    def run(variant: str) -> Digests:
        if variant not in first_runs:
            first_runs[variant] = played(cache, own_matrix, tmp_path, variant, "first")
        return first_runs[variant]

    return run


def played(cache: Path, own_matrix: Path, results: Path, variant: str, name: str) -> Digests:
    changes = dict(VARIANTS[variant])
    if changes.get("scenario") == "custom":
        changes["network_file"] = str(own_matrix)
    run_inprocess(config_of(cache, results, name, **changes))
    for metrics in round_rows(results / name).values():
        assert all(np.isfinite(v) for v in metrics.values())
    return digests(results, name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_runs_twice_with_the_same_bytes(
    cache: Path, own_matrix: Path, tmp_path: Path, first_run: RunOnce, variant: str
) -> None:
    assert first_run(variant) == played(cache, own_matrix, tmp_path, variant, "again")


def test_variants_train_differently(first_run: RunOnce) -> None:
    assert len({first_run(v)[0] for v in VARIANTS}) == len(VARIANTS)


def test_every_scenario_and_loss_is_among_the_variants() -> None:
    keys: dict[str, set[Any]] = {
        key: set() for key in ("scenario", "loss", "batch_norm", "optimizer", "influence")
    }
    for changes in VARIANTS.values():
        for key, seen in keys.items():
            seen.add(changes.get(key, getattr(CDLConfig(), key)))
    for key, seen in keys.items():
        choices = CDLConfig.__dataclass_fields__[key].metadata["limits"].choices
        assert seen == set(choices), key


SINGLE_CHANGES: tuple[dict[str, Any], ...] = (
    {}, {"loss": "none"}, {"loss": "kl_release"}, {"loss": "cd_k"}, {"loss_space": "feature"},
    {"loss_space": "gaussian"}, {"temperature": 1.0}, {"beta": 0.9}, {"apply_beta": False},
    {"kl_direction": "literal"}, {"influence": "linear", "influence_floor": 0.5}, {"share_stem": True}, {"flip": True},
    {"optimizer": "sgd"}, {"local_updates": 2}, {"batch_norm": "group"}, {"seed": 1},
    {"regression": "mae"}, {"weight_decay": 0.1}, {"concept_skew": 0.5}, {"scenario": "local"},
)  # fmt: skip


def test_every_single_setting_matters(cache: Path, tmp_path: Path, undrawn: None) -> None:
    """One key at a time, two silos, two mixing steps: no two models are equal."""
    seen: dict[bytes, dict[str, Any]] = {}
    for number, change in enumerate(SINGLE_CHANGES):
        config = config_of(
            cache, tmp_path, f"run-{number}", num_silos=2, num_rounds=1, mixings_per_round=2,
            silos_per_client=2, evaluate_every=0, **change,
        )  # fmt: skip
        run_inprocess(config)
        model = model_of(tmp_path, f"run-{number}")
        assert model not in seen, f"{change} trains as {seen[model]}"
        seen[model] = change


# --- exactness -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["ring", "matcha", "fedavg", "local"])
def test_several_mixings_in_one_message_change_nothing(
    cache: Path, tmp_path: Path, undrawn: None, scenario: str
) -> None:
    common = {"scenario": scenario, "silos_per_client": 4, "influence": "linear"}
    run_inprocess(config_of(cache, tmp_path, "one", **common, num_rounds=6))
    run_inprocess(config_of(cache, tmp_path, "two", **common, mixings_per_round=2))
    assert model_of(tmp_path, "one") == model_of(tmp_path, "two")
    one, two = (round_rows(tmp_path / name) for name in ("one", "two"))
    for number in (1, 2, 3):
        for key in ("rmse", "silo-rmse.worst", "mixings", "overlay-bytes", "simulated-seconds"):
            assert one[2 * number].get(key) == two[number].get(key), key
    trained = [one[n]["train.loss"] for n in (3, 4)]
    assert two[2]["train.loss"] == pytest.approx(np.mean(trained))


@pytest.mark.parametrize(("loss", "sizes"), [("kl", (1, 2, 4)), ("cd_k", (1, 3))])
def test_how_many_silos_a_client_holds_changes_nothing(
    cache: Path, tmp_path: Path, undrawn: None, loss: str, sizes: tuple[int, ...]
) -> None:
    for size in sizes:
        run_inprocess(config_of(cache, tmp_path, f"held-{size}", loss=loss, silos_per_client=size))
    assert len({model_of(tmp_path, f"held-{size}") for size in sizes}) == 1
    curves = [
        {n: (m["rmse"], m["overlay-bytes"]) for n, m in round_rows(tmp_path / f"held-{s}").items() if n}
        for s in sizes
    ]  # fmt: skip
    assert curves == [curves[0]] * len(sizes)


def test_scenarios_with_a_server_agree_where_they_must(
    cache: Path, tmp_path: Path, undrawn: None
) -> None:
    """After one local update nothing pulls FedProx back, and STAR is FedAvg with another clock."""
    for name in ("fedavg", "fedprox", "star"):
        run_inprocess(
            config_of(cache, tmp_path, name, scenario=name, num_rounds=2, proximal_mu=1.0)
        )
    assert model_of(tmp_path, "fedavg") == model_of(tmp_path, "fedprox")
    assert model_of(tmp_path, "fedavg") == model_of(tmp_path, "star")
    seconds = [round_rows(tmp_path / n)[2]["simulated-seconds"] for n in ("fedavg", "star")]
    assert seconds[0] < seconds[1]
    for name in ("fedavg", "fedprox"):
        changes = {"scenario": name, "proximal_mu": 1.0, "local_updates": 2, "num_rounds": 1}
        run_inprocess(config_of(cache, tmp_path, f"{name}-2", **changes))
    assert model_of(tmp_path, "fedavg-2") != model_of(tmp_path, "fedprox-2")


def test_silos_agree_after_a_server_and_differ_after_a_ring(
    cache: Path, tmp_path: Path, undrawn: None
) -> None:
    """The model holds every silo's backbone and their average; counters stay with their silo."""
    for name in ("fedavg", "ring"):
        run_inprocess(config_of(cache, tmp_path, name, scenario=name, num_rounds=2))
    for name in ("fedavg", "ring"):
        model = load_file(tmp_path / name / "model.safetensors")
        average = {k: v for k, v in model.items() if not k.startswith("silos.")}
        assert {f"silos.{k}" for k in average} == model.keys() - average.keys()
        for key, value in average.items():
            silos = model[f"silos.{key}"]
            assert silos.shape == (4, *value.shape)
            if value.dtype == np.float32 and not key.endswith("running_var"):
                np.testing.assert_allclose(silos.mean(0), value, atol=1e-6)
                equal = bool((silos == silos[0]).all())
                assert equal == (name == "fedavg") or (not value.any() and equal), key


# --- resume and other engines ----------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"batch_norm": "local", "silos_per_client": 2}])
def test_a_resumed_run_equals_an_uninterrupted_one(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, changes: Any
) -> None:
    """The third round fails after the second was saved; private states of the third are dropped again."""
    changes = {**changes, "num_rounds": 4, "checkpoint_every": 2}
    run_inprocess(config_of(cache, tmp_path, "whole", **changes))
    stop_round(monkeypatch, 4)
    with pytest.raises(RunFailed, match=r"round 4, train: .* out of luck"):
        run_inprocess(config_of(cache, tmp_path, "parts", **changes))
    monkeypatch.undo()
    monkeypatch.setattr(simulations.cdl_closing, "write_closing", lambda config, run_dir: None)
    parts = RunFolder(tmp_path / "parts")
    assert rounds(parts.checkpoints)[-1] == 2
    states = sorted(p.name for p in parts.clients.rglob("*.safetensors"))
    assert "round-000003.safetensors" in states
    run_inprocess(config_of(cache, tmp_path, "parts", **changes, resume=str(parts.path)))
    assert digests(tmp_path, "whole") == digests(tmp_path, "parts")
    assert private_states(tmp_path / "whole") == private_states(tmp_path / "parts")


def stop_round(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    original = VehicleClient.fit

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        if config["round"] == number and self.site.partition == 1:
            raise RuntimeError("out of luck")
        return original(self, parameters, config)

    monkeypatch.setattr(VehicleClient, "fit", fit)


def private_states(run: Path) -> dict[str, str]:
    """SHA-256 of sub-networks, moments and local tensors of all silos."""
    files = sorted((run / "clients").rglob("*.safetensors"))
    assert files
    return {str(p.relative_to(run)): sha256_of(p.read_bytes()) for p in files}


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(cache: Path, tmp_path: Path) -> None:
    """kill -9 in the middle; sub-networks and both optimizers' moments included."""
    changes = {"num_rounds": 8, "checkpoint_every": 2, "local_updates": 6}
    run_inprocess(config_of(cache, tmp_path, "whole", **changes))
    config = config_of(cache, tmp_path, "killed", **changes)
    lines = [f"{key} = {json.dumps(value)}" for key, value in config.items() if value != ""]
    (tmp_path / "killed.toml").write_text("\n".join(lines))
    process = start_cli(tmp_path, "run", "killed.toml", "--engine", "inprocess")
    wait_for_checkpoint(process, RunFolder(tmp_path / "killed"), 4)
    process.kill()
    process.communicate()
    assert RunFolder(tmp_path / "killed").status()["status"] == "running"  # it was in the middle
    done = cli(tmp_path, "run", "--resume", str(tmp_path / "killed"), "--engine", "inprocess")
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path, "whole") == digests(tmp_path, "killed")
    assert private_states(tmp_path / "whole") == private_states(tmp_path / "killed")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_ray_workers_write_the_bytes_of_the_in_process_engine(
    cache: Path, tmp_path: Path, workers: int
) -> None:
    changes = {"silos_per_client": 2, "checkpoint_every": 1}
    run_inprocess(config_of(cache, tmp_path, "here", **changes))
    there = config_of(cache, tmp_path, "there", **changes)
    settings = settings_from(there)
    run_ray(there, folder_of(settings), num_partitions(settings), Resources(workers))
    assert digests(tmp_path, "here") == digests(tmp_path, "there")
    assert private_states(tmp_path / "here") == private_states(tmp_path / "there")


# --- a silo that fails -----------------------------------------------------------------------------

BROKEN = 1  # the silo, and its partition


def diverge(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The silo's training of this round ends in NaN."""
    original = Learner.train

    def train(self: Learner, first: int, count: int, matrix: Any) -> dict[str, np.ndarray]:
        terms = original(self, first, count, matrix)
        if first == number - 1 and BROKEN in self.site.silos:
            with torch.no_grad():
                self.fleet.backbone["trunk.head.weight"].fill_(torch.nan)
        return terms

    monkeypatch.setattr(Learner, "train", train)


def misshape(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The silo's reply of this round lacks a row."""
    original = VehicleClient.fit

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        arrays, examples, metrics = original(self, parameters, config)
        if config["round"] == number and self.site.partition == BROKEN:
            arrays[0] = arrays[0][:, 1:]
        return arrays, examples, metrics

    monkeypatch.setattr(VehicleClient, "fit", fit)


FAULTS = {
    "nan": (diverge, "error", "training diverged"),
    "shape": (misshape, "rejected", "has shape"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_silo_is_left_out_and_joins_again(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    spoil, status, words = FAULTS[fault]
    spoil(monkeypatch, 2)
    config = config_of(cache, tmp_path, "run", num_rounds=4, min_reply_fraction=0.5)
    recorder = recorded(config)
    rows = read_rows(tmp_path / "run" / "history.jsonl")
    trained = {(r["round"], r["partition"]): r for r in rows if r.get("task") == "train"}
    failed = trained[2, BROKEN]
    name = silo_names(silos_folder(settings_from(config), 4))[BROKEN]
    assert failed["status"] == status and words in failed["reason"] and failed["name"] == name
    assert all(r["status"] == "ok" for k, r in trained.items() if k != (2, BROKEN))
    metrics = round_rows(tmp_path / "run")
    assert [metrics[n].get("silos-missing") for n in (1, 2, 3, 4)] == [None, 1.0, None, None]
    held = {n: backbones_sent(recorder, n) for n in (2, 3, 4)}  # as of the round before
    for key in ("trunk.head.weight", "stem.conv.weight"):
        stayed = [np.array_equal(held[2][p][key], held[3][p][key]) for p in range(4)]
        assert stayed == [p == BROKEN for p in range(4)]
        assert not np.array_equal(held[3][BROKEN][key], held[4][BROKEN][key])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_silo_fails_a_run_that_needs_all(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    spoil, status, words = FAULTS[fault]
    spoil(monkeypatch, 2)
    config = config_of(cache, tmp_path, "run")
    SYSTEM.prepare(settings_from(config), lambda _: None)
    name = silo_names(silos_folder(settings_from(config), 4))[BROKEN]
    told = f"round 2, train: 3 of 4 replies usable, .*{re.escape(name)}: {status}: .*{words}"
    with pytest.raises(RunFailed, match=told):
        run_inprocess(config)


def recorded(config: dict[str, Any]) -> Recorder:
    """The messages of a whole run."""
    settings = settings_from(config)
    SYSTEM.validate(settings)
    SYSTEM.prepare(settings, lambda _: None)
    recorder = Recorder(InProcessGrid(client_app, num_partitions(settings), config))
    with server_identity():
        serve(recorder, config)
    return recorder


def backbones_sent(recorder: Recorder, number: int) -> dict[int, dict[str, np.ndarray]]:
    """What every client was sent to train on in this round, by partition."""
    nodes = sorted(recorder.get_node_ids(), reverse=True)  # as InProcessGrid numbers them
    return {
        nodes.index(m.metadata.dst_node_id): {k: v.numpy() for k, v in arrays_in(m).items()}
        for m in recorder.sent
        if m.metadata.message_type == "train" and m.content["config"]["round"] == number
    }


def arrays_in(message: Message) -> ArrayRecord:
    record = message.content["arrays"]
    assert isinstance(record, ArrayRecord)
    return record


# --- what crosses ----------------------------------------------------------------------------------


def plant(folder: Path) -> tuple[list[bytes], list[bytes]]:
    """Put noise that occurs nowhere else into the first silo; needles of its images and of its angles."""
    rng = np.random.default_rng(99)
    images, angles = [], []
    for split in ("train", "test"):
        path = folder / silo_names(folder)[0] / f"{split}_images.npy"
        noise = rng.integers(0, 256, np.load(path).shape, np.uint8)
        np.save(path, noise)
        rows = [frame[0, 20] for frame in noise]
        images += [
            kind for row in rows for kind in (row.tobytes(), row.astype(np.float32).tobytes())
        ]
        path = folder / silo_names(folder)[0] / f"{split}_angles.npy"
        planted = rng.uniform(0.7, 0.99, np.load(path).shape).astype(np.float32)
        np.save(path, planted)
        angles += [kind for a in planted for kind in (a.tobytes(), np.float64(a).tobytes())]
    return images, angles


def needles_of(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, bytes]:
    """Bytes from the middle of every larger array whose numbers are all different."""
    found = {}
    for name, array in arrays.items():
        flat = array.ravel()
        part = flat[len(flat) // 2 :][:16]
        if name.startswith(prefix) and len(np.unique(part[part != 0])) == 16:
            found[name] = part.tobytes()
    return found


@pytest.fixture(scope="module")
def planted_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Recorder, Path, tuple[list[bytes], list[bytes]]]]:
    """Messages of a run over planted data, its folder, and the needles."""
    folder = tmp_path_factory.mktemp("planted")
    config = config_of(folder / "cache", folder, "run", num_silos=2, cross_evaluation=True)
    SYSTEM.prepare(settings_from(config), lambda _: None)
    needles = plant(silos_folder(settings_from(config), 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulations.cdl_closing, "write_closing", lambda config, run_dir: None)
        patch.setattr(
            PrivateState, "prune", lambda self, checkpoints: None
        )  # all rounds stay to search
        recorder = recorded(config)
    yield recorder, folder / "run", needles
    shutil.rmtree(folder)


def serialised(recorder: Recorder) -> bytes:
    return b"".join(
        message_to_proto(m).SerializeToString() for m in (*recorder.sent, *recorder.received)
    )


def test_frames_angles_and_private_tensors_stay_at_home(planted_run: Any) -> None:
    recorder, run, (images, angles) = planted_run
    wire = serialised(recorder)
    for needle in (*images, *angles):
        assert needle not in wire
    versions = {
        int(p.stem[6:]): load_file(p) for p in (run / "clients").rglob("round-*.safetensors")
    }
    assert set(versions) == {1, 2, 3}
    # In the first round the sub-network is a copy of the backbone that is sent; later it is its own.
    private = {r: needles_of(versions[r], "sub.") for r in (2, 3)}
    moments = {r: needles_of(versions[r], "moments.") for r in (1, 2, 3)}
    assert all(len(n) > 5 for n in (*private.values(), *moments.values()))
    for found in (*private.values(), *moments.values()):
        for name, needle in found.items():
            assert needle not in wire, name
    backbone = needles_of(load_file(run / "model.safetensors"), "silos.")
    assert len(backbone) > 5
    # The search finds what does cross: the backbones of round 2, and the sub-network's twin of round 1.
    sent = {k: v.numpy() for k, v in arrays_in(recorder.sent[-1]).items()}
    assert all(needle in wire for needle in needles_of(sent, "").values())
    assert any(needle in wire for needle in needles_of(versions[1], "sub.").values())


def test_only_backbones_counts_losses_and_error_sums_cross(planted_run: Any) -> None:
    recorder, run, _ = planted_run
    model = load_file(run / "model.safetensors")
    shapes = {k: v.shape for k, v in model.items() if not k.startswith("silos.")}
    for message in recorder.sent:
        kind = message.metadata.message_type
        config = set(message.content["config"])
        if kind == "query":
            assert set(message.content) == {"config"} and config == {"resume-round"}
            continue
        assert set(message.content) == {"arrays", "config"}
        told = {"round", "checkpoint-rounds"}
        assert config == told | ({"first-mixing", "mixings"} if kind == "train" else set())
        for name, array in arrays_in(message).items():
            own = kind == "train" or name.startswith("own.")
            plain = name if kind == "train" else name.removeprefix("own.").removeprefix("average.")
            assert tuple(array.shape) == ((1, *shapes[plain]) if own else shapes[plain])
    assert len(recorder.received) == len(recorder.sent)
    for message in recorder.received:
        check_reply(message, shapes)


def check_reply(message: Message, shapes: Mapping[str, tuple[int, ...]]) -> None:
    kind = message.metadata.message_type
    if kind == "query":
        assert set(message.content) == {"properties", "timing"}
        said = {re.sub(r"^silo\.\d+\.", "", k) for k in message.content["properties"]}
        assert said == {"partition", "name", "num-examples"}
        return
    assert set(message.content) == {"metrics", "timing"} | (
        {"arrays"} if kind == "train" else set()
    )
    names = {re.sub(r"^silo\.\d+\.", "", k) for k in message.content["metrics"]}
    if kind == "train":
        assert {k: tuple(v.shape)[1:] for k, v in arrays_in(message).items()} == shapes
        assert names == {
            "num-examples", "regression-loss", "cd-plus", "cd-minus", "loss", "sub-network-distance",
        }  # fmt: skip
    else:
        sums = ("squared-error", "absolute-error", "count")
        told = {f"{m}.{s}" for m in ("own", "average") for s in sums} | {"num-examples", "loss"}
        assert names <= told and {f"average.{s}" for s in sums} <= names


def test_the_history_counts_the_bytes_that_crossed(planted_run: Any) -> None:
    _, run, _ = planted_run
    model = load_file(run / "model.safetensors")
    size = sum(v.nbytes for k, v in model.items() if not k.startswith("silos."))
    rows = [r for r in read_rows(run / "history.jsonl") if r.get("task") == "train"]
    assert len(rows) == 6
    assert {(r["bytes-down"], r["bytes-up"]) for r in rows} == {(size, size)}
    # Two silos on a ring: two directed links, one model over each of them in every mixing.
    overlay = [m["overlay-bytes"] for n, m in round_rows(run).items() if n]
    assert overlay == [2 * size * n for n in (1, 2, 3)]


# --- bad input -------------------------------------------------------------------------------------


@pytest.fixture
def call(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`call(changes, head)` runs a TOML of the tiny run in `tmp_path`: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(changes: Mapping[str, Any], end: str = "") -> tuple[int, str, str]:
        table = {**TINY, "cache-dir": str(cache), **changes}
        lines = [f"{k} = {json.dumps(v)}" for k, v in table.items()]
        (tmp_path / "x.toml").write_text("\n".join(lines) + end)
        monkeypatch.setattr(sys, "argv", ["fedsuite", "run", "x.toml", "--engine", "inprocess"])
        before = signal.getsignal(signal.SIGTERM)
        try:
            command.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            signal.signal(signal.SIGTERM, before)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mixings-per-round": 2}, "mixings-per-round: 2"),
        ({"num-silos": 12}, "num-silos: 12 silos, but network gaia has 11 nodes"),
        ({"scenario": "cll", "silos-per-client": 2}, "silos-per-client"),
        ({"data-dir": "nowhere"}, "nowhere"),
        ({"model": "inception_v3", "image-size": 64}, "inception_v3 needs at least 75 pixels"),
        ({"model": "fadnet", "share-stem": True}, "share-stem"),
        ({"influence": "exponential"}, "influence-floor"),
        ({"loss": "kl_release", "loss-space": "feature"}, "kl_release compares predictions"),
        ({"loss": "cd_k", "loss-space": "gaussian"}, "cd_k is Gaussian already"),
        ({"batch-size": 1, "image-size": 32}, "batch-size"),
        ({"data-weighted": True}, "data-weighted"),
        ({"batch-norm": "local", "cross-evaluation": True}, "cross-evaluation"),
        ({"learning-rate": -1.0}, "learning-rate"),
        ({"loss": "klx"}, "loss"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(
    call: Any, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    check_refusal(call(changes), words)
    assert [p.name for p in tmp_path.iterdir()] == ["x.toml"]


def check_refusal(answer: tuple[int, str, str], words: str) -> None:
    code, out, err = answer
    assert code == 2, (out, err)
    assert err.startswith("error: ") and err.count("\n") == 1 and err.endswith("\n")
    assert words in err and "Traceback" not in out + err


MATRICES = {
    "a row that sums to 0.9": ("0.5,0.4,0,0\n0,0.6,0.4,0\n0,0,0.7,0.3\n0.2,0,0,0.8\n", "row 1"),
    "a negative weight": ("1.5,-0.5,0,0\n0,0.6,0.4,0\n0,0,0.7,0.3\n0.2,0,0,0.8\n", "row 1"),
    "two islands": (".5,.5,0,0\n.5,.5,0,0\n0,0,.5,.5\n0,0,.5,.5\n", "not connected"),
    "five silos": ("\n".join(",".join(["0.2"] * 5) for _ in range(5)) + "\n", "5 silos"),
    "a word": ("0.5,half,0,0\n0,0.6,0.4,0\n0,0,0.7,0.3\n0.2,0,0,0.8\n", "'half'"),
}


@pytest.mark.parametrize("matrix", MATRICES)
def test_bad_matrices_are_refused(call: Any, tmp_path: Path, matrix: str) -> None:
    text, words = MATRICES[matrix]
    (tmp_path / "own.csv").write_text(text)
    check_refusal(call({"scenario": "custom", "network-file": "own.csv"}), words)
    assert {p.name for p in tmp_path.iterdir()} == {"x.toml", "own.csv"}


def write_drives(folder: Path, names: tuple[str, ...] = ("ada", "bob"), frames: int = 60) -> None:
    """Drives of a simulator: darker to the left."""
    for name in names:
        (folder / name / "IMG").mkdir(parents=True)
        lines = []
        for i in range(frames):
            Image.new("L", (40, 30), 4 * i).save(folder / name / "IMG" / f"{i}.png")
            lines.append(f"{i}.png,{i / 100 - 0.3:.2f},0,0,0\n")
        (folder / name / "driving_log.csv").write_text("".join(lines))


def lose_image(drives: Path) -> None:
    (drives / "bob" / "IMG" / "7.png").unlink()


def cut_image(drives: Path) -> None:
    path = drives / "bob" / "IMG" / "7.png"
    path.write_bytes(path.read_bytes()[:40])


def wild_label(drives: Path) -> None:
    path = drives / "bob" / "driving_log.csv"
    path.write_text(path.read_text().replace("\n7.png,-0.23", "\n7.png,-23"))


def empty_label(drives: Path) -> None:
    path = drives / "bob" / "driving_log.csv"
    path.write_text(path.read_text().replace("\n7.png,-0.23", "\n7.png,"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lose_image, "bob/IMG/7.png"),
        (cut_image, "7.png: cannot be decoded"),
        (wild_label, "driving_log.csv"),
        (empty_label, "driving_log.csv"),
    ],
)
def test_damaged_drives_are_refused(
    call: Any, tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    write_drives(tmp_path / "drives")
    damage(tmp_path / "drives")
    changes = {"data-dir": "drives", "num-silos": 0, "cache-dir": str(tmp_path / "cache")}
    check_refusal(call(changes), words)
    left = {p.name for p in tmp_path.iterdir()}
    assert left - {"cache"} == {"x.toml", "drives"}
    assert not list(tmp_path.glob("cache/*"))


def test_drives_of_people_become_silos(call: Any, tmp_path: Path, undrawn: None) -> None:
    write_drives(tmp_path / "drives")
    changes = {"data-dir": "drives", "num-silos": 0, "cache-dir": str(tmp_path / "cache")}
    code, _, err = call(changes)
    assert (code, err) == (0, "")
    rows = read_rows(tmp_path / "runs" / "x" / "history.jsonl")
    assert {r["name"] for r in rows if r["kind"] == "client"} == {"ada", "bob"}


# --- numbers ---------------------------------------------------------------------------------------


def test_sizes_and_cycle_time_are_the_published_ones() -> None:
    """629,314 trained parameters at 200 pixels; the ring over Gaia with the mean of three published computation times."""
    config = CDLConfig(image_size=200, scenario="ring", computation_time_ms=(1.2 + 5.5 + 7.7) / 3)
    plan = make_plan(config)
    assert trained_parameters(config) == 629_314
    assert plan.message_bits == 10_091_936
    assert plan.cycle_time_ms == pytest.approx(62.64, abs=0.005)
    assert len(plan.holders) == 11 and plan.links_per_mixing == 11


# --- experiments -----------------------------------------------------------------------------------

TWO = """
[variants.plain]
loss = "none"
[variants.cdl]
loss = "kl"
cross-evaluation = true
"""
DRAWINGS = ("learning.png", "wall-clock.png", "steering.png", "frames.png", "overlay.png")


def test_an_experiment_compares_its_runs(call: Any, tmp_path: Path) -> None:
    code, _, err = call({"silos-per-client": 4}, TWO)
    assert (code, err) == (0, "")
    folder = tmp_path / "runs" / "x"
    lines = (folder / "results.md").read_text().splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:4]] == ["plain", "cdl"]
    rows = (folder / "results.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["variant", "plain", "cdl"]
    for place in (folder, folder / "cdl"):
        for name in DRAWINGS:
            with Image.open(place / name) as picture:
                assert np.asarray(picture.convert("L")).std() > 5, name  # something is drawn
    cdl = load_runs(folder / "cdl")
    rmse = cdl.rounds["rmse"].dropna().iloc[-1]
    assert f"{rmse:.3f}" in lines[3]
    assert "everywhere-rmse.mean" in cdl.closing
    table = (folder / "cdl" / "results.md").read_text()
    assert "constant" in table and f"{rmse:.4f}" in table and "own models everywhere" in table


@pytest.mark.parametrize("toml", sorted(p.name for p in TOMLS.glob("*.toml")))
def test_shipped_configurations_are_valid(toml: str, tmp_path: Path) -> None:
    changes = [f"results-dir={tmp_path}"]
    if toml == "drivers.toml":
        write_drives(tmp_path / "drives", tuple("abcdef"), 2)
        changes.append(f"data-dir={tmp_path / 'drives'}")
    experiment = find_experiment(Request(TOMLS / toml, changes))
    assert experiment is not None and len(experiment.chosen) > 1
    assert all(plan.settings.system == "cdl" for plan in experiment.plans.values())


def test_a_missing_folder_of_drives_is_told_by_its_key(tmp_path: Path) -> None:
    config = settings_from(config_of(tmp_path, tmp_path, "x", data_dir=str(tmp_path / "none")))
    with pytest.raises(InputError, match=r"data-dir: .*none is not a folder"):
        SYSTEM.prepare(config, lambda _: None)
