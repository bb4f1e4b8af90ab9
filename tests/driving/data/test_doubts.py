"""Drives that would be trained on with a wrong sign, unit, centre or order: what is found, what is told, what settles it."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsuite.driving.config import CDLConfig, DataSettings
from fedsuite.driving.data.fleet import read_drives
from fedsuite.driving.data.readers import Drive
from fedsuite.driving.data.sources import make_roster
from fedsuite.errors import InputError
from fedsuite.storage.progress import in_lines

COUNT = 60
TURNS = [round(0.6 * float(np.sin(i / 7 + 0.1)), 4) for i in range(COUNT)]  # as the files have them


def write(
    folder: Path,
    table: str,
    header: str,
    rows: Sequence[str],
    pictures: Sequence[str] = (),
    fleet: str = "",
) -> DataSettings:
    """A drive called d with these rows, whose pictures are 0.png, 1.png, ..., unless others are named."""
    (folder / "d").mkdir(parents=True, exist_ok=True)
    for name in pictures or [f"{i}.png" for i in range(COUNT)]:
        Image.new("L", (8, 8)).save(folder / "d" / name)
    (folder / "d" / table).write_text("\n".join([header, *rows]) + "\n")
    (folder / "drives.toml").write_text(f"[d]\n{fleet}\n")
    return DataSettings(dir=str(folder))


def read(data: DataSettings) -> tuple[Drive, list[str]]:
    said: list[str] = []
    (drive,) = read_drives(data, in_lines(said.append))
    return drive, [line for line in said if line != "drives read: 1"]


def close(drive: Drive, angles: Sequence[float]) -> bool:
    return drive.angles.tolist() == pytest.approx(list(angles), abs=1e-6)


# --- programs that are known by their columns ---------------------------------------------------

KNOWN = {
    "carla": ("image,steer", "{i}.png,{a}", "the column steer, as in logs of CARLA"),
    "carla, all": ("image,steer,throttle,brake", "{i}.png,{a},1,0", "as in logs of CARLA"),
    "simulator": (
        "center,left,right,steering,throttle,brake,speed",
        "{i}.png,l,r,{a},1,0,9",
        "as in logs of Udacity's simulator",
    ),
    "centre alone": ("Center,Steering,Throttle", "{i}.png,{a},1", "the columns center, steering"),
}


@pytest.mark.parametrize("case", KNOWN)
def test_the_convention_of_a_known_program_is_taken_and_told(tmp_path, case) -> None:
    header, row, told = KNOWN[case]
    rows = [row.format(i=i, a=a) for i, a in enumerate(TURNS)]
    drive, said = read(write(tmp_path, "log.csv", header, rows))
    assert close(drive, [-a for a in TURNS]) and drive.unit == "fraction of full lock"
    (line,) = said
    assert line.startswith(f"{tmp_path / 'd' / 'log.csv'}: ") and told in line
    assert "taken for fraction of full lock, right positive" in line and "in drives.toml" in line
    fleet = 'angle-unit = "radians"\npositive = "left"'
    settled, said = read(write(tmp_path, "log.csv", header, rows, fleet=fleet))
    assert close(settled, TURNS) and settled.unit == "radians" and said == []


def test_a_drives_toml_that_turned_the_sign_before_is_still_right(tmp_path) -> None:
    rows = [f"{i}.png,{a}" for i, a in enumerate(TURNS)]
    drive, _ = read(write(tmp_path, "log.csv", "image,steer", rows, fleet="flip-sign = true"))
    assert close(drive, [-a for a in TURNS])


def test_a_fraction_of_full_lock_is_at_most_one(tmp_path) -> None:
    rows = [f"{i}.png,{3 * a}" for i, a in enumerate(TURNS)]
    with pytest.raises(InputError, match=r"beyond the limit 1; .* set angle-unit, angle-scale or"):
        read(write(tmp_path, "log.csv", "image,steer", rows))


def test_what_merely_looks_like_the_simulator_is_told(tmp_path) -> None:
    """Its pictures with another column of angles, which somebody may have computed."""
    names = [f"center_2018_07_16_17_11_{i:02d}_382.jpg" for i in range(COUNT)]
    rows = [f"{n},{a}" for n, a in zip(names, TURNS, strict=True)]
    drive, said = read(write(tmp_path, "log.csv", "image,angle", rows, names))
    assert close(drive, TURNS) and drive.unit == "radians"
    assert f"pictures called {names[0]}, looks like a log of Udacity's simulator" in said[0]
    drive, said = read(write(tmp_path, "log.csv", "image,steering", rows, names))
    assert close(drive, [-a for a in TURNS]) and "as in logs of Udacity's simulator" in said[0]


# --- unit and sign that no file says ------------------------------------------------------------


def labels(folder: Path, angles: Sequence[float], fleet: str = "", table: str = "labels.csv") -> DataSettings:  # fmt: skip
    rows = [f"{i}.png,{a}" for i, a in enumerate(angles)]
    header = "image,angle" if table == "labels.csv" else "center,steering"
    return write(folder, table, header, rows, fleet=fleet)


def test_what_had_to_be_assumed_is_said_until_it_is_settled(tmp_path) -> None:
    drive, (line,) = read(labels(tmp_path, TURNS))
    assert close(drive, TURNS)
    assert line.startswith(
        "d: files of kind csv do not say the unit or sign of angles; taken for radians ("
    )
    assert line.endswith(
        "left positive in the source; angle-unit and positive in drives.toml settle this"
    )
    _, (line,) = read(labels(tmp_path, TURNS, 'angle-unit = "radians"'))
    assert line.endswith("; positive in drives.toml settle this")
    fleet = 'angle-unit = "radians"\npositive = "right"'
    drive, said = read(labels(tmp_path, TURNS, fleet))
    assert close(drive, [-a for a in TURNS]) and said == []


def test_drives_that_are_read_alike_are_one_line(tmp_path) -> None:
    for name in range(5):
        imgs = np.zeros((2, 1, 200, 200), np.float32)
        np.savez_compressed(tmp_path / f"{name}.npz", imgs=imgs, ground_truths=[0.1, -0.25])
    said: list[str] = []
    read_drives(DataSettings(dir=str(tmp_path)), in_lines(said.append))
    (line,) = (line for line in said if "do not say" in line)
    assert line.startswith("0, 1, 2 and 2 more: files of kind npz do not say the unit or sign")


def test_degrees_below_the_limit_of_radians(tmp_path) -> None:
    degrees = [5 * a for a in TURNS]
    _, said = read(labels(tmp_path, degrees))
    assert f"{tmp_path / 'd'}: angles reach 3 radians, 172 degrees, more than the wheels" in said[0]
    assert said[0].endswith('say angle-unit = "degrees" in drives.toml')
    drive, said = read(labels(tmp_path, degrees, 'angle-unit = "degrees"\npositive = "left"'))
    assert close(drive, np.radians(degrees)) and said == []


@pytest.mark.parametrize("table", ["labels.csv", "driving_log.csv"])
def test_pwm_has_its_centre_at_one_half(tmp_path, table) -> None:
    pwm = [0.5 + a / 2 for a in TURNS]
    _, said = read(labels(tmp_path, pwm, table=table))
    side = "left" if table == "labels.csv" else "right"
    assert f"{tmp_path / 'd'}: all 60 angles are to the {side} (" in said[0]
    assert said[0].endswith(
        'if 0.5 is straight ahead in its files, say angle-unit = "pwm" in drives.toml'
    )
    fleet = 'angle-unit = "pwm"\npositive = "right"'
    drive, said = read(labels(tmp_path, pwm, fleet, table))
    assert (
        close(drive, [-a for a in TURNS]) and drive.unit == "fraction of full lock" and said == []
    )
    with pytest.raises(InputError, match=r"line 2: steering angle .* is beyond the limit 1"):
        read(labels(tmp_path, [1.2, *pwm[1:]], fleet, table))


def test_a_sign_is_said_once(tmp_path) -> None:
    with pytest.raises(
        InputError, match=r"\[d\]: positive says the sign already; remove flip-sign"
    ):
        read(labels(tmp_path, TURNS, 'positive = "left"\nflip-sign = true'))


# --- order in time ------------------------------------------------------------------------------


def shuffled(seed: int = 1) -> list[int]:
    rows = list(range(COUNT))
    random.Random(seed).shuffle(rows)
    return rows


@pytest.mark.parametrize("form", ["{}.png", "center_2018_07_16_17_11_{:02d}_382.jpg"])
@pytest.mark.parametrize("still", [False, True])
def test_shuffled_rows_are_sorted_by_the_names_of_their_pictures(tmp_path, form, still) -> None:
    angles = [0.25] * COUNT if still else TURNS
    names = [form.format(i) for i in range(COUNT)]
    rows = [f"{names[i]},{-angles[i]}" for i in shuffled()]
    drive, said = read(write(tmp_path, "driving_log.csv", "center,steering", rows, names))
    assert [p.name for p in drive.image_paths] == names and close(drive, angles)
    assert f"{tmp_path / 'd'}: rows are not in the order of their pictures (" in said[-1]
    drive, said = read(
        write(tmp_path, "driving_log.csv", "center,steering", rows, names, 'order = "rows"')
    )
    assert [p.name for p in drive.image_paths] == [names[i] for i in shuffled()]
    assert [line for line in said if "order" in line] == []


def test_numbers_that_are_no_order_are_left_alone(tmp_path) -> None:
    """Pictures with random numbers, in rows whose angles go smoothly on."""
    rows = [f"{n}.png,{a}" for n, a in zip(shuffled(), TURNS, strict=True)]
    drive, said = read(write(tmp_path, "driving_log.csv", "center,steering", rows))
    assert close(drive, [-a for a in TURNS]) and "rows stay as they are" in said[-1]
    drive, _ = read(
        write(tmp_path, "driving_log.csv", "center,steering", rows, fleet='order = "names"')
    )
    assert [p.name for p in drive.image_paths] == [f"{i}.png" for i in range(COUNT)]


def test_recordings_one_after_the_other_stay_so(tmp_path) -> None:
    """b_0, b_1, ..., a_0, a_1, ... are in order; shuffled, each is sorted for itself. Names of other kinds say nothing."""
    names = [f"{c}_{i}.png" for c in "ba" for i in range(30)]
    rows = [f"{n},{a}" for n, a in zip(names, TURNS, strict=True)]
    drive, said = read(write(tmp_path, "driving_log.csv", "center,steering", rows, names))
    assert [p.name for p in drive.image_paths] == names and said == []
    mixed = [rows[0], *(rows[i] for i in shuffled() if i)]
    drive, _ = read(write(tmp_path, "driving_log.csv", "center,steering", mixed, names))
    assert [p.name for p in drive.image_paths] == names
    hashes = [f"{chr(97 + i % 26)}{(i * 37) % 60}{chr(97 + i % 23)}.png" for i in range(COUNT)]
    rows = [f"{n},{a}" for n, a in zip(hashes, TURNS, strict=True)]
    drive, said = read(write(tmp_path, "driving_log.csv", "center,steering", rows, hashes))
    assert [p.name for p in drive.image_paths] == hashes and said == []


def test_no_test_frame_of_a_shuffled_log_has_a_training_neighbour(tmp_path) -> None:
    """Through a run's preparing, where people also read what was found."""
    angles = [round(0.9 * i / COUNT - 0.45, 3) for i in range(COUNT)]
    rows = [f"{i}.png,{-angles[i]}" for i in shuffled()]
    data = write(tmp_path / "data", "driving_log.csv", "center,steering", rows)
    own = DataSettings(dir=data.dir, cache_dir=str(tmp_path / "cache"), image_size=32)
    said: list[str] = []
    roster = make_roster(CDLConfig(data=own), in_lines(said.append))
    assert any("rows are not in the order of their pictures" in line for line in said)
    folder = tmp_path / "cache" / roster.facts["folder"] / "d"
    train, test = (np.load(folder / f"{part}_angles.npy") for part in ("train", "test"))
    assert len(train) and len(test)
    assert np.abs(train[:, None] - test[None]).min() > 5 * 0.015 - 1e-3


# --- tubs ---------------------------------------------------------------------------------------


def tub(folder: Path, **changes: object) -> DataSettings:
    """A tub of version 2 whose second half a pilot has driven."""
    (folder / "d" / "images").mkdir(parents=True)
    records = []
    for i, angle in enumerate(TURNS):
        Image.new("L", (8, 8)).save(folder / "d" / "images" / f"{i}.png")
        record = {
            "_index": i,
            "cam/image_array": f"{i}.png",
            "user/angle": angle,
            "user/mode": "user",
        }
        if i >= COUNT // 2:
            mode = "local" if i % 2 else "local_angle"
            record |= {"user/angle": 0.0, "user/mode": mode, "pilot/angle": angle} | changes
        records.append(json.dumps({k: v for k, v in record.items() if v != "none"}))
    (folder / "d" / "catalog_0.catalog").write_text("\n".join(records))
    return DataSettings(dir=str(folder))


def test_a_tub_that_a_pilot_has_driven(tmp_path) -> None:
    drive, said = read(tub(tmp_path))
    assert close(drive, [-a for a in TURNS])
    assert (
        f"{tmp_path / 'd'}: a pilot steered in 30 of 60 records (user/mode), so pilot/angle is"
        in said[0]
    )


def test_a_pilot_without_angles(tmp_path) -> None:
    data = tub(tmp_path, **{"pilot/angle": "none"})
    with pytest.raises(
        InputError, match=r"line 31 was steered by a pilot \(user/mode 'local_angle'\)"
    ):
        read(data)


# --- what is honest -----------------------------------------------------------------------------


@pytest.mark.needs_shared
def test_the_six_drivers_are_not_remarked_on(shared) -> None:
    folder = shared / "data" / "driving"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    said: list[str] = []
    drives = read_drives(DataSettings(dir=str(folder)), in_lines(said.append))
    assert said == [f"drives read: {len(drives)}"]
