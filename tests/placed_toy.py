"""The toy system with clients that write down their worker and GPU, and wait for one another: so all workers are used."""

import dataclasses
import json
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsuite.runs.folder import folder_of
from tests import toy

FILE = "worker.json"
LIMIT_S = 240.0


class PlacedClient(toy.ToyClient):
    """Its first task ends when as many clients as there are workers have got theirs: each has a worker to itself."""

    def fit(
        self, parameters: Sequence[np.ndarray], config: dict[str, Any]
    ) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        clients = folder_of(self.c).clients
        own = clients / f"site-{self.partition}" / FILE
        own.parent.mkdir(parents=True, exist_ok=True)
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
        own.write_text(json.dumps({"gpu": gpu, "pid": os.getpid()}))
        give_up = time.monotonic() + LIMIT_S
        workers = (folder_of(self.c).status().get("placement") or {}).get("workers", 1)
        while len(list(clients.glob(f"*/{FILE}"))) < workers:
            if time.monotonic() > give_up:
                raise TimeoutError("some client has got no worker")
            time.sleep(0.05)
        return super().fit(parameters, config)


SYSTEM = dataclasses.replace(
    toy.SYSTEM, make_client=lambda settings, node: PlacedClient(settings, node.partition)
)
