"""Donkeycar tubs and the .npz archives of the CDL release."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.data.readers import FrameFormat, ReadOptions, pictures, read_drive
from fedsuite.errors import InputError


def refusal(folder: Path) -> str:
    """The one line that a bad drive is refused with."""
    with pytest.raises(InputError) as caught:
        read_drive(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def record(index: int, **changes: object) -> str:
    """One line of a catalog."""
    entry = {
        "_index": index,
        "cam/image_array": f"{index}_cam_image_array_.jpg",
        "user/angle": index / 10,
        "user/mode": "user",
    }
    return json.dumps({**entry, **changes})


@pytest.fixture
def tub(tmp_path, write_images) -> Path:
    """11 catalogs of one record each, so that 10 must come after 9 and not after 1."""
    write_images(tmp_path / "images", [f"{i}_cam_image_array_.jpg" for i in range(11)])
    for i in range(11):
        (tmp_path / f"catalog_{i}.catalog").write_text(record(i) + "\n")
        (tmp_path / f"catalog_{i}.catalog_manifest").write_text("{}")
    return tmp_path


def manifest(*deleted: int) -> str:
    """As Donkeycar writes it, deleted_indexes in the last line."""
    last = {"paths": ["catalog_0.catalog"], "max_len": 1000, "deleted_indexes": list(deleted)}
    return "\n".join(['["cam/image_array"]', '["image_array"]', "{}", "", json.dumps(last)]) + "\n"


def test_tub_in_numeric_order_negated(tub) -> None:
    drive = read_drive(tub)
    assert drive.kind == "donkeycar"
    assert drive.angles.tolist() == pytest.approx([-i / 10 for i in range(11)])
    assert drive.image_paths[10].name.startswith("10_")
    assert "right positive" in drive.sign


def test_deleted_records_are_left_out(tub) -> None:
    (tub / "manifest.json").write_text(manifest(0, 9))
    (tub / "images" / "9_cam_image_array_.jpg").unlink()
    kept = [i for i in range(11) if i not in (0, 9)]
    assert read_drive(tub).angles.tolist() == pytest.approx([-i / 10 for i in kept])
    (tub / "manifest.json").write_text(manifest(*range(11)))
    assert "no frames" in refusal(tub)
    (tub / "manifest.json").write_text("[]\n")
    assert "no list deleted_indexes" in refusal(tub)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"_index": 3, "cam/im', "catalog_3.catalog line 2 is no JSON object"),
        ('{"_index": 3, "user/angle": 0}', "line 2 has no cam/image_array"),
        (record(3, **{"user/angle": None}), "catalog_3.catalog line 2: the steering angle None"),
        (record(3, **{"user/angle": True}), "catalog_3.catalog line 2: the steering angle True"),
        (record(3, _index="x"), "line 2 has _index 'x', expected a whole number"),
        (record(3), "catalog_3.catalog line 2: 3_cam_image_array_.jpg was named before"),
    ],
)
def test_bad_records(tub, line, said) -> None:
    with (tub / "catalog_3.catalog").open("a") as file:
        file.write(line + "\n")
    assert said in refusal(tub)


def test_what_is_no_tub(tmp_path) -> None:
    with pytest.raises(
        InputError, match=r"no catalog_\*.catalog or record_\*.json; give the folder"
    ):
        read_drive(tmp_path, "donkeycar")


def grey(count: int) -> np.ndarray:
    """float32 [count, 1, 200, 200]; frame i has level 10 i + 0.6."""
    levels = np.arange(count, dtype=np.float32) * 10 + np.float32(0.6)
    return np.broadcast_to(levels[:, None, None, None], (count, 1, 200, 200)).copy()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_imgs_are_streamed_and_rounded(tmp_path, save) -> None:
    save(tmp_path / "3.npz", imgs=grey(3), ground_truths=np.array([0.1, -0.2, 0.3]))
    for place in (tmp_path, tmp_path / "3.npz"):
        drive = read_drive(place)
        assert (drive.name, drive.kind) == ("3", "npz")
        assert drive.angles.tolist() == pytest.approx([0.1, -0.2, 0.3])
    got = list(pictures(drive, np.array([True, False, True]), FrameFormat(50, 3)))
    assert [row for row, _ in got] == [0, 2]
    assert got[1][1].shape == (3, 50, 50)
    assert (got[1][1] == 21).all()
    right = read_drive(tmp_path, "npz", ReadOptions(positive="right"))
    assert right.angles.tolist() == pytest.approx([-0.1, 0.2, -0.3])


@pytest.mark.parametrize("bad", [np.nan, -1.0, 256.0, np.inf])
def test_imgs_that_are_no_grey_levels(tmp_path, bad) -> None:
    imgs = grey(2)
    imgs[1, 0, 5, 5] = bad
    np.savez(tmp_path / "0.npz", imgs=imgs, ground_truths=np.zeros(2))
    drive = read_drive(tmp_path)
    with pytest.raises(InputError, match=r"imgs\[1\] holds NaN or values outside 0..255"):
        list(pictures(drive, np.ones(2, bool), FrameFormat()))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"imgs": np.zeros((2, 200, 200, 1), np.float32)}, "imgs must be float32 (2, 1, 200, 200)"),
        ({"imgs": np.zeros((3, 1, 200, 200), np.float32)}, "got float32 (3, 1, 200, 200)"),
        ({"imgs": np.zeros((2, 1, 200, 200), np.int64)}, "got int64"),
        ({}, "expected ground_truths and one of file_names and imgs, found ground_truths"),
        ({"file_names": np.array(["a.png"])}, "1 file_names but 2 ground_truths"),
        ({"file_names": np.zeros(2)}, "file_names must be texts"),
        ({"file_names": np.array(["a", 1], object)}, "holds Python objects"),
        ({"file_names": np.array(["a.png", "b.png"])}, "none of 2 images exists (first: a.png)"),
    ],
)
def test_archives_of_wrong_content(tmp_path, arrays, said) -> None:
    np.savez(tmp_path / "0.npz", ground_truths=np.zeros(2), **arrays)
    assert said in refusal(tmp_path)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.array([0.0, np.nan]), "ground_truths[1]: the steering angle is nan"),
        (np.zeros((2, 1)), "ground_truths must be numbers [n]"),
        (np.array(["a", "b"]), "ground_truths must be numbers [n]"),
        (np.zeros(0), "no frames"),
    ],
)
def test_archives_of_wrong_labels(tmp_path, labels, said) -> None:
    np.savez(tmp_path / "0.npz", ground_truths=labels, imgs=grey(len(labels)))
    assert said in refusal(tmp_path)


def test_file_names_are_relative_to_a_folder_above(tmp_path, write_images) -> None:
    write_images(tmp_path / "driving_carla" / "seq", ["1.png", "2.png"])
    train = tmp_path / "driving_carla" / "gaia" / "train"
    train.mkdir(parents=True)
    names = [f"driving_carla/seq/{i}.png" for i in (1, 2)]
    np.savez(train / "0.npz", file_names=names, ground_truths=[0.0, 0.5])
    drive = read_drive(train)
    assert drive.image_paths == tuple((tmp_path / n).resolve() for n in names)
    (tmp_path / names[0]).unlink()
    assert "1 of 2 images are missing" in refusal(train)
    write_images(tmp_path / "driving_carla" / "seq", ["1.png"])
    np.savez(train / "0.npz", file_names=[names[0]] * 2, ground_truths=[0.0, 0.5])
    assert "file_names[1]: 1.png was named before (file_names[0])" in refusal(train)


def test_damaged_archives(tmp_path) -> None:
    file = tmp_path / "0.npz"
    np.savez(file, imgs=grey(2), ground_truths=np.zeros(2))
    whole = file.read_bytes()
    file.write_bytes(whole[:1000])
    assert "cannot be read as .npz" in refusal(tmp_path)
    # One flipped bit inside the pixels: the checksum of the member tells.
    file.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    with pytest.raises(InputError, match=r"cannot be read as \.npz"):
        list(pictures(read_drive(tmp_path), np.ones(2, bool), FrameFormat()))
    np.savez(file, imgs=np.asfortranarray(grey(2)), ground_truths=np.zeros(2))
    assert "Fortran" in refusal(tmp_path)


DROP = ReadOptions(drop=True)


def test_bad_records_are_left_out_if_that_is_asked_for(tub) -> None:
    with (tub / "catalog_3.catalog").open("a") as file:
        file.write("half a rec\n" + record(50, **{"user/angle": None}) + "\n")
    (tub / "images" / "9_cam_image_array_.jpg").unlink()
    drive = read_drive(tub, "auto", DROP)
    assert drive.angles.tolist() == pytest.approx([-i / 10 for i in range(11) if i != 9])
    assert drive.left_out == 3
    assert "3 rows are left out (catalog_3.catalog line 2 is no JSON object; " in drive.notes[0]


@pytest.mark.parametrize("spoilt", [{1: np.nan}, {0: np.inf, 2: np.nan}])
def test_frames_of_archives_without_an_angle_are_left_out(tmp_path, spoilt) -> None:
    labels = np.array([0.1, 0.2, 0.3, 0.4])
    labels[list(spoilt)] = list(spoilt.values())
    np.savez(tmp_path / "0.npz", imgs=grey(4), ground_truths=labels)
    assert "data.bad-rows=drop" in refusal(tmp_path)
    drive = read_drive(tmp_path, "auto", DROP)
    kept = [i for i in range(4) if i not in spoilt]
    assert drive.angles.tolist() == pytest.approx(labels[kept]) and drive.left_out == len(spoilt)
    frames = dict(pictures(drive, np.ones(len(drive), bool), FrameFormat(40)))
    assert [int(frames[i].mean()) for i in range(len(drive))] == [10 * i + 1 for i in kept]


def test_pictures_named_by_archives_are_left_out_where_they_are_missing(
    tmp_path, write_images
) -> None:
    write_images(tmp_path, ["0.png", "2.png"])
    names = [f"{i}.png" for i in (0, 1, 2, 2)]
    np.savez(tmp_path / "0.npz", file_names=names, ground_truths=[0.0, 0.1, 0.2, 0.3])
    drive = read_drive(tmp_path, "auto", DROP)
    assert drive.angles.tolist() == pytest.approx([0.0, 0.2]) and drive.left_out == 2
    assert [p.name for p in drive.image_paths] == ["0.png", "2.png"]


def test_rows_of_dronet_are_left_out_with_their_pictures(tmp_path, write_images) -> None:
    write_images(tmp_path / "images", [f"{i}.png" for i in range(3)])
    (tmp_path / "sync_steering.txt").write_text("angle,torque\n0.1,5\n?,5\n0.3,5\n")
    drive = read_drive(tmp_path, "auto", DROP)
    assert [p.name for p in drive.image_paths] == ["0.png", "2.png"]
    assert drive.angles.tolist() == pytest.approx([0.1, 0.3])
    (tmp_path / "sync_steering.txt").write_text("angle,torque\n0.1,5\n0.2\n0.3,5\n")
    with pytest.raises(InputError, match="line 3 has 1 fields, expected 2"):
        read_drive(tmp_path, "auto", DROP)


def test_a_tub_of_version_1_after_a_lost_power_supply(tmp_path, write_images) -> None:
    write_images(tmp_path, [f"{i}_cam.jpg" for i in range(11)])
    for i in range(11):
        text = json.dumps({"cam/image_array": f"{i}_cam.jpg", "user/angle": i / 10})
        (tmp_path / f"record_{i}.json").write_text(text)
    assert read_drive(tmp_path).angles.tolist() == pytest.approx([-i / 10 for i in range(11)])
    (tmp_path / "record_10.json").write_bytes(bytes(90))
    assert f"{tmp_path}: record_10.json is no JSON object" in refusal(tmp_path)
    drive = read_drive(tmp_path, "auto", DROP)
    assert (len(drive), drive.left_out) == (10, 1)
