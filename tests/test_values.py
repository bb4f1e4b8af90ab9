"""Values in texts and tables, and values chosen by configuration: a name of the project's own, or `module:NAME`."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from fedsuite.averaging.robust import MERGE_RULES
from fedsuite.errors import InputError
from fedsuite.settings.values import (
    LONGEST_TEXT,
    Value,
    chosen,
    from_text,
    importing_only,
    is_number,
    of_type,
    shown,
    tried,
)

KEY = "merge-rule"


def test_a_name_of_the_table() -> None:
    assert chosen(KEY, "median", MERGE_RULES) is MERGE_RULES["median"]


def test_the_table_goes_first() -> None:
    assert chosen(KEY, "math:pi", {"math:pi": 3}) == 3


def test_a_value_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rules.py").write_text("BOTH = 'kept'\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert chosen(KEY, "mine.rules:BOTH", MERGE_RULES) == "kept"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("meddian", "unknown 'meddian'; did you mean 'median'? (or module:NAME of your own)"),
        (
            "zzz",
            "unknown 'zzz'; valid: mean, median, trimmed-mean, krum, multi-krum, bulyan",
        ),
        ("", "unknown ''; valid: mean, median"),
        (":", "unknown ':'"),
        (":mean", "unknown ':mean'"),
        ("math:", "unknown 'math:'"),
        ("math:tau_", "'math:tau_' cannot be imported (module 'math' has no attribute 'tau_')"),
        ("nowhere:x", "'nowhere:x' cannot be imported (No module named 'nowhere')"),
        ("nowhere.at.all:x", "cannot be imported (No module named 'nowhere')"),
        ("math.at:x", "cannot be imported"),
        ("fedsuite.nothing:x", "cannot be imported (No module named 'fedsuite.nothing')"),
    ],
)
def test_what_is_not_there_is_named_with_its_key(name: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        chosen(KEY, name, MERGE_RULES)
    line = str(caught.value)
    assert line.startswith(f"{KEY}: ") and complaint in line and "\n" not in line


def test_the_cure_for_a_module_that_is_not_there() -> None:
    with pytest.raises(InputError, match="install its package or set PYTHONPATH"):
        chosen(KEY, "nowhere:x", {})


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (
            "import a_library_that_is_not_there\n",
            ModuleNotFoundError,
            "a_library_that_is_not_there",
        ),
        ("1 / 0\n", ZeroDivisionError, "division"),
    ],
)
def test_what_goes_wrong_inside_a_module_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: type[Exception], words: str
) -> None:
    (tmp_path / "broken_rules.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error, match=words):
        chosen(KEY, "broken_rules:X", {})
    assert "broken_rules" not in sys.modules


# --- what is chosen, tried and imported ---------------------------------------------------------


def test_a_function_of_ones_own_must_take_what_it_is_given() -> None:
    assert chosen(KEY, "math:pow", {}, ("base", "exponent")) is math.pow
    for name, kind in (("math:pow", "builtin_function_or_method"), ("math:pi", "float")):
        with pytest.raises(InputError) as caught:
            chosen(KEY, name, {}, ("arrays", "weights", "rng"))
        line = (
            f'{KEY}: "{name}" is a {kind}, expected a Python function of (arrays, weights, rng) ('
        )
        assert str(caught.value).startswith(line) and "; name another one" in str(caught.value)
    # What the project's own table holds is not asked.
    assert chosen(KEY, "median", MERGE_RULES, ("nothing",)) is MERGE_RULES["median"]


def test_only_what_is_allowed_is_imported_meanwhile() -> None:
    with importing_only(["math:pi", "math:e"]):
        assert chosen(KEY, "math:pi", {}) == math.pi
        assert chosen(KEY, "math:tau", {"math:tau": 3}) == 3  # nothing is imported
        with pytest.raises(InputError, match=r'wants "math:tau".*allowed: math:pi, math:e'):
            chosen(KEY, "math:tau", {})
        with importing_only([]), pytest.raises(InputError, match="not imported here"):
            chosen(KEY, "math:pi", {})
        with pytest.raises(InputError, match="unknown 'pi'"):
            chosen(KEY, "pi", {})
    assert chosen(KEY, "math:tau", {}) == math.tau


def test_what_fails_when_it_is_tried_is_an_input_error() -> None:
    with pytest.raises(InputError) as caught, tried(KEY, "mine:rule"):
        raise ValueError("two\nlines")
    assert str(caught.value) == (
        f'{KEY}: "mine:rule" fails when it is tried on tiny arrays (ValueError: two lines); correct it'
    )
    with pytest.raises(InputError, match=r"^as it stands$"), tried(KEY, "mine:rule"):
        raise InputError("as it stands")
    with pytest.raises(KeyboardInterrupt), tried(KEY, "mine:rule"):
        raise KeyboardInterrupt


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("true", bool, True), ("false", bool, False), ("-3", int, -3), ("1e-3", float, 0.001), ("7", float, 7.0),
        ("7", str, "7"), ("", str, ""),
    ],
)  # fmt: skip
def test_values_of_texts(text: str, kind: type, value: Value) -> None:
    found = from_text(text, kind)
    assert found == value and type(found) is kind


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("True", bool, "true or false"), ("1", bool, "true or false"), ("1.0", int, "a whole number"),
        ("", int, "a whole number"), ("x", float, "a number"),
    ],
)  # fmt: skip
def test_texts_without_a_value(text: str, kind: type, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{expected}$"):
        from_text(text, kind)


@pytest.mark.parametrize(
    ("raw", "kind", "expected"),
    [
        (True, int, "a whole number"), (1, bool, "true or false"), (True, float, "a number"), (1.0, int, "a whole number"),
        ("1", float, "a number"), (1, str, "text"), (None, str, "text"), (math.nan, float, "a finite number"),
        (-math.inf, float, "a finite number"), (10**400, float, "a finite number"),
        *((text, str, f"text on one line, at most {LONGEST_TEXT} characters long")
          for text in ("a\nb", "\x7f", "\x9b", "\u2028", "\ud800", "a" * (LONGEST_TEXT + 1))),
    ],
)  # fmt: skip
def test_values_of_tables_that_are_none(raw: object, kind: type, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{expected}$"):
        of_type(raw, kind)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (True, bool),
        (-3, int),
        (10**400, int),
        (0.5, float),
        ("ü ~", str),
        ("a" * LONGEST_TEXT, str),
    ],
)
def test_values_of_tables(raw: Any, kind: type) -> None:
    assert of_type(raw, kind) == raw and type(of_type(raw, kind)) is kind
    assert of_type(3, float) == 3.0 and type(of_type(3, float)) is float


def test_values_as_they_are_shown() -> None:
    assert [shown(v) for v in (True, False, 'a "b"', "ü", 0.5, [1])] == [
        "true", "false", r'"a \"b\""', '"ü"', "0.5", "[1]"
    ]  # fmt: skip
    assert shown(10**5000) == "a number of thousands of digits"
    assert len(shown("a" * 1000)) < 120 > len(shown(10**1000)) and "\n" not in shown([["a\nb"]])


def test_what_reads_as_a_number() -> None:
    assert all(map(is_number, ("1", " -2.5e3 ", 7, 0.5, "nan", "inf", True)))
    assert not any(map(is_number, ("", "1,5", "one", None, [1], 10**400)))
