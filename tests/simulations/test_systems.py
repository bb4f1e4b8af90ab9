import sys
from pathlib import Path

import pytest

from fedsuite.errors import InputError
from simulations.systems import BUILT_IN, System, load_system, settings_of
from tests.toy import SYSTEM, ToySettings


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_system_loads(name: str) -> None:
    assert isinstance(load_system(name), System)


def test_a_system_of_ones_own() -> None:
    assert load_system("tests.toy:SYSTEM") is SYSTEM


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("fedvnl", "unknown system 'fedvnl'; did you mean 'fedvln'?"),
        ("zzz", "unknown system 'zzz'; valid: fedvln"),
        ("", "unknown system ''"),
        (":x", "unknown system ':x'"),
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


def test_keys_of_other_systems_are_left_out() -> None:
    system, settings = settings_of({"system": "tests.toy:SYSTEM", "width": 7, "hidden-size": 64})
    assert system is SYSTEM
    assert settings == ToySettings(width=7)
    with pytest.raises(InputError, match='run-config: width must be a whole number, got "7"'):
        settings_of({"system": "tests.toy:SYSTEM", "width": "7"})
