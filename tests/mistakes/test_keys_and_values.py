"""Every key of every system: a wrong type, a value outside, a misspelt name and another system's key are refused."""

from pathlib import Path
from typing import Any

import pytest

from fedsuite.settings.config import Limits, limits_of, types_of
from simulations.systems import load_system
from tests.mistakes.refusing import SYSTEMS, Call, literal, refused, toml

DIGITS = 10**400
WRONG: dict[type, tuple[Any, ...]] = {
    bool: (1, "true"), int: (1.5, "1", True), float: ("0.5", False), str: (7, True),
}  # fmt: skip
Case = tuple[str, str, Any]  # system, key, value


def _limits() -> list[tuple[str, str, Limits, type]]:
    found = []
    for system in SYSTEMS:
        cls = load_system(system).config_class
        types = types_of(cls)
        found += [(system, key, own, types[key]) for key, own in limits_of(cls).items()]
    return found


def _wrong_types() -> list[Case]:
    """Of every key one wrong type, another one from key to key."""
    rows = [(s, k, WRONG[kind]) for s, k, _, kind in _limits() if k not in ("system", "resume")]
    return [(s, k, values[i % len(values)]) for i, (s, k, values) in enumerate(rows)][::2]


def _outside() -> list[Case]:
    """Beyond one bound of every key, the upper one and the lower one by turns; of some keys far beyond it."""
    found: list[Case] = []
    for i, (system, key, own, kind) in enumerate(_limits()):
        if own.choices is not None:
            found.append((system, key, "nonsense" if kind is str else 999))
        elif kind in (int, float):
            sign, bound = list(own.bounds().items())[i % 2]
            beyond = bound if sign in "<>" else bound + (1 if sign == "<=" else -1)
            found.append((system, key, kind(beyond) if i % 5 else DIGITS))
    return found


def _id(case: Case) -> str:
    system, key, value = case
    return f"{system} {key} = {'10^400' if value == DIGITS else literal(value)}"


@pytest.mark.parametrize("case", [*_wrong_types(), *_outside()], ids=_id)
def test_a_value_that_a_key_cannot_have(call: Call, tmp_path: Path, case: Case) -> None:
    system, key, value = case
    line = refused(call, tmp_path, toml(system, {key: value}))
    assert "x.toml: " in line and f" {key} must be " in line and ", got " in line


def _misspelt() -> list[tuple[str, str, str]]:
    """Of every third key a letter lost; of every third two swapped; the others under another section."""
    found = []
    for i, (system, key, *_) in enumerate(_limits()):
        head, dot, last = key.rpartition(".")
        spoilt = (last[:-1], last[1] + last[0] + last[2:], f"{last}s")[i % 3]
        wrong = f"{head}{dot}{spoilt}"
        if len(last) > 4 and wrong not in limits_of(load_system(system).config_class):
            found.append((system, wrong, last))
    return found[::3]


@pytest.mark.parametrize(("system", "key", "meant"), _misspelt())
def test_a_misspelt_key(call: Call, tmp_path: Path, system: str, key: str, meant: str) -> None:
    line = refused(call, tmp_path, toml(system, {key: 1}))
    assert f"unknown key {key!r}" in line or key == "system"
    assert meant in line


def _foreign() -> list[tuple[str, str]]:
    """Keys that only another system has, each given to the next one."""
    keys = {s: [k for t, k, *_ in _limits() if t == s] for s in SYSTEMS}
    pairs = zip(SYSTEMS, (*SYSTEMS[1:], SYSTEMS[0]), strict=True)
    return [(other, k) for own, other in pairs for k in keys[own] if k not in keys[other]][::6]


@pytest.mark.parametrize(("system", "key"), _foreign())
def test_a_key_of_another_system(call: Call, tmp_path: Path, system: str, key: str) -> None:
    line = refused(call, tmp_path, toml(system, {key: 1}))
    assert ("x.toml: unknown " in line and key.rpartition(".")[2] in line) or "section" in line


@pytest.mark.parametrize(
    ("system", "key"), [(s, k) for s, k, _, kind in _limits() if kind in (int, float)][::16]
)
@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000, "", "1e999", "nan", "one", "0x10", "1,5"])
def test_a_number_on_the_command_line_that_is_none(
    call: Call, tmp_path: Path, system: str, key: str, text: str
) -> None:
    line = refused(call, tmp_path, toml(system, {}), "--set", f"{key}={text}")
    assert f"--set: {key} must be " in line


def test_every_number_has_an_upper_and_a_lower_limit() -> None:
    """The sizes among them lower ones than the seeds."""
    for system, key, own, kind in _limits():
        if kind in (int, float) and own.choices is None:
            signs = own.bounds().keys()
            assert signs & {"<", "<="} and signs & {">", ">="}, (system, key)
            largest = own.le if own.lt is None else own.lt
            assert largest is not None
            assert largest <= (2**63 if "seed" in key else 10**15)
            if key.endswith("-size"):
                assert largest <= 10**6, (system, key)
