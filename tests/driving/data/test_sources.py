"""Which cached silos belong to which data."""

import fcntl
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsuite.driving.config import CDLConfig, DataSettings
from fedsuite.driving.data.fleet import read_drives
from fedsuite.driving.data.frames import open_silo, silo_names
from fedsuite.driving.data.sources import prepare_sources, roster_folder, silos_folder
from fedsuite.roster.members import Roster
from fedsuite.settings.config import with_keys
from fedsuite.storage.files import sha256_of
from fedsuite.storage.progress import in_lines
from tests.driving.data.test_drives import write_drive


def settings(cache: Path, drives: Path) -> DataSettings:
    return DataSettings(dir=str(drives), cache_dir=str(cache), image_size=40)


def place_of(data: DataSettings) -> Path:
    return silos_folder(data, 0, read_drives(data))


def prepared(data: DataSettings, said: Callable[[str], None] = print) -> Path:
    progress = in_lines(said)
    return prepare_sources(data, 3, read_drives(data, progress), progress)


def link(place: Path, target: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(target)
    return place


def test_linked_drives_have_silos_of_their_own(tmp_path) -> None:
    for person, first in (("ada", 0), ("bob", 100)):
        write_drive(tmp_path / "disk" / person, 60, first)
    data = tmp_path / "data"
    levels = []
    for person in ("ada", "bob"):
        link(data / "run", tmp_path / "disk" / person)
        folder = prepared(settings(tmp_path / "cache", data))
        (name,) = silo_names(folder)
        levels.append(open_silo(folder, name).train.images.min())
    assert levels[1] >= 100 > levels[0]
    assert len(list((tmp_path / "cache").glob("drives-*"))) == 2


@pytest.mark.parametrize("linked", ["drive", "folder of pictures", "picture"])
def test_other_pictures_with_the_same_labels_are_other_data(tmp_path, linked) -> None:
    old, new = (write_drive(tmp_path / part / "run", 60) for part in ("old", "new"))
    data = tmp_path / "data"
    if linked == "drive":
        place, parts = data / "run", (old, new)
    else:
        write_drive(data / "run", 60)
        place, parts = data / "run/IMG", (old / "IMG", new / "IMG")
        if linked == "picture":
            place, parts = data / "run/IMG/7.png", (old / "IMG/7.png", new / "IMG/7.png")
        place.rename(tmp_path / "away")
    for picture in (old / "IMG").iterdir():  # as alike as files can be
        status = picture.stat()
        os.utime(new / "IMG" / picture.name, ns=(status.st_atime_ns, status.st_mtime_ns))
    folders = []
    for part in (*parts, parts[0]):
        link(place, part)
        folders.append(place_of(settings(tmp_path / "cache", data)))
    assert folders[0] == folders[2] != folders[1]


def test_changed_pictures_outside_the_data_are_noticed(tmp_path) -> None:
    (tmp_path / "labels").mkdir()
    pictures = write_drive(tmp_path / "disk", 60) / "IMG"
    rows = "\n".join(f"../disk/IMG/{i}.png,{i / 100}" for i in range(60))
    (tmp_path / "labels" / "all.csv").write_text(f"image,angle\n{rows}\n")
    data = settings(tmp_path / "cache", tmp_path / "labels")
    before = place_of(data)
    os.utime(pictures / "7.png", ns=(1, 1))
    assert place_of(data) != before


def test_a_roster_says_where_the_silos_lie(tmp_path) -> None:
    data = settings(tmp_path / "cache", tmp_path / "on another machine")
    told = Roster((), {"silos": 2, "folder": "drives-1"})
    assert roster_folder(data, told) == tmp_path / "cache" / "drives-1"
    roads = DataSettings(cache_dir=str(tmp_path / "cache"))
    assert roster_folder(roads, Roster((), {"silos": 2})) == silos_folder(roads, 2)


def test_the_runs_seed_can_draw_the_roads_and_a_fold_is_other_data(tmp_path) -> None:
    config = with_keys(CDLConfig(), {"data.cache-dir": str(tmp_path), "data.generated-seed": -1})
    drawn = [replace(config, seed=seed).drawn_data for seed in (3, 4)]
    places = [silos_folder(data, 2) for data in drawn]
    assert places == [silos_folder(replace(config.data, generated_seed=s), 2) for s in (3, 4)]
    assert places[0] != places[1]
    write_drive(tmp_path / "drives" / "a", 200)
    drives = settings(tmp_path / "cache", tmp_path / "drives")
    folders = [prepared(replace(drives, fold=fold)) for fold in (0, 1)]
    first, second = (set(open_silo(folder, "a").test.angles.tolist()) for folder in folders)
    assert len(first) == len(second) == 40 and not first & second


def run_of_its_own(data: DataSettings, pipe: Any) -> None:
    pipe.send("ready")
    pipe.recv()
    try:
        pipe.send(digest_of(prepared(data)))
    except BaseException as error:
        pipe.send(repr(error))


def digest_of(folder: Path) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return sha256_of(b"".join(str(p).encode() + p.read_bytes() for p in files))


@pytest.mark.slow
@pytest.mark.parametrize("source", ["drives", "roads"])
def test_two_runs_at_once_share_one_fresh_cache(tmp_path, source) -> None:
    data = DataSettings(cache_dir=str(tmp_path / "cache"), image_size=100, train_frames=60)
    if source == "drives":
        for name in "abc":
            write_drive(tmp_path / "data" / name, 60)
        data = settings(tmp_path / "cache", tmp_path / "data")
    started = multiprocessing.get_context("fork")
    pipes = []
    for _ in range(2):
        mine, other = started.Pipe()
        process = started.Process(target=run_of_its_own, args=(data, other))
        process.start()
        pipes.append((mine, process))
    for pipe, _ in pipes:
        assert pipe.recv() == "ready"
    for pipe, _ in pipes:
        pipe.send("go")
    told = [pipe.recv() for pipe, _ in pipes]
    for _, process in pipes:
        process.join()
    folder, lock = sorted((tmp_path / "cache").iterdir(), key=Path.is_file)  # nothing half done
    assert told == [digest_of(folder)] * 2 and lock.name == f".{folder.name}.lock"


def test_who_waits_for_another_run_says_so(tmp_path) -> None:
    data = DataSettings(cache_dir=str(tmp_path), image_size=32, train_frames=2, test_frames=1)
    folder = silos_folder(data, 3)
    lock = tmp_path / f".{folder.name}.lock"
    heard: list[str] = []

    def hear(line: str) -> None:
        """The other run ends as soon as somebody waits for it."""
        heard.append(line)
        if line.startswith("waiting"):
            os.close(other)

    other = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    assert prepared(data, hear) == folder
    assert heard[0] == f"waiting for another process that writes {folder}"
    assert set(tmp_path.iterdir()) == {folder, tmp_path / f".{folder.name}.lock"}


def test_a_lock_that_its_holder_has_left_is_taken(tmp_path) -> None:
    data = DataSettings(cache_dir=str(tmp_path), image_size=32, train_frames=2, test_frames=1)
    folder = silos_folder(data, 3)
    (tmp_path / f".{folder.name}.lock").touch()
    said: list[str] = []
    assert prepared(data, said.append) == folder
    assert said == ["silos of generated roads: 3"]
    assert set(tmp_path.iterdir()) == {folder, tmp_path / f".{folder.name}.lock"}
