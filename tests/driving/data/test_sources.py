"""Which cached silos belong to which data."""

import os
from pathlib import Path

import pytest

from fedsuite.driving.config import DataSettings
from fedsuite.driving.data.frames import open_silo, silo_names
from fedsuite.driving.data.sources import prepare_sources, roster_folder, silos_folder
from fedsuite.roster import Roster
from tests.driving.data.test_drives import write_drive


def settings(cache: Path, drives: Path) -> DataSettings:
    return DataSettings(dir=str(drives), cache_dir=str(cache), image_size=40)


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
        folder = prepare_sources(settings(tmp_path / "cache", data), 0)
        (name,) = silo_names(folder)
        levels.append(open_silo(folder, name).train.images.min())
    assert levels[1] >= 100 > levels[0]
    assert len(list((tmp_path / "cache").iterdir())) == 2


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
        folders.append(silos_folder(settings(tmp_path / "cache", data), 0))
    assert folders[0] == folders[2] != folders[1]


def test_changed_pictures_outside_the_data_are_noticed(tmp_path) -> None:
    (tmp_path / "labels").mkdir()
    pictures = write_drive(tmp_path / "disk", 60) / "IMG"
    rows = "\n".join(f"../disk/IMG/{i}.png,{i / 100}" for i in range(60))
    (tmp_path / "labels" / "all.csv").write_text(f"image,angle\n{rows}\n")
    data = settings(tmp_path / "cache", tmp_path / "labels")
    before = silos_folder(data, 0)
    os.utime(pictures / "7.png", ns=(1, 1))
    assert silos_folder(data, 0) != before


def test_a_roster_says_where_the_silos_lie(tmp_path) -> None:
    data = settings(tmp_path / "cache", tmp_path / "on another machine")
    told = Roster((), {"silos": 2, "folder": "drives-1"})
    assert roster_folder(data, told) == tmp_path / "cache" / "drives-1"
    roads = DataSettings(cache_dir=str(tmp_path / "cache"))
    assert roster_folder(roads, Roster((), {"silos": 2})) == silos_folder(roads, 2)
