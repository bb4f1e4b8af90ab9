"""Views along a path against panoramas built one by one, and what factors and dropout change."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsuite.vln.data.dataset import Sample, join_houses, start_view
from fedsuite.vln.data.graph import load_graph
from fedsuite.vln.data.path_views import drop_features, path_views
from fedsuite.vln.environment import build_world
from fedsuite.vln.model.dropout import NO_DROPOUT, Dropout

REPEATS = 3  # angle width 12 of the plain twin


def expected(plain, sample):
    """Panoramas [T, 36, F'] and actions [T, F'] of one path, full width."""
    view, panoramas, actions = sample.start_view, [], []
    for place, following in zip(sample.path, (*sample.path[1:], None), strict=True):
        panorama, choices, moves = plain.look(place, view)
        targets = [None, *(m[0] for m in moves)]
        panoramas.append(panorama)
        actions.append(choices[targets.index(following)])
        if following is not None:
            view = dict(moves)[following]
    return torch.stack(panoramas), torch.stack(actions)


def full_width(visual, angle):
    return torch.cat([visual, *[angle] * REPEATS], -1)


def test_views_of_every_place_and_move(plain, oak, world):
    """In a world of several houses, rows of both lengths."""
    samples = oak.samples["train"] + oak.samples["val_seen"]
    out = path_views(world, samples)
    assert out.length.tolist() == [len(s.path) for s in samples]
    assert len(set(out.length.tolist())) > 1
    for row, sample in enumerate(samples):
        panoramas, actions = expected(plain, sample)
        count = len(sample.path)
        views = full_width(out.views[row], out.view_angle[row])
        torch.testing.assert_close(views[:count], panoramas)
        action = full_width(out.action[row], out.action_angle[row])
        torch.testing.assert_close(action[:count], actions)
        assert actions[:-1].any(1).all() and not action[count - 1 :].any()
        assert torch.equal(
            out.views[row, count:],
            out.views[row, count - 1 : count].expand_as(out.views[row, count:]),
        )


def test_houses_of_one_batch_keep_their_own_places(oak, elm, world):
    mixed = [elm.samples["train"][0], oak.samples["train"][0]]
    both = path_views(world, mixed)
    for row, house in enumerate((elm, oak)):
        alone = path_views(join_houses([house]), mixed[row : row + 1])
        count = len(mixed[row].path)
        assert torch.equal(both.views[row, :count], alone.views[0])
        assert torch.equal(both.action_angle[row, :count], alone.action_angle[0])


def test_a_factor_multiplies_every_visual_feature_of_its_row(oak):
    world, samples = join_houses([oak]), oak.samples["train"][:5]
    table = world.views.clone()
    factor = torch.rand(5, world.feature_size)
    factor[:, 2] = 0
    plain, masked = path_views(world, samples), path_views(world, samples, factor)
    assert torch.equal(masked.views, plain.views * factor.view(5, 1, 1, -1))
    assert torch.equal(masked.action, plain.action * factor.view(5, 1, -1))
    assert torch.equal(masked.view_angle, plain.view_angle)
    assert torch.equal(masked.action_angle, plain.action_angle)
    assert torch.equal(world.views, table)


def test_feature_dropout_draws_views_and_actions_apart_and_spares_the_table(oak):
    world, samples = join_houses([oak]), oak.samples["train"][:6]
    table = world.views.clone()
    whole = path_views(world, samples)
    stream = torch.Generator().manual_seed(3)
    half = drop_features(path_views(world, samples), Dropout(0.9, 0.5, stream))
    for before, after in ((whole.views, half.views), (whole.action, half.action)):
        kept = after != 0
        assert 0.4 < kept[before != 0].float().mean() < 0.6
        torch.testing.assert_close(after[kept], 2 * before[kept])
    moves = whole.action.any(2)
    seen = (whole.views == whole.action.unsqueeze(2)).all(3).float().argmax(2)
    looked = half.views.gather(2, seen[:, :, None, None].expand(-1, -1, 1, half.views.shape[3]))
    assert not torch.equal(looked.squeeze(2)[moves], half.action[moves])
    assert torch.equal(half.view_angle, whole.view_angle) and torch.equal(world.views, table)
    untouched = drop_features(path_views(world, samples), NO_DROPOUT)
    assert torch.equal(untouched.views, whole.views)


def test_a_path_of_one_place_has_only_a_stop(oak):
    sample = oak.samples["train"][0]
    out = path_views(join_houses([oak]), [replace(sample, path=sample.path[:1])])
    assert out.length.tolist() == [1] and out.views.shape[:2] == (1, 1)
    assert not out.action.any() and not out.action_angle.any()


@pytest.mark.parametrize("onward", [1, None])
def test_a_jump_is_refused(oak, onward):
    """Place 1 is excluded, no edge leads there; and a place is not its own neighbour (places with padded candidates)."""
    few = int(oak.candidates.count[oak.candidates.count > 0].argmin())
    sample = oak.samples["train"][0]
    start = int(np.flatnonzero(oak.candidates.count > 0)[few])
    assert 0 < oak.candidates.count[start] < oak.candidates.viewpoint.shape[1]
    far = replace(sample, path=(start, start if onward is None else onward))
    with pytest.raises(ValueError, match=rf"oak: path of {sample.instr_id} jumps"):
        path_views(join_houses([oak]), [sample, far])


@pytest.mark.needs_shared
def test_every_move_of_room_to_room_is_seen(r2r):
    """783 paths of the 11 unseen houses: each has a candidate for all of its moves, and its camera follows them."""
    items = json.loads((r2r / "annotations" / "R2R_val_unseen.json").read_text())
    graphs = [load_graph(r2r / "connectivity", s) for s in sorted({i["scan"] for i in items})]
    index = {g.scan: g.index for g in graphs}
    samples = [
        Sample(
            f"{i['path_id']}_0",
            i["scan"],
            tuple(index[i["scan"]][v] for v in i["path"]),
            start_view(i["heading"]),
            np.zeros(0, np.int64),
            "",
        )
        for i in items
    ]
    number = np.arange(36, dtype=np.float32)[:, None]  # a view shows its number
    views = [np.broadcast_to(number, (len(g.viewpoint_ids), 36, 1)).copy() for g in graphs]
    out = path_views(build_world(graphs, views), samples)
    assert len(samples) == 783 and out.length.unique().tolist() == [4, 5, 6, 7]
    moved = out.action_angle.any(2)
    assert moved.sum(1).tolist() == [len(s.path) - 1 for s in samples]
    # sin = 0 and cos = 1 of the heading: the column of views that the camera faces.
    faced = (out.view_angle[:, :, 12:24, 1] > 0.99).float().argmax(2)
    assert faced[:, 0].tolist() == [s.start_view % 12 for s in samples]
    assert torch.equal(
        faced[:, 1:][moved[:, :-1]], (out.action[:, :-1, 0][moved[:, :-1]] % 12).long()
    )
