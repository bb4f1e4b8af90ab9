"""View features of generated houses: they show what is there, and each house looks its own way."""

import numpy as np
import pytest

from fedsuite.randomness import rng_for
from fedsuite.vln.generator.catalog import KIND_INDEX, KINDS, ROOM_KINDS
from fedsuite.vln.generator.house_plan import House, draw_house
from fedsuite.vln.generator.views import house_views, meaning_vectors, object_weights, room_weights

pytestmark = pytest.mark.slow

WIDTH = 64
Probe = tuple[np.ndarray, np.ndarray, np.ndarray]  # features [n, F], kind [n], panorama [n]


@pytest.fixture(scope="module")
def plans() -> list[House]:
    return [draw_house(0, n) for n in range(8)]


def close_objects(house: House, number: int, style: float) -> Probe:
    """Views filled by one object, with its kind."""
    views = house_views(house, rng_for(0, "test views", 0, number), WIDTH, style)
    weight = object_weights(house)
    chosen = (weight.max(-1) > 0.6) & house.included[:, None]
    kind = np.array([t.kind for t in house.things])[weight.argmax(-1)]
    return views[chosen], kind[chosen], np.nonzero(chosen)[0]


def fitted(features: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Ridge regression to one-hot kinds, [F + 1, kinds]."""
    x = np.hstack([features, np.ones((len(features), 1))])
    return np.linalg.solve(x.T @ x + 10 * np.eye(x.shape[1]), x.T @ np.eye(len(KINDS))[kind])


def accuracy(probe: np.ndarray, features: np.ndarray, kind: np.ndarray) -> float:
    x = np.hstack([features, np.ones((len(features), 1))])
    return float(((x @ probe).argmax(1) == kind).mean())


def probe_accuracy(plans: list[House], style: float) -> tuple[float, float]:
    """Mean accuracy of probes fitted to one house: on its other panoramas, and on the other houses."""
    data = [close_objects(h, n, style) for n, h in enumerate(plans)]
    own, other = [], []
    for n, (x, kind, panorama) in enumerate(data):
        train = panorama % 4 != 0
        probe = fitted(x[train], kind[train])
        own.append(accuracy(probe, x[~train], kind[~train]))
        other += [accuracy(probe, *d[:2]) for m, d in enumerate(data) if m != n]
    return float(np.mean(own)), float(np.mean(other))


def test_meanings_are_fixed_and_well_separated() -> None:
    vectors = np.concatenate(list(meaning_vectors(WIDTH).values()))
    overlap = vectors @ vectors.T
    np.testing.assert_allclose(np.diag(overlap), 1)
    assert np.abs(overlap - np.eye(len(overlap))).max() < 0.2
    np.testing.assert_array_equal(vectors, np.concatenate(list(meaning_vectors(WIDTH).values())))


@pytest.mark.parametrize("width", [8, 200])
def test_any_width_works(plans: list[House], width: int) -> None:
    views = house_views(plans[0], rng_for(0, "test views"), width)
    assert views.shape == (len(plans[0].position_m), 36, width)
    assert np.isfinite(views).all()
    assert 0.3 < np.abs(views[plans[0].included]).mean() < 1.5


def test_views_look_where_the_objects_are(plans: list[House]) -> None:
    house = plans[0]
    weight = object_weights(house)
    assert not weight[np.broadcast_to(~house.sees[:, None], weight.shape)].any()
    checked = 0
    for p, o in zip(*np.nonzero(house.sees & house.included[:, None]), strict=True):
        dx, dy = house.thing_position_m[o, :2] - house.position_m[p, :2]
        if np.hypot(dx, dy) > 1:
            view = round(np.degrees(np.arctan2(dx, dy)) / 30) % 12
            in_row = weight[p, 12:24, o]
            assert in_row[view] == in_row.max() > 0
            assert in_row[(view + 6) % 12] == 0
            checked += 1
    assert checked > 100


def test_near_objects_fill_more_of_a_view(plans: list[House]) -> None:
    house = plans[1]
    most = object_weights(house).max(1)
    flat = np.linalg.norm(
        house.position_m[:, None, :2] - house.thing_position_m[None, :, :2], axis=-1
    )
    near, far = most[house.sees & (flat < 1.5)], most[house.sees & (flat > 4)]
    assert near.mean() > 2.5 * far.mean()


def test_room_shares_tell_the_own_room_and_what_is_behind_doors(plans: list[House]) -> None:
    doorways = 0
    for house in plans:
        share = room_weights(house)
        np.testing.assert_allclose(share.sum(-1), 1)
        own = np.array([ROOM_KINDS.index(house.rooms[r].kind) for r in house.room])
        assert (share[np.arange(len(own)), :, own] > 0).all()
        for p in np.flatnonzero(house.door >= 0):
            door = house.doors[house.door[p]]
            (other,) = set(door.rooms) - {int(house.room[p])}
            beyond = ROOM_KINDS.index(house.rooms[other].kind)
            if beyond != own[p]:
                dx, dy = np.array([door.x, door.y]) - house.position_m[p, :2]
                view = round(np.degrees(np.arctan2(dx, dy)) / 30) % 12
                assert share[p, view, beyond] > 0.3
                assert share[p, view, beyond] > share[p, (view + 6) % 12, beyond] + 0.2
                doorways += 1
    assert doorways > 20


def test_stairs_up_and_down_look_different(plans: list[House]) -> None:
    house = next(h for h in plans if len(h.walls) > 1)
    stairs = [o for o, t in enumerate(house.things) if t.kind == KIND_INDEX["stairs"]]
    vectors = meaning_vectors(WIDTH)["stairs"]
    views = house_views(house, rng_for(0, "test views"), WIDTH, style=0.0, noise=0.0)
    weight = object_weights(house)
    for o in stairs:
        rises = house.things[o].z > house.things[o].floor * 2.9
        p, v = np.unravel_index(
            (weight[:, :, o] * house.included[:, None]).argmax(), weight.shape[:2]
        )
        up, down = vectors @ views[p, v]
        assert (up > down) == rises


def test_objects_can_be_read_and_better_at_home(plans: list[House]) -> None:
    own, other = probe_accuracy(plans, style=1.0)
    assert other > 0.5, "what a house teaches should help elsewhere"
    assert own - other > 0.05, "a house's own look should matter"


def test_style_makes_the_difference(plans: list[House]) -> None:
    plain, styled = probe_accuracy(plans[:6], style=0.0), probe_accuracy(plans[:6], style=1.5)
    assert styled[0] - styled[1] > plain[0] - plain[1] + 0.05


def test_what_is_alike_looks_alike_in_all_houses(plans: list[House]) -> None:
    """Without style and noise, the mean view of a kind of object points the same way in two houses."""
    means = []
    for n in (0, 1):
        x, kind, _ = close_objects(plans[n], n, style=0.0)
        means.append({k: x[kind == k].mean(0) for k in np.unique(kind).tolist()})
    common = sorted(means[0].keys() & means[1].keys())
    a, b = (np.array([m[k] for k in common]) for m in means)
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b))
    right = (a @ b.T).argmax(1) == np.arange(len(common))
    assert len(common) > 8
    assert right.mean() > 0.7
