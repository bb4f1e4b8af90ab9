from dataclasses import dataclass, fields
from typing import Any

import pytest

from fedsuite.config import (
    RunSettings,
    check_resumable,
    config_digest,
    limits_of,
    parse_text,
    read_config,
    setting,
    to_flat,
)
from fedsuite.errors import InputError


@dataclass(frozen=True)
class Example(RunSettings):
    size: int = setting(4, "a size", ge=1, le=9)
    rate: float = setting(0.5, "a rate", gt=0, lt=1)
    mode: str = setting("fast", "a mode", choices=("fast", "slow"))
    quick: bool = setting(False, "a switch")
    where: str = setting("", "a folder", path=True, may_change=True)


def test_defaults_and_kebab_keys() -> None:
    config = read_config(Example, {"num-rounds": 3, "size": 7})
    assert (config.num_rounds, config.size, config.rate) == (3, 7, 0.5)
    assert to_flat(config)["num-rounds"] == 3
    assert list(to_flat(config)) == sorted(to_flat(config))
    assert read_config(Example, to_flat(config)) == config


def test_whole_numbers_are_numbers() -> None:
    rate = read_config(RunSettings, {"node-deadline-s": 5}).node_deadline_s
    assert rate == 5.0 and isinstance(rate, float)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sise", 3, "'sise'; did you mean 'size'?"),
        ("num_rounds", 3, "did you mean 'num-rounds'?"),
        ("zzz", 3, "unknown key 'zzz'; valid keys: checkpoint-every"),
        ("size", 0, "size must be a value >= 1, got 0"),
        ("size", 10, "size must be a value <= 9, got 10"),
        ("rate", 0, "rate must be a value > 0, got 0.0"),
        ("rate", 1.0, "rate must be a value < 1, got 1.0"),
        ("rate", float("nan"), "rate must be a finite number"),
        ("rate", "0.3", 'rate must be a number, got "0.3"'),
        ("size", 2.0, "size must be a whole number, got 2.0"),
        ("size", True, "size must be a whole number, got true"),
        ("quick", 1, "quick must be true or false, got 1"),
        ("mode", "medium", 'mode must be one of "fast", "slow", got "medium"'),
        ("mode", {"a": 1}, "keys are flat, without tables"),
        ("mode", "a\nb", "mode must be text on one line"),
        ("size", [1], "size must be a whole number, got [1]"),
    ],
)
def test_complaints_name_key_expectation_and_value(key: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_config(Example, {key: value}, "exp.toml")
    assert str(caught.value).startswith("exp.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("size", "3", 3),
        ("rate", "1e-3", 1e-3),
        ("quick", "true", True),
        ("mode", "slow", "slow"),
        ("where", "/a b", "/a b"),
    ],
)
def test_parse_text(key: str, text: str, value: Any) -> None:
    parsed = parse_text(Example, key, text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(("key", "text"), [("size", "3.0"), ("quick", "yes"), ("rate", "x")])
def test_parse_text_refuses(key: str, text: str) -> None:
    with pytest.raises(InputError, match=f"--set: {key} must be .*, got '{text}'"):
        parse_text(Example, key, text)


def test_digest_covers_what_results_depend_on_and_nothing_else() -> None:
    base = Example()
    for field in fields(Example):
        key = field.name.replace("_", "-")
        other = "else" if isinstance(field.default, str) else 1 if field.default != 1 else 2
        if isinstance(field.default, bool):
            other = True
        changed = Example(**{field.name: other})
        same = config_digest(base) == config_digest(changed)
        assert same == limits_of(Example)[key].may_change, key


def test_resuming_with_other_settings_names_the_key() -> None:
    check_resumable(Example(num_rounds=3, where="a"), Example(num_rounds=9, where="b"), "runs/x")
    with pytest.raises(InputError, match=r"runs/x: cannot resume with size = 5, .*made with 4"):
        check_resumable(Example(), Example(size=5), "runs/x")


def test_fields_must_be_declared_with_setting() -> None:
    @dataclass(frozen=True)
    class Bad(RunSettings):
        naked: int = 3

    with pytest.raises(TypeError, match=r"Bad\.naked: declare"):
        limits_of(Bad)
