"""What a run is said to take on real nodes is what it takes: messages one after another, counted in process."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import RunSettings, read_config
from simulations.app.message_costs import (
    IDLE_POLL_S,
    LINK_S,
    NODE_S,
    QUESTION_S,
    WAITS_S,
    Deployment,
    StepCosts,
    duration,
    long_run,
    messages_of,
)
from simulations.deploy.check.cost import cost_table
from simulations.engines.inprocess import InProcessGrid
from simulations.systems import load_system
from tests.golden.runs import _NAMING_A_RUN, RUNS, Plays

FILES = Path(__file__).parents[2] / "simulations"
EXACT = (
    "vln-train-parallel", "vln-train-sequential", "vln-train-centralised", "vln-train-local-only", "vln-train-shared",
    "vln-speaker", "vln-augment", "vln-explore-centralised", "vln-explore-env-based", "vln-explore-fed-lan-seen",
    "cdl-ring", "cdl-ring-two-mixings", "cdl-ring-cross", "cdl-pooled",
    "rl-dqn-alpha", "rl-fcn-full", "rl-random",
)  # fmt: skip
ABOUT = ("rl-alternating", "rl-joint", "rl-three-parties", "rl-text")


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Plays:
    """Of this file alone: messages are counted while a run is carried out."""
    return Plays(tmp_path_factory.mktemp("plays"), cache)


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A letter for each message sent and each look for replies: an exchange is what lies between sending and sending."""
    seen: list[str] = []
    push, pull = InProcessGrid.push_messages, InProcessGrid.pull_messages

    def pushed(grid: InProcessGrid, messages: Iterable[Any]) -> Iterable[str]:
        seen.append(">")
        return push(grid, messages)

    def pulled(grid: InProcessGrid, message_ids: Iterable[str]) -> Iterable[Any]:
        seen.append("<")
        return pull(grid, message_ids)

    monkeypatch.setattr(InProcessGrid, "push_messages", pushed)
    monkeypatch.setattr(InProcessGrid, "pull_messages", pulled)
    return seen


def said_and_counted(name: str, plays: Plays, seen: list[str]) -> tuple[int, int]:
    for key in _NAMING_A_RUN:
        if key in RUNS[name]:
            plays.folder(str(RUNS[name][key]))
    seen.clear()
    folder = plays.folder(name)
    system = load_system(str(RUNS[name]["system"]))
    settings = read_config(system.config_class, read_stored_config(RunFolder(folder)), name)
    assert system.costs is not None
    costs = system.costs(settings, read_roster(folder / ROSTER))
    assert costs.exact == (name in EXACT)
    return messages_of(settings, costs), "".join(seen).count("<>") + 1


@pytest.mark.parametrize("name", EXACT)
def test_the_number_is_the_real_one(name: str, plays: Plays, exchanges: list[str]) -> None:
    said, counted = said_and_counted(name, plays, exchanges)
    assert said == counted


@pytest.mark.parametrize("name", ABOUT)
def test_where_episodes_end_at_random_it_is_about_that(
    name: str, plays: Plays, exchanges: list[str]
) -> None:
    said, counted = said_and_counted(name, plays, exchanges)
    assert 0.95 * counted <= said <= 1.5 * counted


def test_rounds_that_are_evaluated() -> None:
    costs = StepCosts(lambda number: number, start=1, first=1, evaluate=10, close=100, finish=1000)
    every = {1: 30, 2: 20, 3: 10, 0: 10}
    for evaluate_every, evaluations in every.items():
        settings = RunSettings(num_rounds=3, evaluate_every=evaluate_every)
        assert messages_of(settings, costs) == 1 + 1 + 1 + 6 + 300 + 1000 + evaluations


def test_a_run_of_more_than_an_hour_is_told_with_the_cure() -> None:
    costs = StepCosts(lambda _: 1, evaluate=0, exact=False, cure="fewer rounds")
    assert long_run(RunSettings(num_rounds=598), costs) == ""
    line = long_run(RunSettings(num_rounds=1198), costs)
    assert line == (
        "about 1,200 messages one after another, at 6 s each 2.0 h, with warm clients 60.0 min, and computing comes on top; "
        "fewer: fewer rounds"
    )
    assert [duration(s) for s in (30, 600, 7200, 864_000)] == [
        "30 s",
        "10.0 min",
        "2.0 h",
        "10.0 days",
    ]


def test_many_nodes_make_an_exchange_longer() -> None:
    """On one machine its cores are shared; on machines of their own the SuperLink alone handles messages in turn."""
    few, many = (Deployment(n, cores=2).exchange_s(warm=True) for n in (3, 12))
    assert few == pytest.approx(WAITS_S + 3 * (LINK_S + NODE_S) / 2, rel=0.03)
    assert many - WAITS_S == pytest.approx(4 * (few - WAITS_S))
    apart = [Deployment(n).exchange_s(warm=True) for n in (3, 12)]
    assert apart[1] - apart[0] == pytest.approx(9 * Deployment(1).link_s)
    assert Deployment(12, cores=64).exchange_s(True) >= WAITS_S + Deployment(12).link_s
    assert Deployment(3).exchange_s(False) > Deployment(3).exchange_s(True)
    assert Deployment(3, 43.0).exchange_s(True) > Deployment(3, 0.4).exchange_s(True)
    assert Deployment(12).idle_share == 4 * Deployment(3).idle_share
    asked = 12 * 3600 / IDLE_POLL_S  # times an hour
    assert Deployment(12).idle_share * 3600 == pytest.approx(asked * QUESTION_S)


def test_a_table_for_so_many_nodes() -> None:
    known = Deployment(12, 43.0, 2)
    *table, _, line = cost_table([FILES / "fedvln" / "three-houses.toml"], (), known)
    warm_s = known.exchange_s(warm=True)
    assert f"warm, {warm_s:.3g} s |" in table[0]
    assert table[2].endswith(f" {duration(8 * warm_s)} |") and "| 8 |" in table[2]
    assert line.startswith("An exchange with 12 nodes, 43 MB each way: ")
    costs, settings = StepCosts(lambda _: 1, evaluate=0), RunSettings(num_rounds=400)
    assert long_run(settings, costs) == ""
    assert f"at {Deployment(12).exchange_s(False):.2g} s each" in long_run(settings, costs, 12)


def test_known_runs() -> None:
    files = [FILES / "fedvln" / name for name in ("r2r-sequential.toml", "r2r-envdrop.toml")]
    rows = [line.split(" | ")[2] for line in [*cost_table(files)][2:]]
    assert rows == [str(1 + 1 + 60 * 12 + 12), str(1 + 1 + 365 + 73 + 1)]


def test_the_tables_in_the_document() -> None:
    """A shipped configuration is one that its readers know the price of."""
    lines = (FILES.parent / "docs" / "deployment-costs.md").read_text(encoding="utf-8").splitlines()
    files = sorted(FILES.glob("*/*.toml"))
    assert len(files) > 30
    apart = [f"federation.{key}=1" for key in ("silos-per-client", "mixings-per-round")]
    wanted = list(cost_table(files))
    for name, rounds, every in (("quickstart", 300, 20), ("full", 3600, 200)):
        changes = [*apart, f"num-rounds={rounds}", f"evaluate-every={every}"]
        wanted += list(cost_table([FILES / "cdl" / f"{name}.toml"], changes))[2:]
    missing = [line for line in wanted if line not in lines]
    assert missing == []
