"""The app bundle as Flower's own code builds it: no SuperLink, nothing installed."""

import shutil
import tomllib
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import get_fab_metadata, load_and_validate
from flwr.common.config import get_fab_config
from flwr.supercore.fab_format_version import normalize_and_validate_fab_format

from simulations.app.app_config import PYPROJECT

ROOT = PYPROJECT.parent
SHIPPED = ("fedsuite", "strategies", "clients", "simulations")
# What Flower Hub takes.
MOST_FILES, MOST_BYTES, MOST_BYTES_OF_ONE, MOST_FOLDERS, LONGEST_DESCRIPTION = (
    1000,
    10**7,
    10**6,
    10,
    200,
)


# What somebody may have left in the project's folders.
STRAYS = ("fedsuite/roster.json", "fedsuite/vln/report/scores.json", "clients/me.json")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Of a copy, as a checkout may have an environment and runs in it, which Flower would walk through.

    A deployment's folder is there: a node keeps the apps of its runs in it, deeper than Flower lets a bundle be.
    """
    app = tmp_path_factory.mktemp("app")
    apps = app / "kit" / "nodes" / "oak" / "state" / "flower" / "apps" / "a"
    (apps / "fedsuite" / "b" / "c" / "d").mkdir(parents=True)
    (apps / "fedsuite" / "b" / "c" / "d" / "e.json").write_text("{}")
    for name in ("pyproject.toml", "LICENSE", "README.md", ".gitignore"):
        shutil.copy(ROOT / name, app)
    for name in SHIPPED:
        shutil.copytree(ROOT / name, app / name, ignore=shutil.ignore_patterns("__pycache__"))
    for place in STRAYS:
        (app / place).write_text('{"password": "x"}')
    return build_fab_from_disk(app)


def test_flower_finds_nothing_missing() -> None:
    config, warnings = load_and_validate(PYPROJECT, check_module=True)
    assert warnings == []
    assert 0 < len(config["project"]["description"]) <= LONGEST_DESCRIPTION


def test_the_bundle_says_which_flower_it_was_made_for(bundle: bytes) -> None:
    made_for = normalize_and_validate_fab_format(get_fab_config(bundle))
    assert made_for.fab_format_version == 1
    assert (made_for.flwr_version_min, made_for.flwr_version_target) == ("1.41", "1.42.0")
    assert get_fab_metadata(bundle)[0] == "fedsuite/fedsuite"


def test_the_bundle_has_the_licence_and_keeps_to_the_limits(bundle: bytes) -> None:
    assert len(bundle) <= MOST_BYTES
    with zipfile.ZipFile(BytesIO(bundle)) as files:
        names = files.namelist()
        assert files.read("LICENSE") == (ROOT / "LICENSE").read_bytes()
        assert max(info.file_size for info in files.infolist()) <= MOST_BYTES_OF_ONE
    assert {"README.md", "simulations/server_app.py", "simulations/client_app.py"} <= set(names)
    assert len(names) <= MOST_FILES
    assert max(len(Path(name).parts) for name in names) <= MOST_FOLDERS
    tables = {str(p.relative_to(ROOT)) for p in (ROOT / "fedsuite").rglob("*.json")}
    assert {n for n in names if n.endswith(".json") and ".info" not in n} == tables
    assert not {*STRAYS} & {*names}
    strays = [n for n in names if "/" in n and not n.startswith((*SHIPPED, ".info/"))]
    assert strays == []


def test_the_licence_is_the_standard_text() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "Copyright [yyyy] [name of copyright owner]" in text  # nobody's name filled in


@pytest.mark.parametrize("package", SHIPPED)
def test_a_wheel_has_every_file_that_is_no_code(package: str) -> None:
    """Configurations, tables and texts, by the patterns of pyproject.toml."""
    settings = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["setuptools"]
    patterns = settings["package-data"].get(package, [])
    packed = {file for pattern in patterns for file in (ROOT / package).glob(pattern)}
    inside = (p for p in (ROOT / package).rglob("*") if p.is_file())
    assert packed == {p for p in inside if p.suffix not in (".py", ".pyc")}
