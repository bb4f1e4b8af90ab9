"""Steering with finished runs: the errors are the run's own, pictures are prepared as in training, mistakes are one line."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsuite.driving.data.frames import Frames
from fedsuite.driving.data.rendering.scene import silo_scene
from fedsuite.driving.data.sources import open_own, road_settings, roster_folder
from fedsuite.driving.evaluation.metrics import errors_of
from fedsuite.driving.steering import Pilot, silo_names
from fedsuite.errors import InputError
from simulations.commands import cli as command
from tests.cdl_runs import config_of, round_rows, write_drives
from tests.harness import exit_code_of, recorded

pytestmark = pytest.mark.drawn

Runs = Callable[[str], Path]
VARIANTS = {
    "group": {"silos_per_client": 2},
    "average": {"batch_norm": "average", "loss": "none"},
    "local": {"batch_norm": "local", "loss": "none", "silos_per_client": 2},
    "pooled": {"scenario": "cll", "loss": "none"},
    "drives": {"num_silos": 0, "loss": "none"},
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The finished run of a variant, made once."""
    results = tmp_path_factory.mktemp("steered")
    write_drives(results / "recorded")

    def run(name: str) -> Path:
        if not (results / name).exists():
            data = {"data_dir": str(results / "recorded")} if name == "drives" else {}
            config = config_of(cache, results, name, num_rounds=1, **VARIANTS[name], **data)
            recorded(config)
        return results / name

    return run


@pytest.fixture
def cli_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`cli_call("steer", ...)` in `tmp_path`: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedsuite", *arguments])
        code = exit_code_of(command.main)
        return code, *capsys.readouterr()

    return call


def rmse_of(pilot: Pilot, silo: str) -> float:
    frames = held_out(pilot, silo)
    return errors_of(pilot.steer_frames(frames.images), frames.angles).scores["rmse"]


def held_out(pilot: Pilot, silo: str) -> Frames:
    return open_own(roster_folder(pilot.config.data, pilot.roster), silo).test


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_silos_test_frames_give_the_runs_own_errors(runs: Runs, variant: str) -> None:
    run = runs(variant)
    scores = round_rows(run)[1]
    names = silo_names(Pilot.of_run(run, "silo-02" if variant == "local" else "").roster)
    assert len(names) == {"pooled": 1, "drives": 2}.get(variant, 4)
    for number, name in enumerate(names):
        assert rmse_of(Pilot.of_run(run, name), name) == scores[f"silo.{number}.rmse"]
        if variant != "local":
            assert rmse_of(Pilot.of_run(run), name) == scores[f"silo.{number}.average-rmse"]
    if variant != "local":
        pilot = Pilot.of_run(run)
        given = pilot.test_frames()
        found = errors_of(pilot.steer_frames(given.images), given.truth)
        assert found.scores["rmse"] == pytest.approx(scores["rmse"], rel=1e-6)  # other batches


def test_square_pictures_of_generated_roads_are_taken_whole(runs: Runs, tmp_path: Path) -> None:
    pilot = Pilot.of_run(runs("group"))
    frames = held_out(pilot, "silo-01")
    for i, image in enumerate(frames.images):
        Image.fromarray(image[0]).save(tmp_path / f"{i}.png")
        Image.fromarray(image[0]).resize((80, 80), 0).save(tmp_path / f"large-{i}.png")
    expected = pilot.steer_frames(frames.images)
    files = [tmp_path / f"{i}.png" for i in range(len(frames))]
    assert pilot.steer(files).tolist() == expected.tolist()
    assert (
        pilot.steer([tmp_path / f"large-{i}.png" for i in range(6)]).tolist() == expected.tolist()
    )
    wide = tmp_path / "wide.png"
    Image.fromarray(np.tile(frames.images[0][0], (1, 2))).save(wide)
    assert pilot.read([wide]).images.shape == (1, 1, 40, 40)
    assert pilot.steer([tmp_path]).shape == (13,)


def test_drives_are_read_and_cropped_as_the_run_did(runs: Runs) -> None:
    pilot = Pilot.of_run(runs("drives"), "bob")
    drive = Path(pilot.config.data.dir) / "bob"
    given = pilot.read([drive])
    assert (len(given), set(given.groups), pilot.unit) == (60, {"bob"}, "fraction of full lock")
    assert pilot.degrees_per_unit is None
    frames = held_out(pilot, "bob")
    rows = [int(np.flatnonzero(given.truth == angle)[0]) for angle in frames.angles]
    assert len(set(rows)) == len(frames) > 5
    assert (given.images[rows] == frames.images).all()
    with pytest.raises(
        InputError, match=r"bob: its angles are in fraction .*, the run's in radians"
    ):
        Pilot.of_run(runs("group")).read([drive])
    both = pilot.read([drive / "IMG" / "3.png", drive])
    assert np.isnan(both.truth[0]) and both.truth[1:].tolist() == given.truth.tolist()
    assert (both.images[0] == given.images[3]).all()


def test_places_on_generated_roads_are_those_of_the_frames(runs: Runs) -> None:
    pilot = Pilot.of_run(runs("group"), "silo-03")
    given = pilot.test_frames()
    settings = road_settings(pilot.config.data, 4)
    scene = silo_scene(settings, 3)
    clean = scene.steering.angle_rad(given.poses)
    assert np.abs(clean - given.truth).max() < 5 * settings.label_noise
    assert np.abs(clean).max() > 5 * settings.label_noise


def test_a_run_that_cannot_steer_is_refused(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run lies here"):
        Pilot.of_run(tmp_path)
    local = tmp_path / "local"
    shutil.copytree(runs("local"), local)
    with pytest.raises(InputError, match=r"no average network can steer; name a silo: silo-00, "):
        Pilot.of_run(local)
    with pytest.raises(InputError, match=r"no silo 'silo-9' in .*did you mean"):
        Pilot.of_run(local, "silo-9")
    shutil.rmtree(local / "clients")
    with pytest.raises(
        InputError, match=r"silo-01 has kept tensors to itself .network.batch-norm = local"
    ):
        Pilot.of_run(local, "silo-01")
    (local / "model.safetensors").rename(tmp_path / "model.safetensors")
    with pytest.raises(
        InputError, match=r"model.safetensors: missing, though the run is completed"
    ):
        Pilot.of_run(local, "silo-01")
    (tmp_path / "model.safetensors").rename(local / "model.safetensors")
    status = json.loads((local / "run.json").read_text())
    (local / "run.json").write_text(json.dumps({**status, "status": "running"}))
    with pytest.raises(InputError, match=r"expected a completed run, its status is running"):
        Pilot.of_run(local, "silo-01")
    other = json.loads((local / "config.json").read_text()) | {"agent.hidden-size": 5}
    (local / "config.json").write_text(json.dumps({**other, "system": "fedvln"}))
    with pytest.raises(InputError, match=r"a run of system fedvln, expected one .* of cdl"):
        Pilot.of_run(local)


def test_the_command_prints_a_line_a_picture_and_draws(
    runs: Runs, tmp_path: Path, cli_call: Callable[..., tuple[int, str, str]]
) -> None:
    run, file = str(runs("group")), tmp_path / "angles.png"
    code, out, err = cli_call(
        "steer", run, "--silo", "silo-01", "-o", str(file), "--drawing", "angles"
    )
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 8), err
    assert lines[0].startswith("silo-01/test/0  ") and " radians  " in lines[0] and "° " in lines[0]
    angle = float(lines[0].split()[1])
    assert ("left" in lines[0]) == (angle > 0) and "recorded" in lines[0]
    scores = round_rows(Path(run))[1]
    assert lines[6].startswith(f"RMSE {scores['silo.1.rmse']:.4f}, MAE {scores['silo.1.mae']:.4f}")
    assert Image.open(file).width > 300
    before = file.read_bytes()
    code, out, err = cli_call("steer", run, "-o", str(file))
    assert (code, out) == (2, "") and "is there already, nothing in it was touched" in err
    assert file.read_bytes() == before
    assert cli_call("steer", run, "-o", str(file), "--overwrite")[0] == 0
    assert file.read_bytes() != before


def test_pictures_that_cannot_be_read_are_named_before_anything_is_steered(
    runs: Runs, tmp_path: Path, cli_call: Callable[..., tuple[int, str, str]]
) -> None:
    Image.new("L", (50, 50)).save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    (tmp_path / "worse.jpg").write_bytes(b"")
    names = [str(tmp_path / n) for n in ("good.png", "bad.png", "worse.jpg")]
    code, out, err = cli_call("steer", str(runs("group")), *names)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "bad.png: cannot be decoded" in err and "worse.jpg: cannot be decoded" in err
    code, out, err = cli_call("steer", str(runs("group")), str(tmp_path / "none.png"))
    assert (code, out) == (2, "") and "none.png: no such picture, folder or drive" in err
    code, out, err = cli_call(
        "steer", str(runs("group")), names[0], "-o", "x.png", "--drawing", "errors"
    )
    assert code == 2 and "needs recorded angles" in err and not Path("x.png").exists()
