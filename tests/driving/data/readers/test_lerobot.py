"""LeRobot folders: every row gets its own frame and its angle, and what is not clear or damaged is one line."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.driving.data.readers import (
    Drive,
    FrameFormat,
    ReadOptions,
    decoding,
    pictures,
    read_drive,
)
from fedsuite.driving.data.readers.decoding import Job, frames_of
from fedsuite.driving.data.readers.video import Videos
from fedsuite.errors import InputError
from tests.lerobot_folders import CAMERA, angle_of, code_of, coded, edit, write_lerobot

SHARED = Path(__file__).resolve().parents[5] / "shared" / "data" / "formats"
TOLD = ReadOptions(unit="normalised", own_positive="left")
FORM = FrameFormat(200)
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
DATA = "data/chunk-000/file-000.parquet"
FROM, TO = (f"videos/{CAMERA}/{end}_timestamp" for end in ("from", "to"))
VIDEO = f"videos/{CAMERA}/chunk-000/file-000.mp4"


def told(**changes: Any) -> ReadOptions:
    return ReadOptions(**{"unit": "normalised", "own_positive": "left", **changes})


def codes(drive: Drive) -> list[int]:
    """What the pictures say, which are cut by a sixth at either side (pictures.py), so that they are read whole here."""
    if not isinstance(drive.footage, Videos):
        frames = dict(pictures(drive, np.ones(len(drive), bool), FORM))
        return [round(float(frames[row].mean())) for row in range(len(drive))]
    found: list[int] = []
    for clip in drive.footage.clips:
        runs = [run.tolist() for run in clip.runs]
        job = Job(
            str(clip.file), drive.footage.form, runs, drive.footage.slack_s, [*range(len(clip))]
        )
        found += [code_of(np.asarray(picture)) for _, picture in frames_of(job)]
    return found


def refusal(folder: Path, options: ReadOptions = TOLD) -> str:
    """The one line that a folder is refused with, whose first words are a file in it."""
    with pytest.raises(InputError) as caught:
        drive = read_drive(folder, "lerobot", options)
        list(pictures(drive, np.ones(len(drive), bool), FrameFormat(40)))
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(folder)) and "; " in message
    return message


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
def test_every_row_has_its_frame_and_its_angle(tmp_path, version) -> None:
    drive = read_drive(write_lerobot(tmp_path / "car", version=version), "auto", TOLD)
    assert (drive.name, drive.kind, drive.unit) == ("car", "lerobot", "fraction of full lock")
    assert drive.angles.tolist() == [angle_of(row) for row in range(34)]
    assert drive.runs is not None and np.bincount(drive.runs).tolist() == [12, 7, 15]
    assert codes(drive) == list(range(34))


@pytest.mark.slow
def test_frames_come_through_the_process_as_they_are_in_the_file(tmp_path) -> None:
    drive = read_drive(write_lerobot(tmp_path / "car"), "auto", TOLD)
    wanted = np.zeros(34, bool)
    wanted[[3, 13, 20, 33]] = True
    found = list(pictures(drive, wanted, FrameFormat(40, 3)))
    assert [row for row, _ in found] == [3, 13, 20, 33]
    for row, frame in found:
        own = decoding.cropped(decoding.Image.fromarray(coded(row)), FrameFormat(40, 3))
        assert frame.shape == (3, 40, 40) and np.abs(frame.astype(int) - own).mean() < 8


def test_pictures_in_the_table_in_whatever_order_episodes_lie(tmp_path) -> None:
    folder = write_lerobot(tmp_path / "car", embedded=True)
    edit(folder / EPISODES, episode_index=lambda own: [2, 0, 1])
    edit(folder / DATA, episode_index=lambda own: [[2, 0, 1][e] for e in own])
    drive = read_drive(folder, "auto", told(own_positive="right"))
    assert drive.angles.tolist() == [-angle_of(row) + 0.0 for row in range(34)]
    frames = dict(pictures(drive, np.ones(34, bool), FrameFormat(40)))
    for row, frame in frames.items():
        own = decoding.cropped(decoding.Image.fromarray(coded(row)).convert("L"), FrameFormat(40))
        assert np.array_equal(frame, own)


def test_lists_of_any_length_are_read_and_tasks_are_not_needed(tmp_path) -> None:
    one = read_drive(write_lerobot(tmp_path / "one"), "auto", TOLD)
    two = write_lerobot(tmp_path / "two", lists=True, task_column="__index_level_0__")
    assert read_drive(two, "auto", TOLD).angles.tolist() == one.angles.tolist()


@pytest.mark.slow
def test_rows_without_an_angle_are_left_out_with_their_frames(tmp_path) -> None:
    folder = write_lerobot(tmp_path / "car")
    others = dict(pictures(read_drive(folder, "auto", TOLD), np.ones(34, bool), FORM))
    edit(
        folder / DATA,
        action=lambda own: [[float("nan"), 0] if i in (3, 14) else v for i, v in enumerate(own)],
    )
    assert "episode 0 frame 3" in refusal(folder)
    drive = read_drive(folder, "auto", told(drop=True))
    assert (len(drive), drive.left_out) == (32, 2)
    found = dict(pictures(drive, np.ones(32, bool), FORM))
    kept = [row for row in range(34) if row not in (3, 14)]
    assert all(np.array_equal(found[i], others[row]) for i, row in enumerate(kept))


@pytest.mark.parametrize(
    ("features", "said", "value"),
    [
        ({"action": {"axes": ["x", "Steer_normalized"]}}, "", 0.01),
        ({"action": ["gas"], "observation.state": ["steering"]}, "", 0.0),
        ({"action": ["steering"], "observation.state": ["steering"]}, "", 0.0),
        ({"action": ["a", "b", "c"]}, "action[c]", 0.02),
        ({"action": ["a", "b", "c"]}, "action[1]", 0.01),
        ({"action": ["left", "speed", "right"]}, "action[right] - action[left]", None),
        ({"wheel": ["a"]}, "wheel", 0.0),
    ],
)
def test_which_number_steers(tmp_path, features, said, value) -> None:
    names = {k: v["axes"] if isinstance(v, dict) else v for k, v in features.items()}
    folder = write_lerobot(tmp_path / "car", features=names)
    info = json.loads((folder / "meta/info.json").read_text())["features"]
    edit(
        folder / "meta/info.json",
        features=info | {k: info[k] | {"names": v} for k, v in features.items()},
    )
    drive = read_drive(folder, "auto", told(steering=said))
    rows = np.array([angle_of(row) for row in range(34)])
    assert drive.angles == pytest.approx(
        np.full(34, 0.02) if value is None else rows + value, abs=1e-6
    )


@pytest.mark.parametrize(
    ("features", "said", "cure"),
    [
        ({"action": ["steer_a", "steer_b"]}, "", "action[steer_b]"),
        ({"action": ["v_x", "v_y"]}, "", "velocities are no steering"),
        ({"action": ["a", "b"]}, "action[c]", "is none of action[a], action[b]"),
        ({"action": ["a", "b"]}, "action", "is none of action[a], action[b]"),
        ({"action": ["a", "b"]}, "action[9]", "correct it"),
        ({"action": ["a", "b"]}, "action[a] - action[b] - action[a]", "difference of two"),
    ],
)
def test_no_number_that_steers(tmp_path, features, said, cure) -> None:
    folder = write_lerobot(tmp_path / "car", features=features)
    assert cure in refusal(folder, told(steering=said))


def test_names_that_are_null_are_never_found(tmp_path) -> None:
    folder = write_lerobot(tmp_path / "car", features={"action": ["steering"]})
    info = json.loads((folder / "meta/info.json").read_text())["features"]
    edit(folder / "meta/info.json", features=info | {"action": info["action"] | {"names": None}})
    assert "action[0]" in refusal(folder)


@pytest.mark.parametrize("missing", ["unit", "own_positive"])
def test_unit_and_sign_have_to_be_said(tmp_path, missing) -> None:
    text = refusal(write_lerobot(tmp_path / "car"), told(**{missing: ""}))
    assert "angle-unit" in text and 'positive = "left" or "right"' in text and "[car]" in text


@pytest.mark.parametrize("cameras", [("cam.left",), ("cam.map",), ("a", "b")])
def test_the_camera_has_to_be_said(tmp_path, cameras) -> None:
    folder = write_lerobot(tmp_path / "car", lengths=(3,), cameras=cameras)
    assert ", ".join(cameras) in refusal(folder)
    assert "'c' in drives.toml is none of" in refusal(folder, told(camera="c"))
    drive = read_drive(folder, "auto", told(camera=cameras[-1]))
    assert codes(drive) == [0, 1, 2]


def swapped(own: list[float]) -> list[float]:
    return [own[1], own[0], *own[2:]]


def later(by: float, which: slice) -> Any:
    return lambda own: [
        v + by if i in range(*which.indices(len(own))) else v for i, v in enumerate(own)
    ]


def test_times_that_are_a_little_off_give_the_same_frames(tmp_path) -> None:
    folder = write_lerobot(tmp_path / "car")
    edit(folder / EPISODES, **{FROM: later(0.04, slice(None)), TO: later(0.04, slice(None))})
    assert codes(read_drive(folder, "auto", TOLD)) == list(range(34))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({FROM: swapped}, "lie from"),
        ({FROM: swapped, TO: swapped}, "lie from"),
        ({FROM: later(0.06, slice(0, 1))}, "lie from"),
        ({FROM: later(0.06, slice(0, 1)), TO: later(0.06, slice(0, 1))}, "belong to other rows"),
        ({FROM: later(0.06, slice(1, 3)), TO: later(0.06, slice(1, 3))}, "do not belong together"),
        ({FROM: later(90, slice(0, 1)), TO: later(90, slice(0, 1))}, "do not belong together"),
        ({"length": lambda own: [11, 8, 15]}, "lie from"),
        ({"data/chunk_index": lambda own: [-1, 0, 0]}, "no whole number"),
        ({"episode_index": lambda own: [0, 0, 2]}, "one of them twice"),
    ],
)
def test_episodes_that_do_not_lie_where_they_are_said_to(tmp_path, changes, said) -> None:
    folder = write_lerobot(tmp_path / "car")
    edit(folder / EPISODES, **changes)
    assert said in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"frame_index": lambda own: [0, *own[:-1]]}, "frame_index 0 to"),
        ({"episode_index": lambda own: [0, 2, *own[2:]]}, "expected 12"),
        ({"timestamp": lambda own: [2 * t for t in own]}, "frames a second"),
        ({"timestamp": lambda own: [float("nan") for _ in own]}, "frames a second"),
    ],
)
def test_rows_that_are_not_those_of_their_episode(tmp_path, changes, said) -> None:
    folder = write_lerobot(tmp_path / "car")
    edit(folder / DATA, **changes)
    assert said in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"codebase_version": "v1.6"}, "expected v2.0, v2.1, v3.0"),
        ({"codebase_version": ["v3.0"]}, "expected v2.0, v2.1, v3.0"),
        ({"fps": 0}, "fps 0"),
        ({"fps": True}, "fps True"),
        ({"fps": 30}, "frames a second"),
        ({"features": {}}, "no features"),
        ({"total_frames": 33}, "expected 33"),
        ({"total_frames": "many"}, "whole numbers"),
        ({"data_path": "../{x.__class__}"}, "data_path"),
        ({"video_path": "/etc/{video_key}"}, "video_path"),
        ({"features": {"../up": {"dtype": "float32", "shape": [1]}}}, "no name of a folder"),
        ({"features": {"action": {"dtype": "float32", "shape": ["a"]}}}, "shape"),
    ],
)
def test_descriptions_that_are_refused(tmp_path, changes, said) -> None:
    folder = write_lerobot(tmp_path / "car")
    edit(folder / "meta/info.json", **changes)
    assert said in refusal(folder)


@pytest.mark.slow
def test_missing_and_damaged_files(tmp_path) -> None:
    folder = write_lerobot(tmp_path / "car")
    video, table = folder / VIDEO, folder / DATA
    whole = video.read_bytes()
    video.write_bytes(whole[: 2 * len(whole) // 3])
    assert refusal(folder).startswith(f"{video}: cannot be decoded")
    video.unlink()
    assert refusal(folder).startswith(f"{video}: the video is missing")
    video.write_bytes(whole)
    rows = table.read_bytes()
    table.write_bytes(rows[: len(rows) // 2])
    assert "cut off" in refusal(folder)
    table.unlink()
    assert refusal(folder).startswith(f"{table}: no such file")


def test_without_the_extra_it_is_named(tmp_path, monkeypatch) -> None:
    folder = write_lerobot(tmp_path / "car")
    monkeypatch.setattr("fedsuite.driving.data.readers.video.find_spec", lambda name: None)
    assert "pip install 'fedsuite[video]'" in refusal(folder)
    drive = read_drive(write_lerobot(tmp_path / "tub", embedded=True), "auto", TOLD)
    assert len(dict(pictures(drive, np.ones(34, bool), FORM))) == 34


@pytest.mark.parametrize(("side", "turn"), [("left", -1), ("right", 1)])
def test_the_sign_is_held_against_the_heading(tmp_path, side, turn) -> None:
    """A heading that turns as the wheel does (clockwise is right); the other sign is refused, and of slow cars nothing is
    said."""
    folder = write_lerobot(tmp_path / "car", lengths=(300,), embedded=True)
    heading = 355 + 40 * turn * np.cumsum([angle_of(row) for row in range(300)]) / 10
    edit(
        folder / DATA,
        **{"observation.state": lambda own: [[9.0, h % 360] for h in heading.tolist()]},
    )
    assert len(read_drive(folder, "auto", told(own_positive=side)).notes) == 1
    other = {"left": "right", "right": "left"}[side]
    assert "turn opposite ways" in refusal(folder, told(own_positive=other))
    off = np.cos(np.arange(300) / 5).cumsum()
    edit(folder / DATA, **{"observation.state": lambda own: [[9.0, 40 - h] for h in off.tolist()]})
    assert (
        "hardly goes with the heading"
        in read_drive(folder, "auto", told(own_positive=side)).notes[1]
    )
    edit(folder / DATA, **{"observation.state": lambda own: [[1.0, h] for h in heading.tolist()]})
    assert len(read_drive(folder, "auto", told(own_positive=other)).notes) == 1


@pytest.mark.slow
def test_labels_are_read_without_the_decoder() -> None:
    text = "import sys; import fedsuite.driving.data.fleet; sys.exit('av' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


@pytest.mark.needs_shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")
@pytest.mark.parametrize("name", ["lerobot_v30", "lerobot_v21", "lerobot_v30_rc"])
def test_folders_that_lerobot_itself_wrote(name) -> None:
    expected = json.loads((SHARED / "expected.json").read_text())[name]["cameras"]
    side = "right" if name.endswith("rc") else "left"
    for camera, episodes in expected.items():
        rows = [row for episode in episodes for row in episode["frames"]]
        drive = read_drive(SHARED / name, "auto", told(own_positive=side, camera=camera))
        sign = -1 if side == "right" else 1
        assert drive.angles.tolist() == [sign * row["steering"] + 0.0 for row in rows]
        found = dict(pictures(drive, np.ones(len(rows), bool), FORM))
        assert sorted(found) == list(range(len(rows)))
        if not isinstance(drive.footage, Videos):
            continue
        assert codes_of_fixture(drive) == [(row["code"], row["sha256_grey"]) for row in rows]


def codes_of_fixture(drive: Drive) -> list[tuple[int, str]]:
    """The number in the upper quarter of every picture, and the digest of the whole."""
    assert isinstance(drive.footage, Videos)
    found = []
    for clip in drive.footage.clips:
        runs, slack = [run.tolist() for run in clip.runs], drive.footage.slack_s
        for _, picture in frames_of(
            Job(str(clip.file), drive.footage.form, runs, slack, [*range(len(clip))])
        ):
            grey = np.asarray(picture)
            digest = hashlib.sha256(grey.tobytes()).hexdigest()[:16]
            found.append((code_of(grey[2:14]), digest))
    return found
