"""What a speaker sees of a path: the panorama at every place and the view of every move.

Source: Speaker-Follower (Fried et al. 2018) with the features of EnvDrop (Tan et al. 2019). Symbols: B paths, T places of
the longest path, F visual width. As everywhere, an angle feature is kept as its four different numbers.

The camera starts as the sample says and after each move looks where the next place was seen best (World.step).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fedsuite.vln.data.dataset import Sample
from fedsuite.vln.data.graph import HEADINGS
from fedsuite.vln.environment import World
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.speaker import PathViews


def path_views(world: World, samples: Sequence[Sample], factor: Tensor | None = None) -> PathViews:
    """The samples' own paths. factor [B, F], if given, multiplies all visual features (environment dropout)."""
    place, length = _places(world, samples)
    moves = torch.arange(place.shape[1]) < (length - 1).unsqueeze(1)
    slot, view = _choices(world, place, moves.to(world.device), samples)
    start = torch.tensor([s.start_view for s in samples], device=world.device)
    camera = torch.cat([start.unsqueeze(1), view[:, :-1]], 1) % HEADINGS
    views = world.views.index_select(0, place.flatten())
    flat = torch.arange(len(views), device=world.device) * views.shape[1] + view.flatten()
    action = views.flatten(0, 1).index_select(0, flat)
    angle = world.relative_angle[(place * HEADINGS + camera).flatten(), slot.flatten()]
    is_move = moves.to(world.device, torch.float32).view(-1, 1)
    shape = place.shape
    views, action = views.unflatten(0, shape), action.mul_(is_move).unflatten(0, shape)
    if factor is not None:
        views.mul_(factor[:, None, None])
        action.mul_(factor[:, None])
    return PathViews(
        views=views,
        view_angle=world.panorama_angle[camera],
        action=action,
        action_angle=angle.mul_(is_move).unflatten(0, shape),
        length=length,
    )


def drop_features(path: PathViews, dropout: Dropout) -> PathViews:
    """Drop visual features of moves and panoramas, in place and independently of one another."""
    dropout.features(path.action)
    dropout.features(path.views)
    return path


def _places(world: World, samples: Sequence[Sample]) -> tuple[Tensor, Tensor]:
    """Rows of the world [B, T], the last one repeated, and the number of places [B] on the CPU."""
    first = dict(zip(world.scans, world.first_row, strict=False))
    longest = max(len(s.path) for s in samples)
    rows = [
        [first[s.scan] + p for p in s.path + s.path[-1:] * (longest - len(s.path))] for s in samples
    ]
    return torch.tensor(rows, device=world.device), torch.tensor([len(s.path) for s in samples])


def _choices(
    world: World, place: Tensor, moves: Tensor, samples: Sequence[Sample]
) -> tuple[Tensor, Tensor]:
    """Candidate slot and view of the move from each place [B, T]; slot 0 where there is no move."""
    target = torch.cat([place[:, 1:], place[:, -1:]], 1)
    column = torch.arange(world.candidate.shape[1], device=world.device)
    real = column < world.candidate_count[place].unsqueeze(2)
    leads = (world.candidate[place] == target.unsqueeze(2)) & real
    lost = moves & ~leads.any(2)
    if bool(lost.any()):
        sample = samples[int(lost.any(1).nonzero()[0])]
        raise ValueError(
            f"{sample.scan}: path of {sample.instr_id} jumps between places that no edge joins; expected neighbours"
        )
    slot = leads.to(torch.uint8).argmax(2)
    return slot, world.candidate_view[place, slot]
