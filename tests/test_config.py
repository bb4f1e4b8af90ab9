from dataclasses import dataclass, replace
from typing import Any

import pytest

from fedsuite.driving.config import CDLConfig
from fedsuite.errors import InputError
from fedsuite.runs.folder import check_resumable
from fedsuite.settings.config import (
    RunSettings,
    config_digest,
    limits_of,
    parse_text,
    read_config,
    section,
    setting,
    to_flat,
    types_of,
    value_of,
    with_keys,
)
from tests.harness import changed


@dataclass(frozen=True)
class Model:
    size: int = setting(4, "a size", ge=1, le=9)
    rate: float = setting(0.5, "a rate", gt=0, lt=1)
    batch_size: int = setting(2, "of training", ge=1)


@dataclass(frozen=True)
class Scoring:
    mode: str = setting("fast", "a mode", choices=("fast", "slow"))
    quick: bool = setting(False, "a switch")
    batch_size: int = setting(2, "of evaluation", ge=1)


@dataclass(frozen=True)
class Example(RunSettings):
    where: str = setting("", "a folder", path=True, may_change=True)
    big_model: Model = section(Model)
    scoring: Scoring = section(Scoring)


def test_defaults_and_kebab_keys() -> None:
    config = read_config(
        Example, {"num-rounds": 3, "big-model": {"size": 7}, "scoring.quick": True}
    )
    assert (config.num_rounds, config.big_model.size, config.big_model.rate) == (3, 7, 0.5)
    assert config.scoring == Scoring(quick=True)
    assert to_flat(config)["num-rounds"] == 3 and to_flat(config)["big-model.size"] == 7
    assert list(to_flat(config)) == sorted(to_flat(config))
    assert read_config(Example, to_flat(config)) == config
    assert hash(read_config(Example, to_flat(config))) == hash(config)


def test_nested_tables_and_dotted_keys_say_the_same() -> None:
    nested = {"seed": 1, "big-model": {"size": 7, "rate": 0.25}, "scoring": {}}
    dotted = {"seed": 1, "big-model.size": 7, "big-model.rate": 0.25}
    assert read_config(Example, nested) == read_config(Example, dotted)
    both = {"big-model": {"size": 7}, "big-model.size": 7}
    with pytest.raises(InputError, match=r"x\.toml: big-model\.size is given twice"):
        read_config(Example, both, "x.toml")


def test_keys_reach_through_sections() -> None:
    config = with_keys(Example(), {"big-model.size": 7, "scoring.mode": "slow", "seed": 2})
    assert config == Example(seed=2, big_model=Model(size=7), scoring=Scoring(mode="slow"))
    assert value_of(config, "big-model.size") == 7 and value_of(config, "seed") == 2
    assert list(limits_of(Example)) == list(types_of(Example))
    assert types_of(Example)["big-model.rate"] is float


def test_whole_numbers_are_numbers() -> None:
    rate = read_config(RunSettings, {"node-deadline-s": 5}).node_deadline_s
    assert rate == 5.0 and isinstance(rate, float)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sise", 3, "'sise'; did you mean 'big-model.size'?"),
        ("size", 3, "'size'; did you mean 'big-model.size'?"),
        ("scoring.size", 3, "'scoring.size'; did you mean 'big-model.size'?"),
        ("big-model.sise", 3, "'big-model.sise'; did you mean 'big-model.size'?"),
        ("big-model-size", 3, "did you mean 'big-model.size'?"),
        ("big_model.size", 3, "did you mean 'big-model.size'?"),
        ("batch-size", 3, "did you mean 'big-model.batch-size' or 'scoring.batch-size'?"),
        ("num_rounds", 3, "did you mean 'num-rounds'?"),
        ("zzz", 3, "unknown key 'zzz'; valid keys: checkpoint-every"),
        ("big-model.zzz", 3, "valid keys: big-model.batch-size, big-model.rate, big-model.size"),
        ("big-modle.size", 3, "unknown section [big-modle]; did you mean [big-model]?"),
        ("zzz", {"size": 3}, "unknown section [zzz]; valid: checkpoint-every"),
        ("big-model", 3, "big-model is a section, not a value; its keys: big-model.batch-size"),
        ("seed", {"a": 1}, "seed is a value, not a section"),
        ("big-model.size", 0, "size must be a value >= 1, got 0"),
        ("big-model.size", 10, "size must be a value <= 9, got 10"),
        ("big-model.rate", 0, "rate must be a value > 0, got 0.0"),
        ("big-model.rate", 1.0, "rate must be a value < 1, got 1.0"),
        ("big-model.rate", float("nan"), "rate must be a finite number"),
        ("big-model.rate", "0.3", 'rate must be a number, got "0.3"'),
        ("big-model.size", 2.0, "size must be a whole number, got 2.0"),
        ("big-model.size", True, "size must be a whole number, got true"),
        ("scoring.quick", 1, "quick must be true or false, got 1"),
        ("scoring.mode", "medium", 'mode must be one of "fast", "slow", got "medium"'),
        ("scoring.mode", {"a": 1}, "scoring.mode is a value, not a section"),
        ("scoring.mode", "a\nb", "mode must be text on one line"),
        ("big-model.size", [1], "size must be a whole number, got [1]"),
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
        ("big-model.size", "3", 3),
        ("big-model.rate", "1e-3", 1e-3),
        ("scoring.quick", "true", True),
        ("scoring.mode", "slow", "slow"),
        ("where", "/a b", "/a b"),
    ],
)
def test_parse_text(key: str, text: str, value: Any) -> None:
    parsed = parse_text(Example, key, text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    ("key", "text"), [("big-model.size", "3.0"), ("scoring.quick", "yes"), ("big-model.rate", "x")]
)
def test_parse_text_refuses(key: str, text: str) -> None:
    with pytest.raises(InputError, match=f"--set: {key} must be .*, got '{text}'"):
        parse_text(Example, key, text)


def test_digest_covers_what_results_depend_on_and_nothing_else() -> None:
    base = Example()
    for key, default in to_flat(base).items():
        other = "else" if isinstance(default, str) else 1 if default != 1 else 2
        changed = with_keys(base, {key: True if isinstance(default, bool) else other})
        same = config_digest(base) == config_digest(changed)
        assert same == limits_of(Example)[key].may_change, key


def test_a_key_that_came_later_leaves_runs_of_before_as_they_are() -> None:
    @dataclass(frozen=True)
    class Before:
        rate: float = setting(0.5, "rate")

    @dataclass(frozen=True)
    class Now(Before):
        kind: str = setting("plain", "kind", added=True)

    assert config_digest(Now(rate=0.1)) == config_digest(Before(rate=0.1))
    assert config_digest(Now(rate=0.1, kind="other")) != config_digest(Before(rate=0.1))
    with pytest.raises(InputError, match="cannot resume with kind"):
        check_resumable(Now(), Now(kind="other"), "runs/x")


def test_resuming_with_other_settings_names_the_key() -> None:
    check_resumable(Example(num_rounds=3, where="a"), Example(num_rounds=9, where="b"), "runs/x")
    with pytest.raises(
        InputError, match=r"runs/x: cannot resume with big-model\.size = 5, .*made with 4"
    ):
        check_resumable(Example(), Example(big_model=Model(size=5)), "runs/x")


@pytest.mark.parametrize(
    ("schedule", "loss", "refused"),
    [("constant", "kl", False), ("linear", "kl", True), ("exponential", "kl", True), ("linear", "none", False)],
)  # fmt: skip
def test_a_schedule_over_all_rounds_keeps_their_number(
    schedule: str, loss: str, refused: bool
) -> None:
    made = changed(CDLConfig(), influence=schedule, influence_floor=0.1, loss=loss, num_rounds=2)
    check_resumable(made, replace(made, name="another"), "runs/x")
    longer = replace(made, num_rounds=4)
    if not refused:
        check_resumable(made, longer, "runs/x")
        return
    with pytest.raises(InputError) as caught:
        check_resumable(made, longer, "runs/x")
    assert str(caught.value) == (
        "runs/x: cannot resume with num-rounds = 4, the run was made with 2, over which objective.influence = "
        f'"{schedule}" is spread; put the old value back or start a new run'
    )


def test_fields_must_be_declared_with_setting() -> None:
    @dataclass(frozen=True)
    class Bad(RunSettings):
        naked: int = 3

    with pytest.raises(TypeError, match=r"Bad\.naked: declare"):
        limits_of(Bad)


def test_sections_do_not_nest_further() -> None:
    @dataclass(frozen=True)
    class Outer:
        inner: Model = section(Model)

    @dataclass(frozen=True)
    class Deep(RunSettings):
        outer: Outer = section(Outer)

    with pytest.raises(TypeError, match=r"Outer\.inner: declare"):
        limits_of(Deep)
