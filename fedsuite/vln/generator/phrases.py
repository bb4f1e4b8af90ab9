"""Words of the simulated annotators of generated houses: verbs, places, habits, slips.

Data and the drawing of annotators. In templates {thing}, {room}, {source}, {door}, {hall} are noun
phrases without article, {way} is left or right, {number} an ordinal.
"""

from dataclasses import dataclass

import numpy as np

NUM_ANNOTATORS = 40
_ANNOTATOR_SEED = 20221028  # the same people annotate all houses of all worlds
ORDINALS = ("", "first", "second", "third")
GO = ("walk", "go", "head", "walk", "go", "move", "proceed")
TURN = (
    "turn {way}",
    "take a {way}",
    "make a {way}",
    "go {way}",
    "turn to the {way}",
    "turn {way}",
    "hang a {way}",
)
SLIGHT = (
    "turn slightly {way}",
    "make a slight {way}",
    "veer {way}",
    "bear {way}",
    "turn a little to the {way}",
)
SHARP = ("make a sharp {way}", "turn sharply to the {way}", "turn {way}")
AROUND = (
    "turn around",
    "turn around",
    "turn all the way around",
    "turn 180 degrees",
    "make a u turn",
)
STRAIGHT = (
    "go straight",
    "walk straight ahead",
    "walk forward",
    "head straight",
    "go forward",
    "continue straight",
)
RARE_STRAIGHT = (
    "advance",
    "march forward",
    "step forward",
    "stroll ahead",
    "keep going straight ahead",
)
ALONG = (
    "{go} down the {hall}",
    "{go} along the {hall}",
    "continue down the {hall}",
    "follow the {hall}",
    "keep walking along the {hall}",
)
THROUGH = (
    "{go} through the {room}",
    "cross the {room}",
    "{go} across the {room}",
    "continue through the {room}",
)
PASS = (
    "{go} past the {thing}",
    "pass the {thing}",
    "continue past the {thing}",
    "{go} by the {thing}",
    "keep going past the {thing}",
    "walk until you are past the {thing}",
)
TOWARD = (
    "{go} towards the {thing}",
    "{go} toward the {thing}",
    "face the {thing} and walk forward",
)
REACH = ("{go} to the {thing}", "{go} over to the {thing}")
RARE_TOWARD = ("aim for the {thing}", "make your way towards the {thing}")
FACING = (
    "with the {thing} in front of you",
    "start facing the {thing}",
    "you start in front of the {thing}",
)
LEAVE = (
    "exit the {source}",
    "leave the {source}",
    "{go} out of the {source}",
    "exit the {source} through the {door}",
)
LEAVE_INTO = (
    "{go} out into the {room}",
    "exit the {source} into the {room}",
    "{go} through the {door} into the {room}",
)
ENTER = (
    "enter the {room}",
    "{go} into the {room}",
    "{go} through the {door} into the {room}",
    "step into the {room}",
    "{go} inside the {room}",
)
ENTER_SIDE = (
    "enter the {room} on the {way}", "{go} into the {room} on your {way}",
    "{go} through the {number} {door} on the {way}", "enter the {number} {door} on your {way}",
    "take the {number} {door} on the {way} into the {room}",
)  # fmt: skip
UP = ("{go} up the {stairs}", "climb the {stairs}", "{go} upstairs", "take the {stairs} up")
DOWN = (
    "{go} down the {stairs}",
    "descend the {stairs}",
    "{go} downstairs",
    "take the {stairs} down",
)
STAIRS = ("stairs", "steps", "staircase", "flight of stairs")
AT_THING = (
    "at the {thing}",
    "by the {thing}",
    "near the {thing}",
    "when you get to the {thing}",
    "when you reach the {thing}",
)
STOP = (
    "stop", "wait", "stop", "wait", "stop and wait", "wait there", "stand", "come to a stop", "then stop", "pause",
    "end up", "finish",
)  # fmt: skip
STOP_THING = (
    "next to the {thing}", "by the {thing}", "near the {thing}", "in front of the {thing}", "beside the {thing}",
    "close to the {thing}", "at the {thing}",
)  # fmt: skip
RARE_STOP_THING = (
    "adjacent to the {thing}",
    "a few feet from the {thing}",
    "right where the {thing} is",
)
STOP_DOOR = (
    "in the doorway of the {room}",
    "in the doorway to the {room}",
    "at the {room} door",
    "at the door of the {room}",
)
STOP_ARCH = (
    "under the archway of the {room}",
    "in the entrance to the {room}",
    "at the entrance of the {room}",
)
STOP_INSIDE = (
    "just inside the {room}", "right inside the {room}", "as soon as you enter the {room}", "just past the {door}",
    "once you are inside the {room}",
)  # fmt: skip
STOP_ROOM = (
    "in the {room}",
    "once you are in the {room}",
    "when you are in the {room}",
    "anywhere in the {room}",
)
STOP_STAIRS = {
    "bottom": (
        "at the bottom of the {stairs}",
        "at the foot of the {stairs}",
        "at the base of the {stairs}",
    ),
    "landing": ("on the landing", "halfway on the {stairs}", "on the landing of the {stairs}"),
    "top": ("at the top of the {stairs}", "at the head of the {stairs}"),
}
DOOR_NOUNS = {
    "door": ("door", "doorway", "open door"),
    "archway": ("archway", "opening", "arch", "doorway"),
    "glass doors": ("glass doors", "sliding doors", "double doors"),
}
RARE_NOUNS = {
    "couch": ("loveseat", "settee", "sectional"), "armchair": ("recliner", "easy chair"), "plant": ("fern", "shrub"),
    "painting": ("artwork", "portrait", "canvas"), "rug": ("mat", "runner"), "wardrobe": ("cupboard",),
    "television": ("flatscreen",), "fireplace": ("hearth",), "toilet": ("commode",), "sink": ("washbasin", "vanity"),
    "refrigerator": ("freezer",), "bookshelf": ("bookcases",), "vase": ("urn",), "statue": ("sculpture", "bust"),
    "mirror": ("looking glass",), "ottoman": ("footstool", "pouf"), "dresser": ("bureau",), "chair": ("seat",),
    "stairs": ("stairway",), "lamp": ("lantern",), "bed": ("mattress",), "desk": ("workstation",), "window": ("windowpane",),
}  # fmt: skip
RARE_ROOMS = {
    "bathroom": ("restroom", "washroom"), "hallway": ("passage", "passageway"), "living room": ("lounge", "den"),
    "closet": ("storage",), "patio": ("terrace", "deck"), "garage": ("carport",),
}  # fmt: skip
ADVERBS = ("immediately", "slowly", "carefully", "straightaway", "again", "eventually")
MISSPELT = {
    "through": "thru", "past": "passed", "fireplace": "fire place", "hallway": "hall way", "straight": "strait",
    "stairs": "staris", "bathroom": "bathrom", "bedroom": "bed room", "towards": "torwards", "left": "letf",
    "right": "rigth", "refrigerator": "refridgerator", "kitchen": "kitchin", "until": "untill", "walk": "wlak",
    "doorway": "door way", "turn": "trun", "front": "fron", "painting": "paiting", "archway": "arch way",
    "laundry": "laundy", "dresser": "dressor", "chandelier": "chandalier", "forward": "foward", "stop": "sotp",
}  # fmt: skip


@dataclass(frozen=True)
class Annotator:
    """Habits. Probabilities: detail (of saying a turn or door), colour, side, typo; landmarks:
    objects per path.

    words seeds the person's usual verb and noun; glue: sentences, commas or then; case: normal,
    lower or upper.
    """

    detail: float
    colour: float
    side: float
    typo: float
    landmarks: float
    words: int
    glue: str
    case: str


def annotators() -> tuple[Annotator, ...]:
    """The people who describe routes."""
    rng = np.random.default_rng(_ANNOTATOR_SEED)
    return tuple(
        Annotator(
            detail=float(rng.uniform(0.45, 0.9)),
            colour=float(rng.uniform(0.25, 0.85)),
            side=float(rng.uniform(0.1, 0.6)),
            typo=float(rng.choice([0.0, 0.004, 0.02], p=[0.5, 0.35, 0.15])),
            landmarks=float(rng.uniform(0.3, 1.7)),
            words=int(rng.integers(1000)),
            glue=str(rng.choice(["sentences", "commas", "then"], p=[0.5, 0.25, 0.25])),
            case="upper" if k == 0 else "lower" if k % 6 == 1 else "normal",
        )
        for k in range(NUM_ANNOTATORS)
    )
