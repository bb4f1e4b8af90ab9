"""`fedsuite init`: what it writes has every key, plays, and nothing is written over."""

import re
import tomllib
from pathlib import Path

import pytest

from fedsuite.history import read_rows
from fedsuite.settings.config import flatten, read_config, to_flat
from simulations.app.key_rows import key_rows
from simulations.shipped import FOLDER
from simulations.shipped.own_config import template
from simulations.systems import BUILT_IN, load_system
from tests.mistakes.refusing import Call, names_of, said

KEY = re.compile(r"^#([a-z0-9-]+ = )", re.MULTILINE)


@pytest.mark.parametrize("system", [*BUILT_IN, "tests.toy:SYSTEM"])
def test_every_key_stands_there_at_its_default(system: str) -> None:
    cls = load_system(system).config_class
    text = template(system)
    assert to_flat(read_config(cls, tomllib.loads(text))) == {**to_flat(cls()), "system": system}
    table = tomllib.loads(KEY.sub(r"\1", text))
    assert to_flat(read_config(cls, table)) == {**to_flat(cls()), "system": system}
    named = set(flatten(table))
    assert named == {row.key for row in key_rows(system)} - {"resume"}
    assert max(map(len, text.splitlines())) <= 120


def test_what_it_writes_plays(call: Call, tmp_path: Path) -> None:
    assert call("init", "mine", "--system", "tests.toy:SYSTEM", engine=False)[0] == 0
    text = (tmp_path / "mine.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace("#num-rounds = 10", "num-rounds = 2"))
    assert call("run", "mine.toml", "--set", "name=x")[0] == 0
    assert [r["round"] for r in read_rows(tmp_path / "runs/x/history.jsonl")][-1] == 2


def test_the_command_that_it_names_is_quoted(call: Call, tmp_path: Path) -> None:
    (tmp_path / "own dir").mkdir()
    code, out, _ = call("init", "own dir/mine", engine=False)
    assert (code, out) == (0, "own dir/mine.toml: play it with: fedsuite run 'own dir/mine.toml'\n")


def test_a_copy_of_a_shipped_one(call: Call, tmp_path: Path) -> None:
    assert call("init", "mine.toml", "--like", "cdl/table2", engine=False)[0] == 0
    shipped = FOLDER / "cdl" / "table2.toml"
    assert (tmp_path / "mine.toml").read_bytes() == shipped.read_bytes()
    (tmp_path / "own.toml").write_text("seed = 3\n")
    assert call("init", "again", "--like", "own.toml", engine=False)[0] == 0
    assert (tmp_path / "again.toml").read_text() == "seed = 3\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mine",), "mine.toml: is there already, nothing in it was touched"),
        (("cdl/quickstart",), "a shipped configuration is called so"),
        (("a/b",), "a/b.toml: No such file or directory"),
        (("my ü",), "'my ü': the file's name must be letters, digits, '.', '_' and '-', starting"),
        (("",), "'': the file's name must be letters"),
        (("..",), "'..': the file's name must be letters"),
        (("a/.toml",), "'a/.toml': the file's name must be letters"),
        (("new", "--system", "vln"), "system: unknown 'vln'"),
        (("new", "--like", "cdl/quick"), "did you mean cdl/quickstart"),
        (("new", "--like", "cdl/quickstart", "--system", "cdl"), "not both"),
    ],
)
def test_what_it_refuses(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "mine.toml").write_text("mine")
    assert words in said(call("init", *arguments, engine=False))
    assert names_of(tmp_path) == ["mine.toml"]
    assert (tmp_path / "mine.toml").read_text() == "mine"
