"""Frames, angles, sub-networks and optimizers stay at home."""

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.common.serde import message_to_proto
from safetensors.numpy import load_file

import fedsuite.driving.report.run
from fedsuite.driving.data.frames import silo_names
from fedsuite.driving.data.sources import silos_folder
from fedsuite.driving.training.sub_networks import SUB_NETWORKS
from fedsuite.history import read_rows
from fedsuite.runs.versions import Versions
from fedsuite.storage.progress import silent
from simulations.cdl.system import SYSTEM
from tests.cdl_runs import config_of, round_rows, settings_from
from tests.harness import Recorder, arrays_in, recorded


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
    SYSTEM.prepare(settings_from(config), silent)
    needles = plant(silos_folder(settings_from(config).data, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedsuite.driving.report.run, "draw_data", lambda config, run_dir: None)
        patch.setattr(fedsuite.driving.report.run, "write_results", lambda config, run_dir: None)
        patch.setattr(
            Versions, "prune", lambda self, checkpoints: None
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
    sent = arrays_in(recorder.sent[-1])
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
        told = {"round", "checkpoint-rounds", "last-trained"}
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


def outline(message: Message) -> Any:
    """Kind, names and shapes of what a message carries."""
    records = {
        name: sorted((k, tuple(v.shape)) for k, v in arrays_in(message).items())
        if name == "arrays"
        else sorted(message.content[name])
        for name in message.content
    }
    return message.metadata.message_type, records


def test_no_value_of_sub_network_changes_messages(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Versions, "prune", lambda self, checkpoints: None)
    outlines = {}
    for value in SUB_NETWORKS:
        recorder = recorded(config_of(cache, tmp_path, value, num_silos=2, sub_network=value))
        outlines[value] = [outline(m) for m in (*recorder.sent, *recorder.received)]
        wire = serialised(recorder)
        # What `reset` holds is what the silo was sent.
        private = needles_of(
            load_file(next((tmp_path / value).rglob("silo-00/round-000002.safetensors"))), "sub."
        )
        assert len(private) > 5
        crossed = [name for name, needle in private.items() if needle in wire]
        assert bool(crossed) == (value == "reset"), (value, crossed)
    assert all(outlines[value] == outlines["trained"] for value in SUB_NETWORKS)


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
