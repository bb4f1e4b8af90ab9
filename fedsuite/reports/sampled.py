"""What to say of scores that come from some clients only (`evaluation-clients`)."""

import pandas as pd

from fedsuite.history import RunFrames
from fedsuite.randomness import ASKED, OF


def sampled_text(frames: RunFrames, chosen: bool = False) -> str:
    """A line on how many clients the evaluations asked; "" if they asked all. chosen: the best round is the result."""
    rounds = pd.concat([frames.rounds, frames.closing])
    if ASKED not in rounds or not (sampled := rounds[rounds[ASKED] < rounds[OF]]).size:
        return ""
    asked, of = (int(sampled[name].iloc[-1]) for name in (ASKED, OF))
    told = f"Scores are over samples: every evaluation asked {asked:,} of {of:,} clients, drawn anew (evaluation-clients)."
    if chosen:
        told += " The best round was chosen over such samples, which differ from round to round."
    return told
