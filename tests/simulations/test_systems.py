import sys
from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError
from simulations.app import app_config
from simulations.systems import BUILT_IN, System, load_system, settings_of, to_run_config
from tests.toy import SYSTEM, ToySettings


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_system_loads(name: str) -> None:
    assert isinstance(load_system(name), System)


def test_a_system_of_ones_own() -> None:
    assert load_system("tests.toy:SYSTEM") is SYSTEM


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("fedvnl", "system: unknown 'fedvnl'; did you mean 'fedvln'?"),
        ("zzz", "system: unknown 'zzz'; valid: fedvln"),
        ("", "system: unknown ''; valid: fedvln"),
        (":x", "system: unknown ':x'; valid: fedvln"),
        ("tests.nothing:SYSTEM", "cannot be imported (No module named 'tests.nothing')"),
        ("nowhere.toy:SYSTEM", "cannot be imported (No module named 'nowhere')"),
        ("tests.toy:OTHER", "cannot be imported"),
        ("tests.toy:ToySettings", "is a type, expected a System"),
    ],
)
def test_bad_names_are_complained_about(name: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        load_system(name)
    assert complaint in str(caught.value)


def test_a_missing_library_of_a_system_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        load_system("needy:SYSTEM")
    assert "needy" not in sys.modules


TOY = {"system": "tests.toy:SYSTEM", "toy.width": 7}


def test_keys_of_a_system_stand_under_its_name() -> None:
    system, settings = settings_of({**TOY, "seed": 3})
    assert system is SYSTEM
    assert settings == ToySettings(width=7, seed=3)
    flat = to_run_config(settings)
    assert flat["toy.width"] == 7 and flat["seed"] == 3 and "width" not in flat
    assert settings_of(flat)[1] == settings


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_systems_are_called_what_their_keys_begin_with(name: str) -> None:
    assert load_system(name).name == name


def test_defaults_of_other_systems_are_passed_over() -> None:
    """Flower adds every key of the app to a run-config."""
    others = {**app_config.all_defaults(), **TOY}
    assert settings_of(others)[1] == ToySettings(width=7)


@pytest.mark.parametrize(
    ("run_config", "complaint"),
    [
        ({**TOY, "toy.width": "7"}, 'width must be a whole number, got "7"'),
        ({**TOY, "toy.widht": 7}, "unknown key 'toy.widht'; did you mean 'toy.width'?"),
        ({**TOY, "width": 7}, "unknown key 'width'; did you mean 'toy.width'?"),
        ({**TOY, "sede": 7}, "unknown key 'sede'; did you mean 'seed'?"),
        (
            {**TOY, "fedvln.agent.hidden-size": 64},
            "fedvln.agent.hidden-size is of system fedvln, but the run is of toy; leave it out, or set system = "
            '"fedvln"',
        ),
        ({**TOY, "fedvln.agent.hiden-size": 64}, "did you mean 'fedvln.agent.hidden-size'?"),
        (
            {"federation.share": "agent"},
            "unknown section [federation]; did you mean [fedvln.federation]?",
        ),
        ({"participation-rate": 0.5}, "did you mean 'fedvln.federation.participation-rate'?"),
    ],
)
def test_other_keys_are_refused(run_config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        settings_of(run_config)
    line = str(caught.value)
    assert line.startswith("run-config: ") and complaint in line and "\n" not in line


@pytest.mark.parametrize("seed", [True, 1.5, [1], {"a": 1}, None])
def test_settings_that_are_remembered_do_not_hide_values_of_other_types(seed: Any) -> None:
    assert settings_of({**TOY, "seed": 1})[1].seed == 1
    with pytest.raises(InputError, match="run-config: seed"):
        settings_of({**TOY, "seed": seed})
