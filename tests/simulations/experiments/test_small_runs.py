"""Where clients run if nobody says: a run of which Ray's start would be most stays in this process."""

from pathlib import Path

import pytest

from fedsuite.roster.members import Member, Roster
from simulations.engines.ray.placement import Resources
from simulations.experiments.launching import Engine, way_of
from simulations.experiments.plan import Plan, plan_experiment
from simulations.experiments.request import Request

HOUSES = Roster(tuple(Member(f"house-{n}", "seen", 60) for n in range(16)), {"feature-size": 64})
SILOS = Roster(tuple(Member(f"silo-{n}", "silo", 200) for n in range(11)), {"silos": 11})


def plan_of(name: str, folder: Path, *changes: str) -> Plan:
    """Of the last run of a shipped configuration."""
    request = Request(Path(name), [f"results-dir={folder}", *changes], dry=True)
    return [*plan_experiment(request).plans.values()][-1]


@pytest.mark.parametrize(
    ("name", "changes", "engine"),
    [
        ("fedvln/three-houses", ["num-rounds=1"], "inprocess"),
        ("fedvln/three-houses", ["num-rounds=100"], "ray"),
        ("fedvln/three-houses", ["agent.hidden-size=512"], "ray"),
        ("fedvln/quickstart", [], "ray"),
        ("cdl/quickstart", ["num-rounds=1", "federation.mixings-per-round=1"], "inprocess"),
        ("cdl/quickstart", [], "ray"),
        ("fedrl/gridworld-8", [], "inprocess"),
    ],
)
def test_the_engine_suits_what_is_to_be_computed(
    name: str, changes: list[str], engine: str, tmp_path: Path
) -> None:
    plan = plan_of(name, tmp_path, *changes)
    roster = SILOS if name.startswith("cdl") else HOUSES
    way = way_of("auto", plan.system.engine, Resources(), "")
    assert way.suited(plan, roster).engine == engine
    told = [line for line in way.remarks(plan, roster) if line.startswith("in this process")]
    assert len(told) == (engine == "inprocess" != plan.system.engine)


@pytest.mark.parametrize(
    ("engine", "resources"), [("ray", Resources()), ("auto", Resources(workers=2))]
)
def test_who_asks_for_workers_gets_them(
    engine: Engine, resources: Resources, tmp_path: Path
) -> None:
    plan = plan_of("fedvln/three-houses", tmp_path, "num-rounds=1")
    way = way_of(engine, plan.system.engine, resources, "")
    assert way.suited(plan, HOUSES).engine == "ray"
