"""The vectorised environment on handmade houses (the R2R houses: test_r2r.py)."""

import math

import numpy as np
import pytest
import torch

from fedsuite.vln.data.dataset import join_houses, make_episodes, start_view
from fedsuite.vln.environment import STOP, angle_feature, build_world
from fedsuite.vln.mattersim import Simulator

STEP_RAD = math.pi / 6


def all_pairs(world, house: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.arange(world.first_row[house], world.first_row[house + 1])
    return tuple(torch.cartesian_prod(rows, rows).T)


def test_angle_feature():
    got = angle_feature(torch.tensor([math.pi / 2]), torch.tensor([math.pi / 6]))
    torch.testing.assert_close(got, torch.tensor([[1.0, 0.0, 0.5, 3**0.5 / 2]]))


def test_houses_lie_one_after_another(world, oak, elm):
    assert world.scans == ("oak", "elm") and world.first_row == (0, 13, 20)
    assert world.feature_size == 8 and world.device.type == "cpu"
    assert np.array_equal(world.views[:13], oak.views) and np.array_equal(
        world.views[13:], elm.views
    )
    assert world.candidate_count.tolist() == [
        *oak.candidates.count.tolist(),
        *elm.candidates.count.tolist(),
    ]


def test_distances_and_teachers_of_every_pair(world, oak, elm):
    for number, house in enumerate((oak, elm)):
        place, goal = all_pairs(world, number)
        offset, graph = world.first_row[number], house.graph
        d, action = world.goal_distance_m(place, goal), world.teacher_action(place, goal)
        for a, b, metres, move in zip(place - offset, goal - offset, d, action, strict=True):
            assert metres.item() == pytest.approx(graph.distance_m[a, b], rel=1e-6)
            if a == b:
                assert move == STOP
            elif np.isinf(graph.distance_m[a, b]):
                assert move == -1
            else:
                towards = graph.shortest_path(int(a), int(b))[1]
                assert house.candidates.viewpoint[a, move - 1] == towards


def test_following_the_teacher_walks_the_shortest_path(world, oak):
    place, goal = all_pairs(world, 0)
    reachable = torch.isfinite(world.goal_distance_m(place, goal))
    place, goal = place[reachable], goal[reachable]
    view, walks = torch.full_like(place, 12), [[int(p)] for p in place]
    for _ in range(13):
        action = world.teacher_action(place, goal)
        place, view = world.step(place, view, action)
        for walk, p, moved in zip(walks, place.tolist(), action > STOP, strict=True):
            walk += [p] * bool(moved)
    assert torch.equal(place, goal)
    assert walks == [
        oak.graph.shortest_path(w[0], int(g)) for w, g in zip(walks, goal, strict=True)
    ]


def test_stopping_changes_nothing_and_moving_takes_the_candidates_view(world, oak):
    place = torch.arange(len(oak.candidates.count))
    view = torch.arange(len(place)) + 3
    same = world.step(place, view, torch.zeros_like(place))
    assert torch.equal(same[0], place) and torch.equal(same[1], view)
    for slot in range(oak.candidates.viewpoint.shape[1]):
        real = torch.from_numpy(oak.candidates.viewpoint[:, slot] >= 0)
        after, look = world.step(place[real], view[real], torch.full_like(place[real], slot + 1))
        assert after.tolist() == oak.candidates.viewpoint[real, slot].tolist()
        assert look.tolist() == oak.candidates.view[real, slot].tolist()


def test_actions_are_not_changed_by_a_step(world):
    action = torch.tensor([0, 1])
    world.step(torch.tensor([0, 0]), torch.tensor([12, 12]), action)
    assert action.tolist() == [0, 1]


def test_what_is_seen_turns_with_the_camera(world, elm):
    """All places of the second house, all views: relative heading and absolute elevation of the candidates."""
    place = torch.arange(13, 20).repeat_interleave(36)
    view = torch.arange(36).repeat(7)
    near = world.observe(place, view)
    assert torch.equal(near.count, world.candidate_count[place])
    assert near.view.shape == near.padding.shape == (252, int(near.count.max()))
    assert torch.equal((~near.padding).sum(1), near.count)
    for i in range(0, 252, 5):
        row, count = int(place[i]) - 13, int(near.count[i])
        heading = elm.candidates.heading_rad[row, :count] - STEP_RAD * (int(view[i]) % 12)
        elevation = elm.candidates.elevation_rad[row, :count]
        want = np.stack([np.sin(heading), np.cos(heading), np.sin(elevation), np.cos(elevation)], 1)
        np.testing.assert_allclose(near.angle[i, :count], want, atol=1e-6)
        assert near.view[i, :count].tolist() == elm.candidates.view[row, :count].tolist()


def test_isolated_and_excluded_panoramas_leave_only_the_stop(world):
    near = world.observe(torch.tensor([1, 12]), torch.tensor([12, 12]))
    assert near.count.tolist() == [0, 0] and near.padding.all() and near.padding.shape == (2, 1)


def test_panorama_and_pose_angles(world):
    for heading, view in ((0, 0), (5, 17), (11, 24), (3, 35)):
        turn, tilt = STEP_RAD * (view % 12 - heading), STEP_RAD * (view // 12 - 1)
        want = [math.sin(turn), math.cos(turn), math.sin(tilt), math.cos(tilt)]
        assert world.panorama_angle[heading, view].tolist() == pytest.approx(want, abs=1e-6)
        turn = STEP_RAD * (view % 12)
        want = [math.sin(turn), math.cos(turn), math.sin(tilt), math.cos(tilt)]
        assert world.pose_angle[view].tolist() == pytest.approx(want, abs=1e-6)


def test_tables_of_another_simulator_are_used(oak):
    """Candidates in another order: actions are renumbered, the walk to the goal is the same."""
    c = oak.candidates
    keep = c.viewpoint[0] >= 0
    order = np.argsort(c.viewpoint, 1)[:, ::-1]  # padding (-1) stays last
    swapped = type(c)(
        *(np.take_along_axis(getattr(c, n), order, 1) for n in c.__dataclass_fields__)
    )
    world = build_world([oak.graph], [oak.views], [swapped])
    assert world.candidate[0, : keep.sum()].tolist() == sorted(c.viewpoint[0][keep])[::-1]
    place, goal = all_pairs(world, 0)
    ok = torch.isfinite(world.goal_distance_m(place, goal))
    place, goal, view = place[ok], goal[ok], torch.zeros_like(goal[ok])
    for _ in range(13):
        place, view = world.step(place, view, world.teacher_action(place, goal))
    assert torch.equal(place, goal)


def test_one_house_keeps_its_memory_map(oak):
    world = join_houses([oak])
    assert world.views.data_ptr() == oak.views.ctypes.data


def test_initial_headings_snap_like_the_simulators(prepared):
    headings = [
        *np.random.default_rng(0).uniform(0, 2 * math.pi, 200),
        0.0,
        3.751,
        6.28,
        2 * math.pi,
    ]
    simulator = Simulator()
    simulator.setRenderingEnabled(False)
    simulator.setNavGraphPath(str(prepared.connectivity_dir))
    simulator.setDiscretizedViewingAngles(True)
    simulator.setBatchSize(len(headings))
    simulator.initialize()
    many = len(headings)
    simulator.newEpisode(["oak"] * many, ["oak-0"] * many, headings, [0.0] * many)
    assert [s.viewIndex for s in simulator.getState()] == [start_view(h) for h in headings]
    assert start_view(3.751) == 19


def test_episodes_of_two_houses_in_one_batch(world, oak, elm):
    samples = [elm.samples["train"][0], oak.samples["train"][4], oak.samples["val_seen"][0]]
    e = make_episodes(samples, world)
    assert len(e) == 3 and e.length.tolist() == [len(s.tokens) for s in samples]
    assert e.start.tolist() == [13 + samples[0].path[0], samples[1].path[0], samples[2].path[0]]
    assert e.goal.tolist() == [13 + samples[0].path[-1], samples[1].path[-1], samples[2].path[-1]]
    assert e.start_view.tolist() == [s.start_view for s in samples]
    for row, s in enumerate(samples):
        assert e.tokens[row, : len(s.tokens)].tolist() == s.tokens.tolist()
        assert not e.tokens[row, len(s.tokens) :].any()
    assert e.tokens.shape[1] == max(len(s.tokens) for s in samples)
