"""A tiny CDL run: its settings, what it writes and sends, and drives to read."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from clients.vehicle import VehicleClient
from fedsuite.driving.config import CDLConfig
from fedsuite.errors import RunFailed
from fedsuite.history import read_rows
from fedsuite.history.finished import open_finished
from fedsuite.runs.folder import folder_of
from fedsuite.runs.versions import Versions
from fedsuite.storage.files import sha256_of
from simulations.engines.inprocess import run_inprocess
from simulations.systems import settings_of
from tests.harness import Recorder, config_from, recorded

TINY: dict[str, Any] = {
    "system": "cdl", "underlay": "gaia", "num-silos": 4, "image-size": 40, "train-frames": 12,
    "test-frames": 6, "batch-size": 4, "num-rounds": 3, "checkpoint-every": 3,
}  # fmt: skip
Digests = tuple[str, str]
Played = Callable[[str], tuple[CDLConfig, Path, Recorder]]


def config_of(cache: Path, results: Path, name: str, **changes: Any) -> dict[str, Any]:
    paths = {"cache-dir": str(cache), "results-dir": str(results), "name": name}
    return config_from({**TINY, **paths}, **changes)


def played_once(cache: Path, results: Path, variants: Mapping[str, Mapping[str, Any]]) -> Played:
    """Settings, folder and messages of a variant's run, made when it is first asked for."""
    kept = dict[str, Recorder]()

    def run(name: str) -> tuple[CDLConfig, Path, Recorder]:
        if name not in kept:
            kept[name] = recorded(config_of(cache, results, name, **variants[name]))
        return open_finished(results / name, CDLConfig)[1], results / name, kept[name]

    return run


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


def run_in_parts(monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]) -> None:
    """A run of four rounds with a checkpoint after two, whose second client fails in the last; then it is resumed."""
    original = VehicleClient.fit

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        if config["round"] == 4 and self.site.partition == 1:
            raise RuntimeError("out of luck")
        return original(self, parameters, config)

    with monkeypatch.context() as patch:
        patch.setattr(VehicleClient, "fit", fit)
        with pytest.raises(RunFailed, match=r"round 4, train: .* out of luck"):
            run_inprocess(config)
    folder = folder_of(settings_from(config))
    assert Versions(folder.checkpoints).rounds()[-1] == 2
    run_inprocess({**config, "resume": str(folder.path)})


def round_rows(run: Path) -> dict[int, dict[str, float]]:
    rows = read_rows(run / "history.jsonl")
    return {r["round"]: r["metrics"] for r in rows if r["kind"] == "round"}


def write_drives(folder: Path, names: tuple[str, ...] = ("ada", "bob"), frames: int = 60) -> None:
    """Drives of a simulator: darker to the left."""
    for name in names:
        (folder / name / "IMG").mkdir(parents=True)
        lines = []
        for i in range(frames):
            Image.new("L", (40, 30), 4 * i).save(folder / name / "IMG" / f"{i}.png")
            lines.append(f"{i}.png,{i / 100 - 0.3:.2f},0,0,0\n")
        (folder / name / "driving_log.csv").write_text("".join(lines))
