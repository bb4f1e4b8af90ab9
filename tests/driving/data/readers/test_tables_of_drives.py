"""Formats that are CSV: Udacity's simulator and real recordings, DroNet, and image,angle."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.data.readers import ReadOptions, detect_kind, read_drive
from fedsuite.errors import InputError

ANGLES = (0.0, 0.25, -0.5, 1.0)
NAMES = tuple(f"center_{i}.jpg" for i in range(4))


def sim(folder: Path, lines: list[str], write_images, names=NAMES) -> Path:
    """A simulator drive of these lines."""
    write_images(folder / "IMG", names)
    (folder / "driving_log.csv").write_text("\n".join(lines) + "\n")
    return folder


def refusal(folder: Path, kind: str = "auto", **options: object) -> str:
    """The one line that a bad drive is refused with."""
    with pytest.raises(InputError) as caught:
        read_drive(folder, kind, ReadOptions(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("where", ["IMG/", "C:\\Users\\me\\run 1\\IMG\\", "/home/me/run/IMG/", " "])
@pytest.mark.parametrize("cameras", [1, 3])
def test_simulator_without_header(tmp_path, write_images, where, cameras) -> None:
    lines = [
        ",".join([where + n, *(f" {where}{s}_{i}.jpg" for s in ("l", "r")[: cameras - 1]), f" {a}"])
        + ",0.5,0,30.1"
        for i, (n, a) in enumerate(zip(NAMES, ANGLES, strict=True))
    ]
    drive = read_drive(sim(tmp_path / "run", lines, write_images))
    assert (drive.name, drive.kind) == ("run", "udacity_sim")
    assert drive.angles.dtype == np.float32
    assert drive.angles.tolist() == [0.0, -0.25, 0.5, -1.0]
    assert not np.signbit(drive.angles[0])
    assert [p.name for p in drive.image_paths] == list(NAMES)
    assert "right positive" in drive.sign


@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_simulator_header_decides_the_columns(tmp_path, write_images, bom) -> None:
    lines = [bom + "Speed, Steering,center"] + [
        f"9,{a},IMG/{n}" for a, n in zip(ANGLES, NAMES, strict=True)
    ]
    assert read_drive(sim(tmp_path, lines, write_images)).angles.tolist() == [0, -0.25, 0.5, -1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("IMG/center_1.jpg,left,0", "line 2: the steering angle 'left' is no number"),
        ("IMG/center_1.jpg,nan,0", "line 2: the steering angle is nan"),
        ("IMG/center_1.jpg,-inf,0", "line 2: the steering angle is -inf"),
        ("IMG/center_1.jpg,7,0", "line 2: steering angle -7 is beyond the limit 1;"),
        ("IMG/center_1.jpg", "line 2 has 1 fields, expected 3 (center,steering,throttle)"),
        ("IMG/center_1.jpg,,0", "line 2: the steering angle '' is no number"),
        ("IMG/center_1.jpg,0,7,3", "line 2 has 4 fields, expected 3"),
        ("IMG/center_0.jpg,0,0", "line 2: center_0.jpg was named before (line 1)"),
    ],
)
def test_simulator_rows_that_are_refused(tmp_path, write_images, line, said) -> None:
    message = refusal(sim(tmp_path, ["IMG/center_0.jpg,0,0", line], write_images))
    assert said in message
    assert message.startswith(str(tmp_path / "driving_log.csv"))


def test_all_rows_that_name_an_image_again_are_told(tmp_path, write_images) -> None:
    lines = [f"IMG/center_{i}.jpg,0.5,0" for i in (0, 1, 0, 1)]
    message = refusal(sim(tmp_path, lines, write_images))
    assert "line 3: center_0.jpg was named before (line 1)" in message
    assert "line 4: center_1.jpg was named before (line 2)" in message


def test_missing_images_are_named_and_counted(tmp_path, write_images) -> None:
    lines = [f"IMG/{n},0,0" for n in NAMES]
    message = refusal(sim(tmp_path, lines, write_images, names=NAMES[::3]))
    assert "2 of 4 images are missing" in message
    assert f"(first: {tmp_path / 'IMG' / 'center_1.jpg'})" in message


def test_empty_and_headerless_logs(tmp_path, write_images) -> None:
    assert "no frames" in refusal(sim(tmp_path, [""], write_images))
    assert "no frames" in refusal(sim(tmp_path, ["center,steering"], write_images))
    message = refusal(sim(tmp_path, ["left,right", "a.jpg,0"], write_images))
    assert "header line with a column center expected" in message
    assert "no steering column" in refusal(sim(tmp_path, ["a.jpg,b.jpg"], write_images))
    (tmp_path / "driving_log.csv").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as text" in refusal(tmp_path)


def test_scale_comes_before_the_limit(tmp_path, write_images) -> None:
    folder = sim(tmp_path, ["IMG/center_0.jpg,25,0"], write_images)
    assert "set data.angle-scale or data.angle-limit" in refusal(folder)
    scaled = read_drive(folder, "auto", ReadOptions(angle_scale=np.pi / 180, angle_limit=0.5))
    assert scaled.angles.tolist() == pytest.approx([-25 * np.pi / 180])
    assert "limit 0.4" in refusal(folder, angle_scale=np.pi / 180, angle_limit=0.4)


SEVEN = "center,left,right,steering,throttle,brake,speed"


def comma_row(number: int, values: Sequence[str], mark: str = ",") -> str:
    """A row of the simulator on a machine with decimal commas."""
    images = [f"C:\\Bureau\\IMG\\{side}_{number}.jpg" for side in ("center", "left", "right")]
    return mark.join([*images, *values])


@pytest.mark.parametrize("header", [[], [SEVEN]])
@pytest.mark.parametrize("mark", [",", ";"])
def test_decimal_commas_of_the_simulator(tmp_path, write_images, header, mark) -> None:
    values = [
        ["-0,08581576", "0", "0", "7,856265E-05"],
        ["0", "0", "0", "12,34"],
        ["-1", "0,5", "0", "30"],
        ["3,2E-05", "1", "0", "9,1"],
    ]
    rows = [comma_row(i, own, mark) for i, own in enumerate(values)]
    lines = [line.replace(",", mark) for line in header] + rows
    drive = read_drive(sim(tmp_path, lines, write_images))
    assert drive.angles.tolist() == pytest.approx([0.08581576, 0, 1, -3.2e-5])


def shortest(value: float) -> str:
    """As the simulator writes a number: seven digits at most, no zero at its end, a comma."""
    mantissa, _, power = f"{value:.7g}".partition("e")
    return mantissa.replace(".", ",") + (f"E{power}" if power else "")


@pytest.mark.slow
def test_decimal_commas_are_read_right_or_not_at_all(tmp_path, write_images) -> None:
    """Coarse numbers are the hard ones: 0,1,0,1 may be two numbers or three."""
    rng = np.random.default_rng(0)
    read = 0
    for digits in (1, 1, 1, 2, 5, 7):
        for _ in range(60):
            steering, throttle, brake, speed = np.round(
                rng.uniform((-1, 0, 0, 0), (1, 1, 1, 30)), digits
            )
            brake *= rng.random() < 0.3
            row = comma_row(0, [shortest(v) for v in (steering, throttle, brake, speed)])
            folder = sim(tmp_path, [SEVEN, row], write_images)
            try:
                assert read_drive(folder).angles.tolist() == pytest.approx([-steering])
                read += 1
            except InputError as error:
                assert "write points in that row" in str(error)
    assert read > 300


def test_rows_that_decimal_commas_leave_open(tmp_path, write_images) -> None:
    rows = [comma_row(0, ["0,3", "0,5", "0", "9,5"]), comma_row(1, ["0,1", "0,1", "0", "5"])]
    message = refusal(sim(tmp_path, rows, write_images))
    assert "line 2 has 9 fields, expected 7 (center,camera,camera,steering" in message
    assert "write points in that row or part all fields by ';'" in message
    rows[1] = comma_row(1, ["0.1", "0.1", "0", "5"])
    assert read_drive(sim(tmp_path, rows, write_images)).angles.tolist() == pytest.approx(
        [-0.3, -0.1]
    )


def test_empty_fields_at_the_end_do_no_harm(tmp_path, write_images) -> None:
    lines = ["IMG/center_0.jpg,0.5,0", "IMG/center_1.jpg,0.25,0,,"]
    assert read_drive(sim(tmp_path, lines, write_images)).angles.tolist() == [-0.5, -0.25]


def test_a_stray_field_is_no_decimal_comma(tmp_path, write_images) -> None:
    write_images(tmp_path / "pics", ["a.png", "b.png", "c.png"])
    rows = ["image,angle", "pics/a.png,0.25", "pics/b.png,0,5", "pics/c.png,-0.5"]
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    assert "line 3 has 3 fields, expected 2 (image,angle)" in refusal(tmp_path)
    (tmp_path / "labels.csv").write_text("\n".join(rows).replace(".2", ",2").replace("-0.", "-0,"))
    assert read_drive(tmp_path).angles.tolist() == [0.25, 0.5, -0.5]
    (tmp_path / "labels.csv").write_text('image,angle\npics/a.png,"0,25"\n')
    assert read_drive(tmp_path).angles.tolist() == [0.25]


HEADER = "index,timestamp,width,height,frame_id,filename,angle,torque,speed,lat,long,alt"


def test_real_recording_keeps_the_centre_camera(tmp_path, write_images) -> None:
    write_images(tmp_path / "center", ["11.png", "12.png"])
    rows = [
        f"{t},{t},640,480,{cam}_camera,{cam}/{t}.png,{a},0,9,0,0,0"
        for t, cam, a in ((11, "center", 0.5), (11, "left", 9.0), (12, "center", -0.25))
    ]
    file = tmp_path / "interpolated.csv"
    file.write_text("\n".join([HEADER, *rows]))
    drive = read_drive(tmp_path)
    assert drive.kind == "udacity_real"
    assert drive.angles.tolist() == [0.5, -0.25]
    assert [p.name for p in drive.image_paths] == ["11.png", "12.png"]
    assert "left positive" in drive.sign and drive.notes == ()
    file.write_text("\n".join([HEADER, *rows]).replace("center_camera", "/Center_Camera"))
    assert read_drive(tmp_path).angles.tolist() == [0.5, -0.25]
    file.write_text("\n".join([HEADER, rows[1], rows[1].replace("left", "right")]))
    message = "no row has frame_id center_camera, and there are 2 others (left_camera, right_camera"
    assert message in refusal(tmp_path)
    file.write_text("\n".join(rows))
    assert "header line with a column frame_id expected" in refusal(tmp_path)
    file.write_text(HEADER)
    assert "no frames" in refusal(tmp_path)


def dronet(folder: Path, text: str, names: list[str], write_images) -> Path:
    """A DroNet experiment."""
    write_images(folder / "images", names)
    (folder / "sync_steering.txt").write_text(text)
    return folder


def test_dronet_goes_by_the_first_integer(tmp_path, write_images) -> None:
    names = ["f10_1.png", "f9_2.png", "f0100.jpg"]
    folder = dronet(tmp_path, "angle,torque\n0.1,5\n0.2,5\n-0.3,5\n", names, write_images)
    (folder / "images" / "notes.txt").write_text("no image")
    drive = read_drive(folder)
    assert drive.kind == "dronet"
    assert [p.name for p in drive.image_paths] == ["f9_2.png", "f10_1.png", "f0100.jpg"]
    assert drive.angles.tolist() == pytest.approx([0.1, 0.2, -0.3])


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        ("0.1,5\n0.2,5\n", ["1.png", "2.png"], "line 1 holds numbers"),
        ("angle\n0.1\n0.2\n", ["1.png"], "2 angles but 1 images"),
        ("angle\n0.1\n", ["one.png"], "no number in its name"),
        ("angle\n0.1\n", ["1_a.png", "01_b.png"], "same number as"),
        ("angle\n", ["1.png"], "no frames"),
        ("angle\n0.1\nx\n", ["1.png", "2.png"], "line 3: the steering angle 'x'"),
        ("angle,torque\n0.1,5\n0.2\n", ["1.png", "2.png"], "line 3 has 1 fields, expected 2"),
    ],
)
def test_dronet_refusals(tmp_path, write_images, text, names, said) -> None:
    assert said in refusal(dronet(tmp_path, text, names, write_images))


def test_dronet_without_images(tmp_path) -> None:
    (tmp_path / "sync_steering.txt").write_text("angle\n0\n")
    assert "no such folder" in refusal(tmp_path)


def test_plain_csv(tmp_path, write_images) -> None:
    write_images(tmp_path / "pics", ["a.png", "b.png"])
    (tmp_path / "labels.csv").write_text("angle,image,speed\n0.5,pics/a.png,1\n-1,pics\\b.png,1\n")
    drive = read_drive(tmp_path)
    assert (drive.kind, drive.unit) == ("csv", "radians")
    assert drive.angles.tolist() == [0.5, -1.0]
    assert drive.image_paths == (tmp_path / "pics/a.png", tmp_path / "pics/b.png")
    other = read_drive(tmp_path, "csv", ReadOptions(positive="right"))
    assert other.angles.tolist() == [-0.5, 1.0]
    assert other.sign == "right positive in the source, negated"
    (tmp_path / "more.csv").write_text("image,angle\n")
    assert "expected one CSV file of image,angle, found 2" in refusal(tmp_path)


def test_a_renamed_log_of_the_simulator_is_told(tmp_path, write_images) -> None:
    write_images(tmp_path, ["a.png"])
    (tmp_path / "log.csv").write_text("center,left,right,steering\na.png,b.png,c.png,0.5\n")
    drive = read_drive(tmp_path)
    assert drive.angles.tolist() == [-0.5] and drive.sign.startswith("right positive in the source")
    assert "columns center, steering, left, right, as in logs of Udacity's" in drive.notes[0]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            "image,steering,steering_angle",
            "columns steering and steering_angle could both be angle",
        ),
        ("file,path,angle", "columns file and path could both be image"),
        ("file,path,turn", "columns file and path could both be image"),
        (
            "path,turn,speed",
            "a column angle expected, none found (first line starts with path,turn",
        ),
    ],
)
def test_columns_that_could_be_several_things(tmp_path, header, said) -> None:
    (tmp_path / "labels.csv").write_text(f"{header}\na.png,0.5,0.5\n")
    assert said in refusal(tmp_path)


def test_plain_csv_needs_its_header(tmp_path) -> None:
    (tmp_path / "labels.csv").write_text("a.png,0\n")
    assert (
        "header line with a column image expected, none found (first line starts with a.png,0)"
        in refusal(tmp_path)
    )
    (tmp_path / "labels.csv").write_text("")
    assert "first line starts with nothing" in refusal(tmp_path)


def test_detection(tmp_path) -> None:
    message = refusal(tmp_path)
    for name in ("driving_log.csv", "interpolated.csv", "sync_steering.txt", "*.npz"):
        assert name in message
    (tmp_path / "notes.csv").write_text("")
    assert detect_kind(tmp_path) == "csv"
    (tmp_path / "driving_log.csv").write_text("")
    assert detect_kind(tmp_path) == "udacity_sim"
    (tmp_path / "sync_steering.txt").write_text("")
    assert "could be udacity_sim or dronet" in refusal(tmp_path)
    assert "valid: udacity_sim" in refusal(tmp_path, "video")
    assert "no such folder" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize("kind", ["udacity_sim", "udacity_real", "dronet", "csv"])
def test_asking_for_another_kind_names_its_file(tmp_path, kind) -> None:
    assert any(part in refusal(tmp_path, kind) for part in ("no such file", "found 0"))


@pytest.mark.needs_shared
def test_the_six_drivers(shared) -> None:
    folders = sorted((shared / "data" / "driving").glob("udacity_sim_*"))
    if not folders:
        pytest.skip("no driving data beside the repository")
    drives = [read_drive(folder) for folder in folders]
    assert [len(d) for d in drives] == [1000, 1000, 1000, 1000, 700, 400]
    for folder, drive in zip(folders, drives, strict=True):
        assert drive.kind == "udacity_sim"
        rows = (folder / "driving_log.csv").read_text().split()[1:]
        steering = np.array([float(row.split(",")[1]) for row in rows], np.float32)
        assert np.array_equal(drive.angles, -steering)
    ends = [(float(d.angles.min()), float(d.angles.max())) for d in drives]
    assert ends[2] == pytest.approx((-0.953071, 0.9042209))
    assert [e for i, e in enumerate(ends) if i != 2] == [(-1.0, 1.0)] * 5
