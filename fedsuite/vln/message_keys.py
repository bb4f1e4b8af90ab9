"""Names that the server and the houses use in their messages to each other."""

MODULES = ("encoder", "decoder", "critic")
"""Of an agent; the name of an array starts with its module's and a dot."""

SPEAKER = "speaker."
"""Prefix of the speaker's arrays, sent once to every house that learns from what it says."""

VALIDATION = ("val_seen", "val_unseen")
"""Splits that a house scores; its metrics are named `<split>.<metric>`, with `<split>.count`."""

TEST = "test"
"""The leaderboard's split: walked for a submission, never scored, for nobody but the leaderboard knows its goals."""
