"""Functions of one's own that cannot take what they are called with, and federations too small for what they are to do:
refused before anything is trained.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedsuite.averaging.robust import MERGE_RULES
from fedsuite.errors import InputError
from fedsuite.roster.members import Member, Roster
from fedsuite.settings.config import read_config
from simulations.systems import load_system
from tests.cdl_runs import write_drives
from tests.conftest import write_data
from tests.mistakes.refusing import Call, names_of, refused, said, toml

MINE = """
from fedsuite.averaging.merging import MergeRule

def nothing(): pass
def one(a): return 3
def four(a, b, c, d): pass
def five(a, b, c, d, e): pass
def named(*, a, b, c, d): pass
def angry(strength): raise RuntimeError("no \\x1b[31m")
def furious(a, b, c, d): raise RuntimeError("no \\x1b[31m")
FEW = MergeRule(nothing)
NONE = MergeRule(None)
COUNT = MergeRule(four, 3)
FOUR = MergeRule(four)
FIVE = MergeRule(five)
class Reader:
    KIND = "mine"
    matches = 3
    def read(self, folder): pass
READER = Reader()
"""
SEAMS: Mapping[str, tuple[str, ...]] = {
    "fedvln federation.server-optimizer": (
        "math:pi", "os:system", "builtins:max", "math:hypot", "json:JSONDecodeError", "mine:nothing", "mine:one",
        "mine:five", "mine:named", "os.path:sep",
    ),
    "fedvln agent.decoder": (
        "math:pi", "os:system", "mine:one", "mine:four", "mine:angry", "mine:nothing", "builtins:str",
    ),
    "fedvln federation.participation": (
        "math:pi", "os:system", "mine:nothing", "mine:one", "mine:four", "mine:named", "mine:FEW",
    ),
    "fedvln federation.merge": (
        "math:pi", "os:system", "builtins:print", "mine:four", "mine:FEW", "mine:NONE", "mine:COUNT",
    ),
    "fedvln federation.local-penalty": (
        "math:pi", "os:system", "mine:nothing", "mine:four", "mine:angry", "mine:one", "math:sqrt", "builtins:str",
    ),
    "cdl objective.loss": ("math:pi", "os:system", "mine:one", "mine:FEW", "mine:nothing"),
    "cdl network.model": (
        "math:pi", "os:system", "mine:four", "mine:five", "mine:nothing", "mine:named", "mine:furious", "mine:FEW",
    ),
    "cdl federation.merge": ("math:pi", "os:system", "builtins:max", "mine:one", "mine:five", "mine:named"),
}  # fmt: skip


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of one's own."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    monkeypatch.setattr("sys.dont_write_bytecode", True)


@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place, names in SEAMS.items() for name in names]
)
def test_what_cannot_be_called_so(call: Call, mine: None, tmp_path: Path, place: str, name: str) -> None:  # fmt: skip
    system, key = place.split()
    more = {"data.num-silos": 3} if system == "cdl" else {}
    line = refused(call, tmp_path, toml(system, {key: name, **more}))
    assert (
        f"{key}: " in line
        and name in line
        and any(w in line for w in ("expected a", "penalty", "tried on"))
    )


@pytest.mark.parametrize("name", ["math:pi", "os:system", "mine:READER", "mine:one"])
def test_a_reader_that_is_none(call: Call, mine: None, tmp_path: Path, name: str) -> None:
    write_drives(tmp_path / "drives", frames=4)
    line = refused(call, tmp_path, toml("cdl", {"data.dir": "drives", "data.kind": name}))
    assert f'data.kind: "{name}.matches" is a ' in line


@pytest.mark.parametrize("name", ["math:pi", "os:system", "mine:one", "builtins:max"])
def test_an_export_that_is_none(call: Call, mine: None, tmp_path: Path, name: str) -> None:
    line = said(call("export", ".", "--to", name, engine=False))
    assert f'--to: "{name}" is a ' in line and "(runs, output)" in line


def test_functions_of_ones_own_that_fit_are_taken(call: Call, mine: None, tmp_path: Path) -> None:
    own = load_system("fedvln")
    keys: dict[str, Any] = {"federation.server-optimizer": "mine:four"}
    keys["federation.local-penalty"] = "fedsuite.averaging.penalties:Proximal"
    own.validate(read_config(own.config_class, keys))
    for rule in ("mine:FOUR", "mine:FIVE"):
        keys["federation.merge"] = rule
        own.validate(read_config(own.config_class, {**keys, "federation.aggregation": "parallel"}))
    keys = {"federation.merge": "mine:four", "data.num-silos": 3}
    load_system("cdl").validate(read_config(load_system("cdl").config_class, keys))


def roster_of(houses: int, role: str = "seen") -> Roster:
    """Houses with ten instructions each."""
    details = {"houses": ["h"], "train": [10], "val_seen": [2], "val_unseen": [2]}
    members = [Member(f"h{i}", role, 10, {**details, "houses": [f"h{i}"]}) for i in range(houses)]
    return Roster(tuple(members), {"feature-size": 8}, ("<PAD>", "<UNK>", "walk", "<EOS>", "<BOS>"))


RULES = [name for name, rule in MERGE_RULES.items() if rule.least(1) > 1]
TINY = {
    "agent.decoder": "prompted", "agent.hidden-size": 8, "agent.word-embedding-size": 4,
    "agent.action-embedding-size": 4,
}  # fmt: skip


def strategy_of(houses: int, **federation: Any) -> object:
    own = load_system("fedvln")
    keys = {f"federation.{key.replace('_', '-')}": value for key, value in federation.items()}
    settings = read_config(own.config_class, {**TINY, **keys})
    own.validate(settings)
    return own.make_strategy(settings, roster_of(houses))


@pytest.mark.parametrize("rate", [1.0, 0.5])
@pytest.mark.parametrize("name", RULES)
def test_a_rule_gets_as_many_houses_as_it_needs(name: str, rate: float) -> None:
    """The bound is exact, by the houses of a round."""
    least = MERGE_RULES[name].least(2)
    enough = least if rate == 1.0 else 2 * least
    own = {"merge": name, "participation_rate": rate, "tolerated": 2}
    strategy_of(enough, **own)
    with pytest.raises(InputError) as refusal:
        strategy_of(enough - 1, **own)
    line = str(refusal.value)
    assert f"federation.merge: merge rule {name}: {least - 1} changes to merge" in line
    assert f"it needs {least}" in line and "\n" not in line


def test_bounds_on_lengths_and_chains_count_too() -> None:
    strategy_of(3, participation_rate=1.0, update_bound=2.0)
    with pytest.raises(InputError, match=r"update-bound it needs 3"):
        strategy_of(2, participation_rate=1.0, update_bound=2.0)
    chains = {"merge": "median", "tolerated": 1, "participation_rate": 1.0, "group_size": 2}
    strategy_of(5, **chains)
    with pytest.raises(InputError, match="2 changes to merge"):
        strategy_of(4, **chains)
    published = {"merge": "median", "tolerated": 1, "participation": "published"}
    with pytest.raises(InputError, match="1 changes to merge"):
        strategy_of(9, participation_rate=0.2, **published)


@pytest.mark.parametrize("name", RULES)
def test_too_few_houses_are_refused_before_training(call: Call, tmp_path: Path, name: str) -> None:
    data = write_data(tmp_path / "data")
    keys = {
        "data.dir": str(data), "data.features": str(data / "features.tsv"), "federation.merge": name,
        "federation.tolerated": 1, "federation.participation-rate": 1.0, "data.min-word-count": 1, **TINY,
    }  # fmt: skip
    (tmp_path / "x.toml").write_text(toml("fedvln", keys))
    line = said(call("run", "x.toml"))
    assert f"federation.merge: merge rule {name}: " in line and " changes to merge" in line
    assert not [n for n in names_of(tmp_path) if n.startswith("runs")]


def test_silos_without_enough_neighbours(call: Call, tmp_path: Path) -> None:
    """Also where they are counted only when their drives are read."""
    write_drives(tmp_path / "drives", frames=12)
    keys = {
        "federation.merge": "trimmed-mean", "federation.tolerated": 9, "data.dir": "drives", "data.image-size": 40,
    }  # fmt: skip
    (tmp_path / "x.toml").write_text(toml("cdl", keys))
    assert "federation.tolerated: 9, but trimmed-mean" in said(call("run", "x.toml"))
    assert not [n for n in names_of(tmp_path) if n.startswith("runs")]


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        ("0,1", "all 2 clients that train are hostile"),
        ("0,1,1,0", "all 2 clients that train are hostile"),
        ("2", "no partition 2 in this run; expected 0 .. 1"),
    ],
)
def test_who_may_be_hostile(call: Call, tmp_path: Path, clients: str, words: str) -> None:
    keys = {
        "data.num-silos": 2,
        "data.train-frames": 2,
        "data.test-frames": 2,
        "data.image-size": 40,
    }
    (tmp_path / "x.toml").write_text(toml("cdl", {**keys, "sabotage.clients": clients}))
    assert f"sabotage.clients: {words}" in said(call("run", "x.toml"))
    assert not [n for n in names_of(tmp_path) if n.startswith("runs")]
    own = load_system("fedvln")
    settings = read_config(own.config_class, {**TINY, "sabotage.clients": clients})
    with pytest.raises(InputError, match=f"sabotage.clients: {words}"):
        own.make_strategy(settings, roster_of(2))
