"""What a run and drives.toml say of drives: units and limits, rows that are left out, tests that come with the data."""

import re
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.config import CDLConfig, DataSettings
from fedsuite.driving.data.fleet import read_drives
from fedsuite.driving.data.frames import open_silo, silo_names
from fedsuite.driving.data.sources import make_roster, silos_folder, with_limit
from fedsuite.errors import InputError
from fedsuite.storage.progress import in_lines, silent
from tests.driving.data.readers.test_tables_of_drives import HEADER
from tests.driving.data.test_drives import write_drive


def refusal(folder: Path, **changes: object) -> str:
    """The one line that drives are refused with."""
    with pytest.raises(InputError) as caught:
        read_drives(DataSettings(dir=str(folder), **changes))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def road(folder: Path, *angles: float) -> Path:
    """A recording of one camera of Udacity's car with these angles."""
    (write_drive(folder, len(angles)) / "driving_log.csv").unlink()
    lines = [f"{i},{i},32,16,center_camera,{i}.png,{a},0,9,0,0,0" for i, a in enumerate(angles)]
    (folder / "interpolated.csv").write_text("\n".join([HEADER, *lines]))
    return folder


def labels(folder: Path, *angles: float) -> Path:
    (write_drive(folder, len(angles)) / "driving_log.csv").unlink()
    lines = [f"{i}.png,{a}" for i, a in enumerate(angles)]
    (folder / "labels.csv").write_text("\n".join(["image,angle", *lines]))
    return folder


@pytest.mark.parametrize(
    ("write", "most", "beyond"),
    [(road, 12.5, 12.6), (labels, 3.14, 3.15)],
)
def test_every_unit_has_its_own_limit(tmp_path, write, most, beyond) -> None:
    folder = write(tmp_path / "a", 0.5, -most)
    drives = read_drives(DataSettings(dir=str(tmp_path)))
    assert drives[0].angles.tolist() == pytest.approx([0.5, -most])
    write(tmp_path / "b", 0.5, beyond)
    message = refusal(tmp_path)
    assert f"line 3: steering angle {beyond} is beyond the limit" in message
    assert "set data.angle-scale or data.angle-limit" in message and "angle_" not in message
    assert "beyond the limit 2;" in refusal(folder, angle_limit=2.0)
    wide = read_drives(DataSettings(dir=str(tmp_path), angle_limit=20.0))
    assert wide[1].limit == 20


def test_shares_of_two_cars_full_locks_are_two_units(tmp_path) -> None:
    """Unless each drive says how many radians its full lock is, or both are of one kind of car."""
    for name in ("sim", "sim-again"):
        write_drive(tmp_path / name, 3)
    assert len(read_drives(DataSettings(dir=str(tmp_path)))) == 2
    labels(tmp_path / "tub", 0.5, -0.5)
    (tmp_path / "drives.toml").write_text('[tub]\nangle-unit = "normalised"\n')
    message = refusal(tmp_path)
    assert "full lock of a car of csv, those of sim of a car of udacity_sim" in message
    assert "give every drive angle-scale" in message and str(tmp_path / "drives.toml") in message
    scales = '["*"]\nangle-scale = 0.4363\n[tub]\nangle-unit = "normalised"\nangle-scale = 0.5\n'
    (tmp_path / "drives.toml").write_text(scales)
    drives = read_drives(DataSettings(dir=str(tmp_path)))
    assert {drive.unit for drive in drives} == {"radians"}
    assert drives[-1].angles.tolist() == pytest.approx([0.25, -0.25])


def test_a_drive_has_a_limit_of_its_own(tmp_path) -> None:
    labels(tmp_path / "slow", 0.5, 0.1)
    labels(tmp_path / "fast", 30.0, -90.0)
    assert "set data.angle-scale" in refusal(tmp_path)
    fleet = tmp_path / "drives.toml"
    fleet.write_text("[fast]\nangle-scale = 0.5\n")
    assert f"set angle-unit, angle-scale or angle-limit in [fast] of {fleet}" in refusal(tmp_path)
    fleet.write_text("[fast]\nangle-scale = 0.5\nangle-limit = 50\n")
    fast, slow = read_drives(DataSettings(dir=str(tmp_path)))
    assert (fast.angles.tolist(), fast.limit) == ([15.0, -45.0], 50.0)
    assert slow.limit == pytest.approx(np.pi)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[boob]\n", r"\[boob\] is no drive of .*; did you mean 'bob'"),
        ("[bob]\nangle-scle = 1\n", r"\[bob\]: unknown key 'angle-scle'; did you mean 'angle-scale'"),
        ("[bob]\nangle-unit = 'turns'\n", r"\[bob\]: angle-unit must be one of .*degrees"),
        ("[bob]\nangle-scale = -1\n", r"\[bob\]: angle-scale must be a value >= 0"),
        ("[bob]\nflip-sign = 1\n", r"\[bob\]: flip-sign must be true or false"),
        ("angle-scale = 1\n", r"angle-scale stands in no table; write \[DRIVE\] above it"),
        ("[bob\n", r"cannot be read as TOML"),
        ("[bob]\n[bob]\n", r"cannot be read as TOML"),
    ],
)  # fmt: skip
def test_a_faulty_fleet_is_one_line(tmp_path, text, said) -> None:
    write_drive(tmp_path / "bob", 3)
    (tmp_path / "drives.toml").write_text(text)
    message = refusal(tmp_path)
    assert message.startswith(str(tmp_path / "drives.toml")) and re.search(said, message)


@pytest.mark.parametrize("key", ["steering", "camera"])
def test_what_is_for_lerobot_alone(tmp_path, key) -> None:
    """Refused where it is said of a drive of another kind; of all the others it may be said."""
    write_drive(tmp_path / "bob", 3)
    fleet = tmp_path / "drives.toml"
    fleet.write_text(f'[bob]\n{key} = "action"\n')
    place = f"[bob] of {fleet}: steering and camera are for LeRobot folders, bob is of kind "
    assert refusal(tmp_path).startswith(place) and refusal(tmp_path).endswith("; remove them")
    fleet.write_text(f'["*"]\n{key} = "action"\n')
    assert len(read_drives(DataSettings(dir=str(tmp_path)))[0]) == 3


def test_what_drives_toml_says_makes_other_silos(tmp_path) -> None:
    write_drive(tmp_path / "bob", 60)
    data = DataSettings(dir=str(tmp_path), cache_dir=str(tmp_path / "cache"))
    places = []
    for text in (
        "",
        "[bob]\nflip-sign = true\n",
        "[bob]\nangle-scale = 2\n",
        "[bob]\nangle-unit = 'radians'\n",
    ):
        (tmp_path / "drives.toml").write_text(text)
        places.append(silos_folder(data, 0, read_drives(data)))
    assert len(set(places)) == 4


BAD = {
    "no number": ("\n3.png,-0.003,", "\n3.png,oops,", "line 4: the steering angle 'oops'"),
    "nan": ("\n3.png,-0.003,", "\n3.png,nan,", "line 4: the steering angle is nan"),
    "no picture": ("\n3.png,", "\nnone.png,", "line 4: none.png is missing"),
    "no name": ("\n3.png,", "\n,", "line 4 names no picture"),
    "named again": ("\n3.png,", "\n2.png,", "line 4: 2.png was named before (line 3)"),
    "cut short": ("\n3.png,-0.003,0,0,0", "\n3.png", "line 4 has 1 fields"),
}


@pytest.mark.parametrize("fault", BAD)
def test_rows_that_cannot_be_read_are_dropped_and_counted(tmp_path, fault) -> None:
    old, new, told = BAD[fault]
    file = write_drive(tmp_path / "bob", 60) / "driving_log.csv"
    file.write_text(file.read_text().replace(old, new))
    assert "data.bad-rows=drop" in refusal(tmp_path)
    said: list[str] = []
    data = DataSettings(dir=str(tmp_path), bad_rows="drop")
    (drive,) = read_drives(data, in_lines(said.append))
    assert drive.left_out == 1 and len(drive) == 59
    assert drive.angles.tolist() == pytest.approx([i / 1000 for i in range(60) if i != 3])
    assert [p.stem for p in drive.image_paths] == [str(i) for i in range(60) if i != 3]
    (line,) = (line for line in said if "left out" in line)
    assert line.startswith(f"{file}: 1 row is left out (") and told in line


def test_an_angle_of_another_unit_is_never_dropped(tmp_path) -> None:
    file = write_drive(tmp_path / "bob", 60) / "driving_log.csv"
    file.write_text(file.read_text().replace("\n3.png,-0.003,", "\n3.png,-25,"))
    assert "line 4: steering angle 25 is beyond the limit 1" in refusal(tmp_path, bad_rows="drop")


def test_a_drive_without_a_row_that_can_be_read(tmp_path) -> None:
    file = write_drive(tmp_path / "bob", 60) / "driving_log.csv"
    file.write_text(file.read_text().replace(".png", ".gif.png"))
    message = refusal(tmp_path, bad_rows="drop")
    assert "no row of 60 can be read (60 rows: line 1: 0.gif.png is missing" in message


def test_pictures_that_do_not_decode_are_dropped_and_all_is_told(tmp_path) -> None:
    file = write_drive(tmp_path / "data" / "bob", 60) / "driving_log.csv"
    write_drive(tmp_path / "data" / "eve", 60)
    file.write_text(file.read_text().replace("\n3.png,-0.003,", "\n3.png,oops,"))
    picture = file.parent / "IMG" / "7.png"
    picture.write_bytes(picture.read_bytes()[:30])
    data = DataSettings(
        dir=str(tmp_path / "data"),
        cache_dir=str(tmp_path / "cache"),
        bad_rows="drop",
        image_size=32,
    )
    for first in (True, False):  # the second time the silos are there already
        said: list[str] = []
        roster = make_roster(CDLConfig(data=data), in_lines(said.append))
        assert roster.facts["left-out"] == {"bob": 2}
        assert "rows of drives that are left out: bob 2" in said
        assert any("bob: 1 row is left out (7.png: cannot be decoded" in s for s in said) is first
    silo = open_silo(tmp_path / "cache" / roster.facts["folder"], "bob")
    shown = np.concatenate([part.images[:, 0, 0, 0] for part in (silo.train, silo.test)])
    assert not {3, 7} & set(shown.tolist())


def test_many_rows_that_name_a_picture_again_are_one_line(tmp_path) -> None:
    file = write_drive(tmp_path / "bob", 60) / "driving_log.csv"
    file.write_text(file.read_text() * 2)
    message = refusal(tmp_path)
    assert "60 rows: line 61: 0.png was named before (line 1); " in message
    assert "; and 57 more; a frame has one angle" in message and len(message) < 500


def official(root: Path, silos: int = 2, tests: int = 31) -> Path:
    """A release: frame i of archive k has level 10 k + i % 10."""
    for split, names, count in (("train", [*map(str, range(silos)), "train"], 45), ("test", ["test"], tests)):  # fmt: skip
        (root / split).mkdir(parents=True)
        for k, name in enumerate(names):
            levels = (10 * k + 100 * (split == "test") + np.arange(count) % 10).astype(np.float32)
            imgs = np.broadcast_to(levels[:, None, None, None], (count, 1, 200, 200))
            np.savez_compressed(root / split / name, imgs=imgs, ground_truths=levels / 200)
    return root


@pytest.mark.slow
@pytest.mark.parametrize("num_silos", [0, 3])
def test_the_official_test_split(tmp_path, num_silos) -> None:
    root = official(tmp_path / "gaia")
    data = DataSettings(
        dir=str(root), cache_dir=str(tmp_path / "c"), test_split="official", num_silos=num_silos,
        image_size=32,
    )  # fmt: skip
    said: list[str] = []
    roster = make_roster(CDLConfig(data=data), in_lines(said.append))
    folder = tmp_path / "c" / roster.facts["folder"]
    assert f"test frames: those of {root / 'test'}; data.test-share is not used" in said
    silos = [open_silo(folder, name) for name in silo_names(folder)]
    assert len(silos) == len(roster) == (num_silos or 2)
    assert num_silos or [s.name for s in silos] == ["0", "1"]
    train = np.concatenate([s.train.images[:, 0, 0, 0] for s in silos])
    test = np.concatenate([s.test.images[:, 0, 0, 0] for s in silos])
    # Every frame once, where the release has it; the union of the silos is not read.
    assert train.tolist() == [10 * k + i % 10 for k in range(2) for i in range(45)]
    assert test.tolist() == [100 + i % 10 for i in range(31)]
    assert max(len(s.test) for s in silos) - min(len(s.test) for s in silos) <= 1
    for s in silos:
        for part in (s.train, s.test):
            assert np.allclose(part.angles, part.images[:, 0, 0, 0] / 200)


def test_no_official_split(tmp_path) -> None:
    root = official(tmp_path / "gaia", tests=2)
    assert "official needs" in refusal(root / "train", test_split="official")
    data = DataSettings(dir=str(root), cache_dir=str(tmp_path), test_split="official", num_silos=3)
    with pytest.raises(
        InputError, match=r"data\.test-split: silo silo_2 gets no training or no te"
    ):
        make_roster(CDLConfig(data=data), silent)
    with pytest.raises(InputError, match="official needs a release of drives"):
        read_drives(DataSettings(test_split="official"))


def test_chains_move_where_the_angles_of_the_drives_are(tmp_path) -> None:
    road(tmp_path / "data" / "car", *np.linspace(-6, 6, 60))
    data = DataSettings(
        dir=str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"), image_size=32
    )
    roster = make_roster(CDLConfig(data=data), silent)
    assert with_limit(CDLConfig(data=data), roster).data.angle_end == pytest.approx(4 * np.pi)
    own = CDLConfig(data=DataSettings(angle_limit=7.0))
    assert with_limit(own, roster).data.angle_end == 7
    assert CDLConfig().data.angle_end == 1
