"""Formats whose angles have times of their own (comma2k19, Udacity's raw exports), and CARLA's records beside pictures."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.data.finding import find_drives
from fedsuite.driving.data.readers import FrameFormat, ReadOptions, pictures, read_drive
from fedsuite.driving.data.readers.clocks import at_times
from fedsuite.errors import InputError
from tests.driving.data.readers.test_lerobot import codes_of_fixture
from tests.lerobot_folders import write_video

SHARED = Path(__file__).resolve().parents[5] / "shared" / "data" / "formats" / "comma2k19"
DROP = ReadOptions(drop=True)
ROUTE, CAN = "0123|2020-01-01--00-00-00", Path("processed_log", "CAN", "steering_angle")


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        drive = read_drive(folder)
        list(pictures(drive, np.ones(len(drive), bool), FrameFormat(40)))
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(folder)) and "; " in message
    return message


def save(file: Path, values: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        np.save(out, values, allow_pickle=True)


def write_route(root: Path, segments: tuple[int, ...] = (3, 10), frames: int = 12) -> Path:
    """Segments whose wheel turns by 10 degrees a second from 0 at the first sample; sampled 50 times a second."""
    for segment in segments:
        folder = root / "Chunk_1" / ROUTE / str(segment)
        start = 60.0 * segment
        save(folder / "global_pose" / "frame_times", start + np.arange(frames) / 20)
        samples = start + 0.03 + np.arange(frames * 3) / 50
        save(folder / CAN / "t", samples)
        save(folder / CAN / "value", 10 * (samples - samples[0])[:, None])
        write_video(folder / "video.hevc", [segment + i for i in range(frames)], "hevc", fps=20)
    return root / "Chunk_1" / ROUTE


def test_a_folder_without_segments(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no segment with video.hevc; give the folder of a route"):
        read_drive(tmp_path, "comma2k19")


@pytest.mark.slow
def test_a_route_is_a_drive_of_segments(tmp_path) -> None:
    route = write_route(tmp_path)
    assert find_drives(tmp_path) == [route]
    drive = read_drive(route)
    assert (drive.name, drive.unit) == (
        "0123_2020-01-01--00-00-00",
        "radians of the steering wheel",
    )
    one = np.radians(np.maximum(10 * (np.arange(12) / 20 - 0.03), 0))
    assert drive.angles == pytest.approx([*one, *one], abs=1e-6)
    assert drive.runs is not None and drive.runs.tolist() == [0] * 12 + [1] * 12
    found = dict(pictures(drive, np.ones(24, bool), FrameFormat(40)))
    assert sorted(found) == list(range(24))
    assert not any(np.array_equal(found[i], found[i + 12]) for i in range(12))
    degrees = read_drive(route, "auto", ReadOptions(unit="degrees"))
    assert degrees.angles == pytest.approx(drive.angles) and degrees.unit == "radians"


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        (CAN / "value", np.zeros(5), "36 times but 5 values"),
        (CAN / "value", np.zeros((36, 2)), "expected decimal numbers"),
        (CAN / "value", np.array([None] * 36), "expected decimal numbers"),
        (CAN / "t", np.zeros(36), "must ascend, row 1 is not after row 0"),
        (CAN / "t", np.append(np.arange(35), np.inf), "must ascend, row 35 is inf"),
        ("global_pose/frame_times", np.full(12, np.nan), "must ascend, row 0 is nan"),
        ("global_pose/frame_times", 180 + np.arange(11) / 20, "expected 11"),
    ],
)
def test_arrays_that_do_not_belong_to_a_segment(tmp_path, file, values, said) -> None:
    route = write_route(tmp_path)
    save(route / "3" / file, values)
    assert said in refusal(route)


def test_parts_that_are_missing_or_damaged(tmp_path) -> None:
    route = write_route(tmp_path, (3,))
    (route / "3" / CAN / "t").write_bytes(b"\x93NUMPY\x01\x00\xff")
    assert "cannot be read as .npy" in refusal(route)
    (route / "3" / CAN / "t").unlink()
    assert "no such file" in refusal(route)


def test_frames_far_from_all_samples_are_bad_rows(tmp_path) -> None:
    route = write_route(tmp_path, (3,))
    times = np.arange(12) / 20 + 180
    save(route / "3" / "global_pose" / "frame_times", np.append(times[:11], 200.0))
    assert "segment 3 frame 11" in refusal(route)
    drive = read_drive(route, "auto", DROP)
    assert (len(drive), drive.left_out) == (11, 1)


def test_angles_at_other_times() -> None:
    samples = np.array([0.0, 0.05, 0.1, 0.5, 0.55])
    found = at_times(np.array([-0.2, -0.05, 0.025, 0.3, 0.525, 0.6, 0.7]), samples, samples * 10)
    assert found == pytest.approx([np.nan, 0.0, 0.25, np.nan, 5.25, 5.5, np.nan], nan_ok=True)


@pytest.mark.needs_shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")
def test_segments_with_and_without_b_frames() -> None:
    expected = json.loads((SHARED.parent / "expected.json").read_text())["comma2k19"]
    rows = [row for segment in expected for row in segment["frames"]]
    (route,) = find_drives(SHARED)
    drive = read_drive(route)
    assert drive.angles == pytest.approx([row["radians"] for row in rows], abs=2e-7)
    assert codes_of_fixture(drive) == [(row["code"], row["sha256_grey"]) for row in rows]


def write_raw(folder: Path, write_images, late_ns: int = 0) -> Path:
    """Twenty frames of a centre and a left camera, 10 a second; the wheel turns by 1 rad a second."""
    start = 1_479_424_215_880_976_321
    names = [f"{start + 100_000_000 * i}.jpg" for i in range(20)]
    for camera in ("center", "left"):
        write_images(folder / camera, names)
    lines = ["seq,timestamp,width,height,frame_id,filename"]
    for i, name in enumerate(names):
        for camera in ("center", "left"):
            time = start + 100_000_000 * i
            lines.append(f"{i},{time},32,24,{camera}_camera,{camera}/{name}")
    (folder / "camera.csv").write_text("\n".join(lines))
    times = [start + 20_000_000 * i for i in range(100)]
    rows = [f"{t + late_ns},{i / 50},0,5" for i, t in enumerate(times)]
    (folder / "steering.csv").write_text("\n".join(["timestamp,angle,torque,speed", *rows]))
    return folder


def test_raw_messages_are_joined_by_time(tmp_path, write_images) -> None:
    drive = read_drive(write_raw(tmp_path / "car", write_images, late_ns=-5_000_000))
    assert (drive.kind, drive.unit, len(drive)) == (
        "udacity_raw",
        "radians of the steering wheel",
        20,
    )
    assert drive.angles == pytest.approx(np.arange(20) / 10 + 0.005, abs=1e-5)
    assert {path.parent.name for path in drive.image_paths} == {"center"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda text: text.replace(",0.5,", ",x,"), "is no number"),
        (lambda text: "\n".join(text.splitlines()[:1] + text.splitlines()[:0:-1]), "must ascend"),
        (lambda text: text.replace("1479424215880976321", "1e18"), "expected nanoseconds"),
        (lambda text: text.splitlines()[0], "must ascend"),
    ],
)
def test_messages_that_cannot_be_joined(tmp_path, write_images, changed, said) -> None:
    folder = write_raw(tmp_path / "car", write_images)
    file = folder / "steering.csv"
    file.write_text(changed(file.read_text()))
    assert said in refusal(folder)


def test_clocks_that_are_not_one_are_refused(tmp_path, write_images) -> None:
    assert "one clock" in refusal(write_raw(tmp_path / "car", write_images, late_ns=10**9))


def test_rows_before_the_first_steering_message_are_left_out(tmp_path, write_images) -> None:
    write_images(tmp_path / "car" / "center", [f"{i}.png" for i in range(6)])
    numbers = ["0.0,0.0,0.0", "0,0,0", "0,0,3.5", "0.0,0.0,0.0", "0.1,1,3", "0,0,0"]
    lines = [f"{i},center_camera,center/{i}.png,{n}" for i, n in enumerate(numbers)]
    table = tmp_path / "car" / "interpolated.csv"
    table.write_text("\n".join(["timestamp,frame_id,filename,angle,torque,speed", *lines]))
    drive = read_drive(tmp_path / "car")
    assert [path.name for path in drive.image_paths] == ["2.png", "3.png", "4.png", "5.png"]
    assert drive.angles == pytest.approx([0, 0, 0.1, 0]) and "first 2 rows" in drive.notes[0]
    table.write_text(table.read_text().replace("3.5", "0").replace("0.1,1,3", "0,0,0"))
    assert len(read_drive(tmp_path / "car")) == 6


def write_carla(folder: Path, write_images, count: int = 5) -> Path:
    write_images(folder / "rgb", [f"{i:04d}.jpg" for i in range(count)])
    (folder / "measurements").mkdir()
    for i in range(count):
        text = json.dumps({"steer": i / 10, "angle": 9.0, "speed": 3.0})
        name = folder / "measurements" / f"{i:04d}.json"
        if i % 2:
            name.write_text(text)
        else:
            name.with_suffix(".json.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def test_records_beside_pictures(tmp_path, write_images) -> None:
    drive = read_drive(write_carla(tmp_path / "route", write_images))
    assert (drive.kind, drive.unit) == ("carla", "fraction of full lock")
    assert drive.angles == pytest.approx([0, -0.1, -0.2, -0.3, -0.4])
    assert [path.name for path in drive.image_paths] == [f"{i:04d}.jpg" for i in range(5)]


def test_steps_without_record_or_picture_are_bad_rows(tmp_path, write_images) -> None:
    folder = write_carla(tmp_path / "route", write_images, 6)
    (folder / "rgb" / "0001.jpg").unlink()
    (folder / "measurements" / "0002.json.gz").unlink()
    (folder / "measurements" / "0003.json").write_text('{"angle": 1}')
    (folder / "measurements" / "0004.json.gz").write_bytes(b"\x1f\x8b half")
    assert "0002.jpg has no record" in refusal(folder)
    drive = read_drive(folder, "auto", DROP)
    assert drive.angles == pytest.approx([0, -0.5]) and drive.left_out == 4


@pytest.mark.slow
def test_records_that_are_bombs_and_pictures_of_another_pose(tmp_path, write_images) -> None:
    folder = write_carla(tmp_path / "route", write_images)
    (folder / "measurements" / "0002.json.gz").write_bytes(gzip.compress(b" " * 10**7))
    assert "no record of one step" in refusal(folder)
    (folder / "rgb").rename(folder / "rgb_augmented")
    assert "moved camera" in refusal(folder)
