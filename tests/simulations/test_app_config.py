import tomllib
from pathlib import Path

import pytest
from flwr.common.config import flatten_dict

from fedsuite.errors import InputError
from fedsuite.settings.config import read_config
from simulations.app import app_config
from simulations.experiments.variants import runs_of
from simulations.systems import BUILT_IN, load_system, settings_of, to_run_config

PYPROJECT = tomllib.loads(app_config.PYPROJECT.read_text())


def test_the_block_is_up_to_date() -> None:
    text = app_config.PYPROJECT.read_text()
    assert app_config.updated(text) == text, "run `python -m simulations.app.app_config --write`"


def test_flower_sees_every_key_with_its_default() -> None:
    table = flatten_dict(PYPROJECT["tool"]["flwr"]["app"]["config"])
    for name in BUILT_IN:
        defaults = load_system(name).config_class()
        assert to_run_config(defaults).items() <= {**table, "system": name}.items()
        assert settings_of({**table, "system": name})[1] == defaults


def test_flower_would_find_the_apps_and_ships_what_they_need() -> None:
    app = PYPROJECT["tool"]["flwr"]["app"]
    for reference in app["components"].values():
        module, _, attribute = reference.partition(":")
        source = (app_config.PYPROJECT.parent / f"{module.replace('.', '/')}.py").read_text()
        assert (
            f"\n{attribute} = " in source
        )  # Flower reads the source, and sees plain assignments only
    assert "federations" not in PYPROJECT["tool"]["flwr"]  # it makes `flwr run` rewrite the file
    for package in ("fedsuite", "strategies", "clients", "simulations"):
        assert f"{package}/**/*.py" in app["fab-include"]
    for pattern in app["fab-include"]:  # Flower refuses patterns that match nothing
        assert any(app_config.PYPROJECT.parent.glob(pattern)), pattern


def test_an_old_block_is_replaced_and_the_rest_is_kept() -> None:
    old = f"a = 1\n{app_config.BEGIN}\nold = 3\n{app_config.END}\nb = 2\n"
    new = app_config.updated(old)
    assert new.startswith("a = 1\n") and new.endswith("\nb = 2\n") and "old = 3" not in new
    with pytest.raises(InputError, match="are missing; put them back"):
        app_config.updated("a = 1")


@pytest.mark.parametrize(
    "path", sorted(app_config.PYPROJECT.parent.glob("simulations/*/*.toml")), ids=lambda p: p.stem
)
def test_every_experiment_file_is_valid(path: Path) -> None:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    for run in runs_of(table, path.name):
        cls = load_system(run.table.get("system", "fedvln")).config_class
        read_config(cls, run.table, path.name)
