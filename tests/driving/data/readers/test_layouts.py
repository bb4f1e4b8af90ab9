"""Drives as people have them on disk: whatever wrote them, each frame has its own picture and the right angle."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsuite.driving.config import DataSettings
from fedsuite.driving.data.fleet import read_drives
from fedsuite.driving.data.readers import Drive, FrameFormat, pictures

ANGLES = (0.25, -0.5, 0.0)  # left positive, as they are to be read
LEVELS = (30, 120, 210)  # grey of the picture of each
LEFT, NUMBERS = [f"{a}" for a in ANGLES], [f"{-a + 0.0}" for a in ANGLES]  # right positive


def images(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, level in zip(names, LEVELS, strict=True):
        Image.new("L", (64, 48), level).save(folder / name)


def rows(*columns: list[str], mark: str = ",", header: str = "") -> str:
    lines = [mark.join(row) for row in zip(*columns, strict=True)]
    return "\n".join([header, *lines] if header else lines) + "\n"


def named(form: str) -> list[str]:
    return [form.format(i) for i in range(3)]


def windows_semicolons(folder: Path) -> str:
    """Udacity's simulator on a French Windows, saved again by a spreadsheet."""
    images(folder / "IMG", named("center_{}.jpg"))
    run = "C:\\Users\\Zoe\\run 1\\IMG\\"
    shots = [[f"{run}{s}_{i}.jpg" for i in range(3)] for s in ("center", "left", "right")]
    numbers = [n.replace(".", ",") for n in NUMBERS]
    text = rows(*shots, numbers, ["0,5"] * 3, ["0"] * 3, ["30,1"] * 3, mark=";")
    (folder / "driving_log.csv").write_text("\ufeff" + text)
    return "udacity_sim"


def windows_decimal_commas(folder: Path) -> str:
    """The same as the simulator itself writes it: commas within numbers and between them."""
    images(folder / "IMG", named("center_{}.jpg"))
    shots = [[f"D:\\{s}_{i}.jpg" for i in range(3)] for s in ("center", "left", "right")]
    numbers = [n.replace(".", ",").replace(",0", "") for n in NUMBERS]
    text = rows(*shots, numbers, ["1"] * 3, ["0"] * 3, ["30,17"] * 3)
    (folder / "driving_log.csv").write_text(text)
    return "udacity_sim"


def lower_case_folder(folder: Path) -> str:
    """A simulator's log with a header, and pictures that somebody has put elsewhere."""
    images(folder / "img", named("c{}.png"))
    text = rows(named("/home/me/old/c{}.png"), NUMBERS, header="Center Image,Steering Angle")
    (folder / "driving_log.csv").write_text(text)
    return "udacity_sim"


def gazebo_one_camera(folder: Path) -> str:
    images(folder / "front", named("{}.png"))
    header = "index,timestamp,width,height,frame_id,filename,angle,torque,speed,lat,long,alt"
    rest = [["0"] * 3] * 5
    shots = [named("{}"), named("{}"), ["64"] * 3, ["48"] * 3, ["front_camera"] * 3]
    text = rows(*shots, named("front/{}.png"), LEFT, *rest, header=header)
    (folder / "interpolated.csv").write_text(text)
    return "udacity_real"


def tub_1(folder: Path) -> str:
    images(folder, named("{}_cam-image_array_.jpg"))
    for i, number in enumerate(NUMBERS):
        record = {"cam/image_array": f"{i}_cam-image_array_.jpg", "user/angle": float(number)}
        (folder / f"record_{i}.json").write_text(json.dumps(record))
    (folder / "meta.json").write_text('{"inputs": []}')
    return "donkeycar"


def tub_2(folder: Path) -> str:
    images(folder / "images", named("{}_cam_image_array_.jpg"))
    records = [
        {"_index": i, "cam/image_array": f"{i}_cam_image_array_.jpg", "user/angle": float(n)}
        for i, n in enumerate(NUMBERS)
    ]
    (folder / "catalog_0.catalog").write_text("\n".join(map(json.dumps, records)) + "\n")
    return "donkeycar"


def synonyms(folder: Path) -> str:
    images(folder / "images", named("{}.bmp"))
    text = rows(["1"] * 3, LEFT, named("{}.bmp"), header="speed,Steering Angle,File Name")
    (folder / "labels.csv").write_text(text)
    return "csv"


def beside_the_table(folder: Path) -> str:
    images(folder, named("{}.png"))
    text = rows(named("{}.png"), LEFT, mark="\t", header="img\tsteering")
    (folder / "drive.tsv").write_text(text)
    return "csv"


def zipped_by_a_mac(folder: Path) -> str:
    images(folder / "drive" / "IMG", named("{}.jpg"))
    (folder / "drive" / "driving_log.csv").write_text(rows(named("IMG/{}.jpg"), NUMBERS))
    left = folder / "__MACOSX" / "drive"
    left.mkdir(parents=True)
    (left / "._driving_log.csv").write_bytes(b"\0\5\x16\7")
    (folder / "drive" / "._labels.csv").write_bytes(b"\0\5\x16\7")
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    return "udacity_sim"


def release(folder: Path) -> str:
    folder.mkdir()
    imgs = np.broadcast_to(np.float32(LEVELS)[:, None, None, None], (3, 1, 200, 200))
    np.savez_compressed(folder / "0.npz", imgs=imgs, ground_truths=np.float64(ANGLES))
    return "npz"


LAYOUTS = (
    windows_semicolons, windows_decimal_commas, lower_case_folder, gazebo_one_camera, tub_1, tub_2, synonyms,
    beside_the_table, zipped_by_a_mac, release,
)  # fmt: skip


def check_frames(drive: Drive, factor: float = 1.0) -> None:
    assert drive.angles.tolist() == pytest.approx([factor * a for a in ANGLES])
    frames = dict(pictures(drive, np.ones(3, bool), FrameFormat(40)))
    assert [round(float(frames[i].mean())) for i in range(3)] == pytest.approx(LEVELS, abs=1)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
def test_layouts(tmp_path: Path, layout: Callable[[Path], str]) -> None:
    kind = layout(tmp_path / "data")
    (drive,) = read_drives(DataSettings(dir=str(tmp_path / "data")))
    assert drive.kind == kind and drive.left_out == 0
    check_frames(drive)


def test_the_only_camera_is_told(tmp_path: Path) -> None:
    gazebo_one_camera(tmp_path / "data")
    said: list[str] = []
    read_drives(DataSettings(dir=str(tmp_path / "data")), lambda what, *_: said.append(what))
    file = tmp_path / "data" / "interpolated.csv"
    assert f"{file}: the only camera, front_camera, is taken for the centre one" in said


FLEET = """
[car]
angle-scale = 0.0625  # the steering ratio's inverse
[simulator]
angle-scale = 0.4363
["table 1"]
angle-unit = "degrees"
flip-sign = true
"""


def test_a_mixed_fleet(tmp_path: Path) -> None:
    gazebo_one_camera(tmp_path / "car")
    windows_semicolons(tmp_path / "simulator")
    synonyms(tmp_path / "table 1")
    (tmp_path / "drives.toml").write_text(FLEET)
    drives = {d.name: d for d in read_drives(DataSettings(dir=str(tmp_path)))}
    assert {d.unit for d in drives.values()} == {"radians"}
    check_frames(drives["car"], 0.0625)
    check_frames(drives["simulator"], 0.4363)
    check_frames(drives["table 1"], -np.pi / 180)
    assert drives["table 1"].sign.endswith("turned round by drives.toml")


def test_pictures_of_one_name_in_several_folders(tmp_path: Path) -> None:
    """The paths as they are written count before the usual folders, where they are there."""
    for folder, level in zip(("day", "dusk", "night"), LEVELS, strict=True):
        (tmp_path / folder).mkdir()
        Image.new("L", (64, 48), level).save(tmp_path / folder / "0.png")
    images(tmp_path / "IMG", named("{}.png"))
    text = rows(["day\\0.png", "./dusk/0.png", "night/0.png"], LEFT, header="path,angle")
    (tmp_path / "labels.csv").write_text(text)
    (drive,) = read_drives(DataSettings(dir=str(tmp_path)))
    check_frames(drive)
