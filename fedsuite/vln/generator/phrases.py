"""Words of the simulated annotators of generated houses: verbs, places, habits, slips.

The words are phrases.json. In its `forms`, {thing}, {room}, {source}, {door}, {hall} are noun phrases without article,
{way} is left or right, {number} an ordinal, {go} and {stairs} one of the `words` of that name; a form "rare X" now and
then takes the place of "X". Words that stand twice are used twice as often.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsuite.storage.files import read_table

NUM_ANNOTATORS = 40
_ANNOTATOR_SEED = 20221028  # the same people annotate all houses of all worlds
_TABLE = read_table(__file__, "phrases.json")
FORMS: Mapping[str, tuple[str, ...]] = _TABLE["forms"]
WORDS: Mapping[str, tuple[str, ...]] = _TABLE["words"]
DOOR_NOUNS: Mapping[str, tuple[str, ...]] = _TABLE["door_nouns"]
RARE_NOUNS: Mapping[str, tuple[str, ...]] = _TABLE["rare_nouns"]
RARE_ROOMS: Mapping[str, tuple[str, ...]] = _TABLE["rare_rooms"]
MISSPELT: Mapping[str, str] = _TABLE["misspelt"]


@dataclass(frozen=True)
class Annotator:
    """Habits. Probabilities: detail (of saying a turn or door), colour, side, typo; landmarks: objects per path.

    words seeds the person's usual verb and noun; glue: sentences, commas or then; case: normal, lower or upper.
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
