"""Values chosen by configuration: a name of the project's own, or anybody's by module and name."""

import sys
from pathlib import Path

import pytest

from fedsuite.averaging.robust import MERGE_RULES
from fedsuite.errors import InputError
from fedsuite.settings.values import chosen

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
