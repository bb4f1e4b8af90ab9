"""What is deleted, and by whom: names that the project writes, through one module."""

import ast
from pathlib import Path

import pytest

from fedsuite.errors import InputError
from fedsuite.storage.deleting import check_own, delete, delete_made
from fedsuite.storage.files import make_folder
from tests.test_structure import ROOT, sources

DELETING = {"rmtree", "unlink", "rmdir", "remove", "removedirs"}
ITSELF = ROOT / "fedsuite" / "storage" / "deleting.py"
NAMES = ("run.json", "checkpoints/round-*.safetensors", "clients/*/*/round-*.safetensors")


def calls(file: Path) -> set[str]:
    """Names in a module of functions that delete; `remove` where it is that of os."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in DELETING:
            of_os = isinstance(node.value, ast.Name) and node.value.id in ("os", "shutil")
            if node.attr != "remove" or of_os:
                found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil"):
            found |= DELETING & {name.name for name in node.names}
    return found


def test_one_module_deletes() -> None:
    assert calls(ITSELF) == {"rmtree", "unlink", "rmdir"}
    found = {str(file.relative_to(ROOT)): calls(file) for file in sources() if file != ITSELF}
    assert {file: names for file, names in found.items() if names} == {}


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("ours")
    return folder


OURS = ("run.json", ".run.json.17.partial", "checkpoints/round-000001.safetensors")
PRIVATE = "clients/a house/momentum/round-000002.safetensors"


def test_our_names_go_and_what_is_kept_stays(tmp_path: Path) -> None:
    folder = fill(tmp_path / "run", *OURS, PRIVATE)
    (folder / "clients" / "empty").mkdir()
    delete(folder, NAMES, kept=("run.json",))
    assert [path.name for path in folder.iterdir()] == ["run.json"]
    delete(folder, NAMES)
    assert not folder.exists()
    delete(folder, NAMES)  # it is gone


@pytest.mark.parametrize(
    "foreign",
    [
        "thesis.txt",
        "run.json.old",
        ".thesis.17.partial",
        "checkpoints/thesis.txt",
        "checkpoints/of-mine/round-000001.safetensors",
        "clients/a house/notes.txt",
        "clients/notes.txt",
        "run.json/thesis.txt",
    ],
)
def test_among_what_others_keep_nothing_is_deleted(tmp_path: Path, foreign: str) -> None:
    folder = fill(tmp_path / "run", foreign, *OURS[1:], PRIVATE)
    before = sorted(folder.rglob("*"))
    for act in (delete, check_own):
        with pytest.raises(InputError, match=r"fedsuite does not write this.*nothing was touched"):
            act(folder, NAMES)
    assert sorted(folder.rglob("*")) == before and (folder / foreign).read_text() == "ours"


def test_an_empty_folder_of_others_is_foreign_too(tmp_path: Path) -> None:
    (fill(tmp_path / "run", *OURS) / "mine").mkdir()
    with pytest.raises(InputError, match="mine: fedsuite does not write this"):
        delete(tmp_path / "run", NAMES)


def test_an_empty_folder_that_bears_a_name_of_our_files_is_foreign_too(tmp_path: Path) -> None:
    for name in ("run.json", "checkpoints/round-000001.safetensors"):
        (tmp_path / name).mkdir(parents=True)
        with pytest.raises(InputError, match=f"{name}: fedsuite does not write this"):
            delete(tmp_path, NAMES)
        (tmp_path / name).rmdir()


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = fill(tmp_path / "elsewhere", "round-000001.safetensors", "model")
    folder = fill(tmp_path / "run", "checkpoints/round-000001.safetensors")
    (folder / "run.json").symlink_to(elsewhere / "model")
    delete(folder, NAMES)
    assert not folder.exists() and (elsewhere / "model").read_text() == "ours"
    folder.mkdir()
    (folder / "checkpoints").symlink_to(elsewhere)
    with pytest.raises(InputError, match="checkpoints: fedsuite does not write this"):
        delete(folder, NAMES)
    assert (elsewhere / "round-000001.safetensors").is_file()


@pytest.mark.parametrize(
    "name", ["home", "thesis.partial", ".thesis.partial", "fs-", ".a.x.partial"]
)
def test_whole_folders_are_deleted_by_names_of_ours_alone(tmp_path: Path, name: str) -> None:
    fill(tmp_path / name, "thesis.txt")
    with pytest.raises(ValueError, match="not a name of what is deleted as a whole"):
        delete_made(tmp_path / name)
    for made in ("fs-1a", "fedsuite-warm-1a", ".out.17.partial"):
        delete_made(fill(tmp_path / made, "anything"))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_in_the_making_clears_away_its_own_leftovers_alone(tmp_path: Path) -> None:
    fill(tmp_path / ".out.17.partial", "half")
    fill(tmp_path / ".out.mine.partial", "thesis.txt")
    assert make_folder(tmp_path / "out", lambda partial: fill(partial, "whole"))
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"out", ".out.lock", ".out.mine.partial"}
