"""Names that the server and the houses use in their messages to each other."""

OPTIMIZER = "optimizer."
"""Prefix of an optimizer's arrays, where its state travels (client-optimizer = shared)."""

VALIDATION = ("val_seen", "val_unseen")
"""Splits that a house scores; its metrics are named `<split>.<metric>`, with `<split>.count`."""
