"""From folders of recordings to silos of frames: split, skew, atomic output, refusals."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsuite.driving.config import DataSettings
from fedsuite.driving.data.drive_blocks import TEST, TRAIN, SplitOptions, plan_split
from fedsuite.driving.data.drives import about_drives, prepare_drives
from fedsuite.driving.data.finding import find_drives
from fedsuite.driving.data.fleet import read_drives
from fedsuite.driving.data.frames import is_finished, open_silo, silo_names
from fedsuite.driving.data.readers import Drive
from fedsuite.driving.data.readers.video import Clip, Videos
from fedsuite.errors import InputError
from fedsuite.storage.progress import Progress, in_lines, silent


def write_drive(folder: Path, count: int, first: int = 0) -> Path:
    """A simulator drive; frame i is grey level first + i everywhere and its steering -(first + i) / 1000."""
    (folder / "IMG").mkdir(parents=True)
    lines = []
    for i in range(first, first + count):
        Image.new("L", (32, 16), i % 256).save(folder / "IMG" / f"{i}.png")
        lines.append(f"{i}.png,{-i / 1000},0,0,0\n")
    (folder / "driving_log.csv").write_text("".join(lines))
    return folder


def prepare(folder: Path, drives: Path, progress: Progress = silent, **changes: object) -> None:
    """Silos of small frames, unless `changes` say otherwise."""
    settings = {"image_size": 8} | changes
    data = DataSettings(dir=str(drives), **settings)
    prepare_drives(folder, read_drives(data, progress), data, progress)


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two drives of 100 and 60 frames whose frames are told apart by their grey level."""
    root = tmp_path_factory.mktemp("recordings")
    write_drive(root / "drive_2", 100)
    write_drive(root / "drive_10", 60, first=100)
    (root / "notes").mkdir()
    return root


def drive(name: str, angles: np.ndarray) -> Drive:
    """Labels alone, which is all that the split looks at."""
    return Drive(name, "csv", angles.astype(np.float32), "radians", "left positive")


def turning(count: int, seed: int) -> np.ndarray:
    """Angles [count] that wander slowly, as real ones do."""
    return np.cumsum(np.random.default_rng(seed).normal(0, 0.01, count))


def test_frames_are_made_anew_where_a_video_is_read_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"frames")

    def kept(slack_s: float, *seconds: float) -> object:
        clips = (Clip(tmp_path / "clip.mp4", (np.array(seconds),)),)
        footage = Videos("mp4", clips, slack_s)
        filmed = replace(drive("a", np.zeros(2)), footage=footage, rows=np.arange(2))
        return about_drives([filmed], DataSettings())["sha256"]

    found = [kept(0.02, 0.0, 0.1), kept(0.01, 0.0, 0.1), kept(0.02, 0.1, 0.2)]
    assert kept(0.02, 0.0, 0.1) == found[0]
    monkeypatch.setattr("fedsuite.driving.data.readers.video.decoder_version", lambda: "another")
    assert len({*found, kept(0.02, 0.0, 0.1)}) == 4


def test_one_silo_per_drive(recordings, tmp_path) -> None:
    said: list[str] = []
    prepare(tmp_path / "out", recordings, in_lines(said.append))
    assert silo_names(tmp_path / "out") == ["drive_2", "drive_10"]
    for name, first, count in (("drive_2", 0, 100), ("drive_10", 100, 60)):
        silo = open_silo(tmp_path / "out", name)
        numbers = []
        for frames in (silo.train, silo.test):
            assert frames.images.shape == (len(frames), 1, 8, 8)
            levels = frames.images[:, 0, 0, 0].astype(int)
            assert (frames.images == levels[:, None, None, None]).all()
            # Picture and angle of one row belong together, and left is positive.
            assert np.allclose(frames.angles, levels / 1000)
            numbers.append(set(levels.tolist()))
        train, test = numbers
        assert train | test <= set(range(first, first + count))
        assert min(abs(a - b) for a in train for b in test) > 5
        assert len(test) == 20
    passed = f"{recordings}: passed over notes"
    assert said == [passed, "drives read: 2", "frames of drives: 140"]
    about = json.loads((tmp_path / "out" / "silos.json").read_text())["about"]
    assert about["drives"][0]["unit"] == "fraction of full lock"
    assert about["drives"][0]["sign"] == "right positive in the source, negated"


def test_colour(recordings, tmp_path) -> None:
    prepare(tmp_path / "out", recordings, channels=3)
    assert open_silo(tmp_path / "out", "drive_2").train.images.shape[1:] == (3, 8, 8)


@pytest.mark.parametrize("num_silos", [1, 3, 11])
@pytest.mark.parametrize("dirichlet", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("gap", [0, 5])
def test_no_frame_trains_next_to_a_test_frame(num_silos, dirichlet, gap) -> None:
    drives = [drive(str(i), turning(n, i)) for i, n in enumerate((1000, 403, 700))]
    options = SplitOptions(num_silos, dirichlet, 0.2, 1, gap_frames=gap)
    plan = plan_split(drives, options)
    for silo, role in zip(plan.silo, plan.role, strict=True):
        assert (silo >= 0).all()
        train, test = np.flatnonzero(role == TRAIN), np.flatnonzero(role == TEST)
        assert np.abs(train[:, None] - test[None]).min() > gap
        assert gap or len(train) + len(test) == len(role)
    for number in range(num_silos):
        assert plan.count(number, TRAIN) > 0
        assert plan.count(number, TEST) > 0
    tests = sum(plan.count(i, TEST) for i in range(num_silos))
    assert abs(tests / 2103 - 0.2) < 0.04


@pytest.mark.parametrize(("share", "folds"), [(0.2, 5), (0.1, 10), (0.5, 2)])
def test_the_folds_hold_out_every_frame_once(share: float, folds: int) -> None:
    drives = [drive("a", turning(1000, 0)), drive("b", turning(400, 1))]
    plans = [plan_split(drives, SplitOptions(test_share=share, fold=f)) for f in range(folds)]
    for roles in zip(*(plan.role for plan in plans), strict=True):
        tested = np.stack([role == TEST for role in roles])
        assert (tested.sum(axis=0) == 1).all() and set(tested.sum(axis=1)) == {
            tested.shape[1] * share
        }
        for role in roles:
            train, test = np.flatnonzero(role == TRAIN), np.flatnonzero(role == TEST)
            assert np.abs(train[:, None] - test[None]).min() > 5
    usual = plan_split(drives, SplitOptions(test_share=share))
    assert all(np.array_equal(a, b) for a, b in zip(usual.role, plans[0].role, strict=True))


def test_equal_contiguous_pieces() -> None:
    drives = [drive("a", turning(1000, 0)), drive("b", turning(503, 1))]
    plan = plan_split(drives, SplitOptions(num_silos=4))
    together = np.concatenate(plan.silo)
    assert (np.diff(together) >= 0).all()
    sizes = np.bincount(together)
    assert sizes.max() - sizes.min() <= 1
    assert plan.names == ("silo_0", "silo_1", "silo_2", "silo_3")


def test_dirichlet_strengthens_label_skew_and_keeps_blocks_whole() -> None:
    drives = [drive(str(i), turning(2000, 7 + i)) for i in range(2)]
    spread = []
    for parameter in (0.1, 100.0):
        plan = plan_split(drives, SplitOptions(6, parameter, gap_frames=0))
        silo, angle = np.concatenate(plan.silo), np.concatenate([d.angles for d in drives])
        spread.append(np.std([angle[silo == i].mean() for i in range(6)]))
        for own in plan.silo:
            assert set(np.flatnonzero(np.diff(own)) % 20) == {19}
    assert spread[0] > 2 * spread[1]
    again = plan_split(drives, SplitOptions(6, 100.0, gap_frames=0))
    other = plan_split(drives, SplitOptions(6, 100.0, gap_frames=0, seed=1))
    assert all(np.array_equal(a, b) for a, b in zip(again.silo, plan.silo, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(other.silo, plan.silo, strict=True))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"num_silos": 6},
            "data.num-silos: silo silo_0 gets 1 blocks of 20 frames, 2 are needed; lower data.num-silos",
        ),
        ({"num_silos": 6, "dirichlet": 1.0}, "gets 1 blocks|gets 0 blocks"),
        (
            {"gap_frames": 90},
            "data.test-share: silo a keeps no training frame that is 90 frames away",
        ),
        ({"block_frames": 51}, "drive a: 100 frames are fewer than the 102 of two blocks"),
    ],
)
def test_splits_that_cannot_be(options, said) -> None:
    with pytest.raises(InputError, match=said):
        plan_split([drive("a", turning(100, 0))], SplitOptions(**options))


def test_an_unknown_kind_is_named(recordings, tmp_path) -> None:
    with pytest.raises(InputError, match="kind"):
        prepare(tmp_path / "out", recordings, kind="film")
    assert not (tmp_path / "out").exists()


def test_same_bytes_again_and_nothing_done_twice(recordings, tmp_path) -> None:
    def files(folder: Path) -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.*")}

    for name in ("a", "b"):
        prepare(tmp_path / name, recordings, num_silos=2, dirichlet=1.0)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    said: list[str] = []
    before = (tmp_path / "a" / "silos.json").stat().st_mtime_ns
    prepare(tmp_path / "a", recordings, in_lines(said.append), num_silos=2, dirichlet=1.0)
    assert (tmp_path / "a" / "silos.json").stat().st_mtime_ns == before
    assert not any(line.startswith("frames") for line in said)
    with pytest.raises(InputError, match="holds silos of other drives or settings"):
        prepare(tmp_path / "a", recordings, num_silos=2, dirichlet=2.0)


def test_foreign_folders_are_left_alone(recordings, tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("three years of work")
    with pytest.raises(InputError, match="holds no prepared silos"):
        prepare(tmp_path / "mine", recordings)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "three years of work"
    (tmp_path / "empty").mkdir()
    prepare(tmp_path / "empty", recordings)
    assert is_finished(tmp_path / "empty")


def test_an_interrupt_leaves_nothing(recordings, tmp_path) -> None:
    def interrupt(what: str, done: int = 0, total: int = 0) -> None:
        if what.startswith("frames"):
            assert (tmp_path / ".out.partial").is_dir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "out", recordings, interrupt)
    assert list(tmp_path.iterdir()) == []
    # What a killed process leaves is cleared away and not mixed in.
    (tmp_path / ".out.partial" / "stale").mkdir(parents=True)
    thesis = tmp_path / ".out.partial" / "thesis.txt"
    thesis.touch()
    with pytest.raises(InputError, match=r"thesis\.txt: fedsuite does not write this"):
        prepare(tmp_path / "out", recordings)
    thesis.unlink()
    prepare(tmp_path / "out", recordings)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert not (tmp_path / "out" / "stale").exists()


def test_labels_are_checked_before_images_and_images_before_output(tmp_path) -> None:
    folder = write_drive(tmp_path / "data" / "a", 60)
    (folder / "IMG" / "0.png").write_bytes(b"broken")
    log = folder / "driving_log.csv"
    good = log.read_text()
    log.write_text(good.replace("59.png,-0.059", "59.png,oops"))
    with pytest.raises(InputError, match="line 60: the steering angle 'oops'"):
        prepare(tmp_path / "out", tmp_path / "data")
    log.write_text(good)
    with pytest.raises(InputError, match=r"0\.png: cannot be decoded"):
        prepare(tmp_path / "out", tmp_path / "data")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data"]


def test_read_options_reach_the_labels(tmp_path) -> None:
    write_drive(tmp_path / "data", 60)
    prepare(tmp_path / "out", tmp_path / "data", angle_scale=0.5)
    assert silo_names(tmp_path / "out") == ["data"]
    frames = open_silo(tmp_path / "out", "data").train
    assert np.allclose(frames.angles, frames.images[:, 0, 0, 0] / 2000)
    with pytest.raises(InputError, match=r"beyond the limit 0\.01"):
        prepare(tmp_path / "b", tmp_path / "data", angle_limit=0.01)


def test_finding(recordings, tmp_path) -> None:
    assert [p.name for p in find_drives(recordings)] == ["drive_2", "drive_10"]
    assert find_drives(recordings / "drive_2") == [recordings / "drive_2"]
    with pytest.raises(InputError, match="of kind dronet"):
        find_drives(recordings, "dronet")
    with pytest.raises(InputError, match=r"looked for driving_log\.csv"):
        find_drives(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        find_drives(tmp_path / "nowhere")


def test_finding_two_levels_down_tells_what_is_passed_over(tmp_path) -> None:
    write_drive(tmp_path / "ada", 2)
    write_drive(tmp_path / "bob" / "monday", 2)
    write_drive(tmp_path / "bob" / "friday", 2)
    write_drive(tmp_path / "bob" / "old" / "too deep", 2)
    write_drive(tmp_path / "__MACOSX" / "ada", 2)
    write_drive(tmp_path / ".trash", 2)
    (tmp_path / "notes" / "plans").mkdir(parents=True)
    (tmp_path / "._driving_log.csv").write_text("what macOS leaves")
    (tmp_path / "bob" / "._labels.csv").write_text("what macOS leaves")
    (tmp_path / "ada" / "._0.npz").write_text("what macOS leaves")
    said: list[str] = []
    found = find_drives(tmp_path, progress=in_lines(said.append))
    assert [str(p.relative_to(tmp_path)) for p in found] == ["ada", "bob/friday", "bob/monday"]
    assert said == [f"{tmp_path}: passed over bob/old, notes"]
    with pytest.raises(InputError, match=r"no drive found in it or 2 levels below; looked for dri"):
        find_drives(tmp_path / "notes")


@pytest.mark.parametrize(
    ("pair", "scale", "said"),
    [
        (("0.25", "0.25"), 1.0, "all 60 angles are equal"),
        (("-0", "0"), 1.0, "all 60 angles are equal"),
        (("0", "1"), 0.3, "all 60 angles are whole numbers"),
        (("4", "0"), 0.1, "all 60 angles are whole numbers"),
        (("0.001", "0"), 1.0, None),
    ],
)
def test_angles_that_no_drive_has_are_told(tmp_path, pair, scale, said) -> None:
    log = write_drive(tmp_path / "data", 60) / "driving_log.csv"
    log.write_text("".join(f"{i}.png,{pair[i % 2]},0.5,0,0.5\n" for i in range(60)))
    heard: list[str] = []
    prepare(tmp_path / "out", tmp_path / "data", in_lines(heard.append), angle_scale=scale)
    doubts = [line for line in heard if "angles are" in line]
    told = [] if said is None else [f"{tmp_path / 'data'}: {said}; were their decimals lost?"]
    assert doubts == told


def test_archives_of_the_release(tmp_path) -> None:
    root = tmp_path / "gaia"
    for split, names in (("train", ("0", "1", "10", "2", "train")), ("test", ("test",))):
        (root / split).mkdir(parents=True)
        for name in names:
            imgs = np.full((44, 1, 200, 200), 50, np.uint8)
            labels = np.linspace(-1, 1, 44)
            np.savez_compressed(root / split / f"{name}.npz", imgs=imgs, ground_truths=labels)
    for folder in (root, root / "train"):
        assert [p.stem for p in find_drives(folder)] == ["0", "1", "2", "10"]
    prepare(tmp_path / "out", root)
    assert silo_names(tmp_path / "out") == ["0", "1", "2", "10"]
    assert (open_silo(tmp_path / "out", "10").test.images == 50).all()


def test_drives_that_do_not_go_together(tmp_path) -> None:
    write_drive(tmp_path / "data" / "sim", 60)
    other = tmp_path / "data" / "tub"
    (other / "pics").mkdir(parents=True)
    Image.new("L", (32, 16)).save(other / "pics" / "0.png")
    (other / "labels.csv").write_text("image,angle\npics/0.png,0\n")
    with pytest.raises(InputError, match="angles in radians, but sim has fraction of full lock"):
        prepare(tmp_path / "out", tmp_path / "data")
    for name in ("a", "b"):
        (tmp_path / "more" / name).mkdir(parents=True)
        np.savez(
            tmp_path / "more" / name / "0.npz",
            imgs=np.zeros((1, 1, 200, 200), np.uint8),
            ground_truths=[0.0],
        )
    with pytest.raises(InputError, match="a second drive with the name 0"):
        prepare(tmp_path / "out", tmp_path / "more")


@pytest.mark.slow
@pytest.mark.needs_shared
def test_six_drivers_as_silos(shared, tmp_path) -> None:
    data = shared / "data" / "driving"
    if not (data / "udacity_sim_f").is_dir():
        pytest.skip("no driving data beside the repository")
    prepare(tmp_path / "f", data / "udacity_sim_f", image_size=32, num_silos=2)
    silos = [open_silo(tmp_path / "f", n) for n in silo_names(tmp_path / "f")]
    assert [(len(s.train), len(s.test)) for s in silos] == [(140, 40), (140, 40)]
    for silo in silos:
        assert 80 < silo.train.images.mean() < 180
        assert silo.train.angles.min() >= -1
        assert silo.train.angles.max() <= 1
