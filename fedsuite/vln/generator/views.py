"""View features of generated houses: what a small image network might say about 36 views of each panorama.

A view is a sum of fixed vectors (one per kind of object, colour, material and kind of room, equal in all houses), weighted
by how large and how central a thing is: x = sum_o w_o (e_kind + e_colour + e_material) + sum_r u_r e_room. Each house then
distorts its features in its own way, x' = (x + x A) * light + b + noise, with A, b drawn once per house: the look of a
house. An agent can learn the first part anywhere and the second only at home.

P panoramas, O objects, F feature width. View v: heading 30 deg * (v % 12) (0 = +y, clockwise), elevation
30 deg * (v // 12 - 1).
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from fedsuite.vln.generator.catalog import COLOURS, KIND_INDEX, KINDS, MATERIALS, ROOM_KINDS
from fedsuite.vln.generator.house_plan import House
from fedsuite.vln.generator.walls import ray_lengths

NUM_VIEWS, HEADINGS = 36, 12
_MEANING_SEED = 20180618  # the same vectors in all houses of all worlds
_RAYS = 36
_RAY_STEP_M, _RAY_REACH_M = 0.5, 8.0
_COLOUR_WEIGHT, _MATERIAL_WEIGHT, _ROOM_WEIGHT, _OWN_ROOM = 0.5, 0.35, 0.9, 0.25
_VIEW_HEADING = np.deg2rad(30.0) * np.arange(HEADINGS)
_VIEW_ELEVATION = np.deg2rad(30.0) * np.array([-1.0, 0.0, 1.0])


@lru_cache(maxsize=4)
def meaning_vectors(width: int) -> Mapping[str, np.ndarray]:
    """Fixed unit vectors [n, F] of kinds, colours, materials, rooms and stairs (up, down); nearly orthogonal."""
    sizes = {
        "kind": len(KINDS), "colour": len(COLOURS), "material": len(MATERIALS), "room": len(ROOM_KINDS), "stairs": 2,
    }  # fmt: skip
    rng = np.random.default_rng([_MEANING_SEED, width])
    vectors = rng.standard_normal((sum(sizes.values()), width))
    for _ in range(200):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        # einsum, not @: hundreds of small products, for which BLAS threads would wait for each other on a busy machine.
        overlap = np.einsum("if,jf->ij", vectors, vectors)
        np.fill_diagonal(overlap, 0.0)
        push = 0.3 * np.sign(overlap) * np.abs(overlap) ** 1.5
        vectors -= np.einsum("ij,jf->if", push, vectors)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    bounds = np.cumsum(list(sizes.values()))[:-1]
    return dict(zip(sizes, np.split(vectors, bounds), strict=True))


def house_views(
    house: House, rng: np.random.Generator, width: int, style: float = 1.0, noise: float = 0.3
) -> np.ndarray:
    """Features [P, 36, F] float32, zero for excluded panoramas. style scales the house's own look (0 = none)."""
    features = _plain_views(house, meaning_vectors(width))
    panoramas = len(features)
    mix = rng.standard_normal((width, width)) / np.sqrt(width)
    offset, tint = rng.standard_normal((2, width)) / np.sqrt(width)
    light = np.exp(0.15 * rng.standard_normal(panoramas))[:, None, None]
    shade = rng.standard_normal(panoramas)[:, None, None] * tint
    look = style * (0.5 * offset + 0.2 * shade)
    features = (features + 0.4 * style * (features @ mix)) * light + look
    features += noise * rng.standard_normal(features.shape) / np.sqrt(width)
    features[~house.included] = 0.0
    return (features * np.sqrt(width)).astype(np.float32)


def _plain_views(house: House, vectors: Mapping[str, np.ndarray]) -> np.ndarray:
    """The part that is the same in every house [P, 36, F] float64."""
    views = object_weights(house) @ _thing_vectors(house, vectors)
    rooms = room_weights(house) @ vectors["room"]
    level = np.array([0.5, 1.0, 0.5])[None, :, None, None]
    return views + _ROOM_WEIGHT * (rooms[:, None] * level).reshape(len(views), NUM_VIEWS, -1)


def _thing_vectors(house: House, vectors: Mapping[str, np.ndarray]) -> np.ndarray:
    """What each object adds to a view that it fills [O, F]."""
    kind, colour, material = np.array([(t.kind, t.colour, t.material) for t in house.things]).T
    out = vectors["kind"][kind]
    out = out + _COLOUR_WEIGHT * np.where(colour[:, None] >= 0, vectors["colour"][colour], 0.0)
    out += _MATERIAL_WEIGHT * np.where(material[:, None] >= 0, vectors["material"][material], 0.0)
    for row in np.flatnonzero(kind == KIND_INDEX["stairs"]):
        rises = house.things[row].z > house.things[row].floor * 2.9
        out[row] += vectors["stairs"][0 if rises else 1]
    return out


def object_weights(house: House) -> np.ndarray:
    """How much of a view an object takes [P, 36, O]: in sight, near, large, and in the middle of the view."""
    gap = house.thing_position_m[None] - house.position_m[:, None]
    flat = np.maximum(np.hypot(gap[..., 0], gap[..., 1]), 0.3)
    size = np.array([t.about.size_m for t in house.things])
    heading = np.pi / 2 - np.arctan2(gap[..., 1], gap[..., 0])
    elevation = np.clip(np.arctan2(gap[..., 2], flat), -np.pi / 4, np.pi / 4)
    across = heading[:, None] - _VIEW_HEADING[None, :, None]
    half_width = 0.5 * np.arctan2(size, 2 * flat)[:, None]
    across = np.abs((across + np.pi) % (2 * np.pi) - np.pi) - half_width
    central = np.clip(1 - np.maximum(across, 0) / np.deg2rad(45), 0, 1)
    upright = np.abs(elevation[:, None] - _VIEW_ELEVATION[None, :, None])
    upright = np.clip(1.15 - upright / np.deg2rad(60), 0, 1)
    near = np.clip(size + 0.6, 0.9, 1.8) * np.exp(-flat / 3.0) * house.sees
    weight = near[:, None, None] * upright[:, :, None] * central[:, None]
    return weight.reshape(len(gap), NUM_VIEWS, -1)


def room_weights(house: House) -> np.ndarray:
    """Share of each kind of room in the 12 headings [P, 12, rooms]: what rays meet, nearer counts more."""
    shares = np.zeros((len(house.position_m), _RAYS, len(ROOM_KINDS)))
    angle = 2 * np.pi * np.arange(_RAYS) / _RAYS
    direction = np.stack([np.sin(angle), np.cos(angle)], 1)
    depth = np.arange(_RAY_STEP_M, _RAY_REACH_M, _RAY_STEP_M)
    for floor, walls in enumerate(house.walls):
        here = np.flatnonzero(house.floor == floor)
        xy = house.position_m[here, :2]
        reach = ray_lengths(xy, direction, walls, _RAY_REACH_M)
        point = xy[:, None, None] + depth[:, None] * direction[:, None]
        weight = (depth < reach[..., None]) * np.exp(-depth / 4)
        for number, room in enumerate(house.rooms):
            if room.floor == floor:
                inside = ((point > room.rect[:2]) & (point < room.rect[2:])).all(-1)
                own = np.where(house.room[here] == number, _OWN_ROOM, 1.0)[:, None]
                shares[here, :, ROOM_KINDS.index(room.kind)] += own * (inside * weight).sum(-1)
    kernel = np.abs(_VIEW_HEADING[:, None] - angle[None])
    kernel = np.clip(1 - np.minimum(kernel, 2 * np.pi - kernel) / np.deg2rad(35), 0, 1)
    views = np.einsum("vr,prk->pvk", kernel / kernel.sum(1, keepdims=True), shares)
    own_kind = np.array([ROOM_KINDS.index(house.rooms[r].kind) for r in house.room])
    views[np.arange(len(views)), :, own_kind] += 0.4
    return views / views.sum(-1, keepdims=True)
