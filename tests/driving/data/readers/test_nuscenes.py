"""nuScenes with its CAN bus: pictures of the front camera, their scenes, and angles at their times."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedsuite.driving.data.finding import find_drives
from fedsuite.driving.data.readers import ReadOptions, read_drive
from fedsuite.errors import InputError

START = 1_531_883_530_412_470  # microseconds
Images = Callable[..., Any]


def write_scenes(root: Path, write_images: Images, scenes: tuple[int, ...] = (1, 2)) -> Path:
    """Five key frames of two cameras a scene, half a second apart, a sweep after each; the wheel turns by 1 rad a second."""
    tables: dict[str, list[dict[str, Any]]] = {"scene": [], "sample": [], "sample_data": []}
    (root / "can_bus").mkdir(parents=True)
    for scene in scenes:
        name, begin = f"scene-{scene:04d}", START + 100_000_000 * scene
        tables["scene"].append({"token": f"s{scene}", "name": name})
        for i in range(5):
            token, time = f"s{scene}k{i}", begin + 500_000 * i + 5_000
            tables["sample"].append({"token": token, "scene_token": f"s{scene}", "timestamp": time})
            for camera in ("CAM_FRONT", "CAM_BACK"):
                for folder, later in (("samples", 0), ("sweeps", 80_000)):
                    picture = f"n015__{camera}__{time + later}.jpg"
                    write_images(root / folder / camera, [picture])
                    row = {
                        "sample_token": token,
                        "timestamp": time + later,
                        "is_key_frame": not later,
                    }
                    row["filename"] = f"{folder}/{camera}/{picture}"
                    tables["sample_data"].append(row)
        samples = [{"utime": begin + 10_000 * k, "value": k / 100} for k in range(260)]
        (root / "can_bus" / f"{name}_steeranglefeedback.json").write_text(json.dumps(samples))
    for name, rows in tables.items():
        file = root / "v1.0-mini" / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(rows, indent=0))
    return root


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_drive(folder)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(folder)) and "; " in message
    return message


def test_pictures_take_the_angle_of_their_time(tmp_path, write_images) -> None:
    root = write_scenes(tmp_path / "nuscenes", write_images)
    assert find_drives(root) == [root]
    drive = read_drive(root)
    assert (drive.kind, drive.unit) == ("nuscenes", "radians of the steering wheel")
    assert drive.sign.startswith("left positive")
    one = [0.005 + 0.5 * i + later for i in range(5) for later in (0.0, 0.08)]
    assert drive.angles == pytest.approx([*one, *one], abs=1e-6)  # between two samples
    assert drive.runs is not None and drive.runs.tolist() == [1] * 10 + [2] * 10
    assert all(path.parent.name == "CAM_FRONT" and path.exists() for path in drive.image_paths)


def test_sweeps_that_were_not_fetched_are_not_missed_and_key_frames_are(
    tmp_path, write_images
) -> None:
    root = write_scenes(tmp_path / "nuscenes", write_images, (1,))
    for sweep in (root / "sweeps" / "CAM_FRONT").iterdir():
        sweep.unlink()
    assert len(read_drive(root)) == 5
    gone = sorted((root / "samples" / "CAM_FRONT").iterdir())[2]
    gone.unlink()
    assert gone.name in refusal(root)
    assert len(read_drive(root, "auto", ReadOptions(drop=True))) == 4


def test_a_scene_without_can_bus_is_named(tmp_path, write_images) -> None:
    root = write_scenes(tmp_path / "nuscenes", write_images)
    (root / "can_bus" / "scene-0002_steeranglefeedback.json").unlink()
    assert "scene-0002 has no can_bus/scene-0002_steeranglefeedback.json" in refusal(root)
    drive = read_drive(root, "auto", ReadOptions(drop=True))
    assert (len(drive), drive.left_out) == (10, 1)
    (root / "can_bus" / "scene-0001_steeranglefeedback.json").unlink()
    with pytest.raises(InputError, match="fetch the CAN bus expansion"):
        read_drive(root, "auto", ReadOptions(drop=True))


@pytest.mark.parametrize(
    ("table", "edit", "said"),
    [
        ("sample_data", lambda text: text[: len(text) // 2], "ends within record"),
        ("sample_data", lambda text: text.replace('"filename"', '"file"', 1), "must hold"),
        ("sample_data", lambda text: text.replace('"timestamp": ', '"timestamp": -', 1) + "]", "ends within"),
        ("sample", lambda text: text.replace('"token": "s1k0"', '"token": "other"', 1), "has no scene"),
        ("scene", lambda text: "[" + "9" * 200_000, "ends within record 0"),
        ("scene", lambda text: text.replace('"s1"', "s1"), "record 0 cannot be read"),
        ("scene", lambda text: text.replace("scene-0001", "../scene-0001"), "a scene's name must be letters"),
        ("scene", lambda text: text.replace("scene-0001", "s" * 300), "a scene's name must be letters"),
        ("sample_data", lambda text: text.replace('"timestamp": ', '"timestamp": ' + "9" * 400, 1), "no number"),
        ("sample_data", lambda text: text.replace('"timestamp": ', '"timestamp": "1", "at": ', 1), "no number"),
    ],
)  # fmt: skip
def test_damaged_tables_are_refused(tmp_path, write_images, table, edit, said) -> None:
    root = write_scenes(tmp_path / "nuscenes", write_images, (1,))
    file = root / "v1.0-mini" / f"{table}.json"
    file.write_text(edit(file.read_text()))
    assert said in refusal(root)


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        ([], "times must ascend"),
        ([{"utime": 5, "value": 0.0}, {"utime": 5, "value": 0.0}], "times must ascend"),
        ([{"utime": "5", "value": 0.0}], "must be numbers"),
        ([{"utime": 10**400, "value": 0.0}], "must be numbers"),
        ([{"utime": 5, "value": -(10**400)}], "must be numbers"),
        ([{"utime": 5, "value": True}], "must be numbers"),
    ],
)
def test_samples_that_are_none(tmp_path, write_images, samples, said) -> None:
    root = write_scenes(tmp_path / "nuscenes", write_images, (1,))
    (root / "can_bus" / "scene-0001_steeranglefeedback.json").write_text(json.dumps(samples))
    assert said in refusal(root)


@pytest.mark.parametrize("table", ["scene", "sample"])
def test_a_table_that_is_missing(tmp_path, write_images, table) -> None:
    root = write_scenes(tmp_path / "nuscenes", write_images, (1,))
    file = root / "v1.0-mini" / f"{table}.json"
    file.unlink()
    assert refusal(root) == f"{file}: no such file; fetch the data set again"


def test_a_second_version_of_the_tables_is_refused(tmp_path, write_images) -> None:
    root = write_scenes(tmp_path / "nuscenes", write_images, (1,))
    (root / "v1.0-test").mkdir()
    (root / "v1.0-test" / "sample_data.json").write_text("[]")
    assert "found 2; keep exactly one" in refusal(root)
