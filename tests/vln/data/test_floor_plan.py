"""Plans of houses: storeys by height alone, and what the generator knows of its own."""

import numpy as np
import pytest

from fedsuite.vln.data.floor_plan import floor_plan, storeys_of
from fedsuite.vln.data.graph import NavGraph
from fedsuite.vln.generator.house_plan import House, draw_house
from fedsuite.vln.generator.houses import HouseSettings
from fedsuite.vln.generator.panoramas import LANDING

SETTINGS = HouseSettings(num_seen=8, num_unseen=1)


def graph_of(house: House) -> NavGraph:
    return NavGraph(house.scan, house.viewpoint_ids, house.position_m, house.included, house.edge)


@pytest.fixture(scope="module")
def tall() -> House:
    """A generated house with stairs."""
    houses = (draw_house(SETTINGS.seed, n) for n in range(SETTINGS.num_seen))
    return next(h for h in houses if h.floor.max() > 0)


def test_storeys_are_the_generators(tall):
    found = storeys_of(tall.position_m, tall.edge)
    level = tall.stairs != LANDING  # a landing is half-way
    assert found[level].tolist() == tall.floor[level].tolist()


def test_one_storey_and_none():
    flat = np.random.default_rng(0).normal(0, 0.3, (20, 3))
    edge = ~np.eye(20, dtype=bool)
    assert set(storeys_of(flat, edge)) == {0}
    high = flat + np.array([0, 0, 40])  # of viewpoints that nobody can reach
    edge[:, 19] = edge[19] = False
    assert set(storeys_of(np.vstack([flat[:19], high[19:]]), edge)) == {0}
    assert set(storeys_of(flat, edge & False)) == {0}


def test_a_generated_house_has_rooms(tall):
    plan = floor_plan(graph_of(tall), SETTINGS)
    assert plan.storey.tolist() == tall.floor.tolist() and plan.rooms == tall.rooms
    assert len(plan.walls) == tall.floor.max() + 1
    for row, room in enumerate(tall.room):
        assert plan.room_name(row) == tall.rooms[room].kind


def test_a_recorded_house_has_none(tall):
    others = HouseSettings(seed=1, num_seen=1, num_unseen=1)
    for generated in (None, others):
        plan = floor_plan(graph_of(tall), generated)
        assert plan.rooms == () and plan.walls == () and plan.room_name(0) == ""
        assert plan.storey.max() == tall.floor.max()
