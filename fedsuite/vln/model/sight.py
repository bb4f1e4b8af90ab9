"""What agents see at their places of a world, with features dropped."""

from torch import Tensor

from fedsuite.vln.environment import World
from fedsuite.vln.model.agent import Panorama
from fedsuite.vln.model.dropout import Dropout


def observe(
    world: World,
    viewpoint: Tensor,
    view: Tensor,
    dropout: Dropout,
    factor: Tensor | None = None,
    width: int | None = None,
) -> Panorama:
    """What B agents see; candidates by the view that looks at them. factor [B, F]: in place of feature dropout; width: K, by
    default that of the busiest."""
    near = world.observe(viewpoint, view, width)
    views = world.views.index_select(0, viewpoint)
    row = (viewpoint * views.shape[1]).unsqueeze(1) + near.view
    candidate = world.views.flatten(0, 1).index_select(0, row.flatten())
    candidate = candidate.unflatten(0, near.view.shape)
    heading = view % world.panorama_angle.shape[0]
    if factor is None:
        dropout.panorama(views, candidate, near.count)
    else:
        for seen in (views, candidate):
            seen.mul_(factor.unsqueeze(1))
    return Panorama(
        views=views,
        view_angle=world.panorama_angle.index_select(0, heading),
        candidate=candidate,
        candidate_angle=near.angle,
        padding=near.padding,
        pose_angle=world.pose_angle.index_select(0, view),
        candidate_view=near.view,
    )
