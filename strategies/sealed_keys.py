"""The server's part in the keys of a run in which messages to peers are sealed: it hands everybody's to everybody."""

import numpy as np

from fedsuite.errors import RunFailed
from fedsuite.federation import Asking, Clients, Task
from fedsuite.privacy.sealing import ANNOUNCED, KEYS, ON, PEERS, STAGE

ASIDE = "sealed-keys"


def exchanged_keys(clients: Clients) -> Asking[None]:
    """Two exchanges before round 1; RunFailed unless all answer both."""
    returns = {"keys": (ANNOUNCED,)}
    everybody = [c.partition for c in clients]
    replies = yield [
        Task(p, "train", {}, {STAGE: KEYS}, returns, types={"keys": "uint8"}, aside=ASIDE)
        for p in everybody
    ]
    _all_of(clients, [reply.partition for reply in replies], "announce a key")
    keys = {"keys": np.stack([reply.arrays["keys"] for reply in replies])}
    replies = yield [Task(p, "train", keys, {STAGE: PEERS}, {}, aside=ASIDE) for p in everybody]
    _all_of(clients, [reply.partition for reply in replies], "take the others' keys")


def _all_of(clients: Clients, here: list[int], what: str) -> None:
    if missing := ", ".join(c.name for c in clients if c.partition not in here):
        raise RunFailed(
            f"{ON}: {missing} did not {what}; why stands in errors.log; resume when all are back"
        )
