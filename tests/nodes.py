"""Real nodes without a SuperLink: contexts of the in-process grid whose node-config names a file of the node's own."""

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Context, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from fedsuite.runs.folder import RunFolder, folder_of
from fedsuite.settings.config import flatten
from simulations.client_app import app as client_app
from simulations.engines.inprocess import ClientCall, InProcessGrid, server_identity
from simulations.server_app import serve
from simulations.systems import settings_of

RUN_ID = 77
SECRET = 2**100 + 1234567  # a noise-seed


def write_node(folder: Path, name: str, roster: Path, **keys: Any) -> Path:
    """The file of a node that keeps all below `folder`; keys in snake case, with a section as a table."""
    (folder / "state").mkdir(parents=True, exist_ok=True)
    table = {"name": name, "roster": str(roster), "state-dir": "state", **keys}
    lines = [f"{k.replace('_', '-')} = {json.dumps(v)}" for k, v in flatten(table).items()]
    file = folder / "node.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@cache
def key_of(name: str) -> bytes:
    """The public key of whoever this is, as Flower's grid tells it."""
    secret = 1 + int.from_bytes(name.encode())
    return public_key_to_bytes(ec.derive_private_key(secret, ec.SECP384R1()).public_key())


class KeyedGrid(InProcessGrid):
    """Nodes with any node-config and with keys, some of which connect late.

    nodes: by node id its node-config, its public key, and when it connects by the clock `now`.
    """

    def __init__(
        self,
        answer: ClientCall,
        config: Mapping[str, Any],
        nodes: Mapping[int, tuple[dict[str, Any], bytes, float]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(answer, 0, config)
        self.nodes, self.now = nodes, now
        for node_id, (options, _, _) in nodes.items():
            self.contexts[node_id] = Context(RUN_ID, node_id, options, RecordDict(), dict(config))

    def get_nodes(self) -> Iterable[NodeInfo]:
        here = {n: key for n, (_, key, since) in self.nodes.items() if self.now() >= since}
        return [NodeInfo(node_id=node, public_key=key) for node, key in here.items()]


def grid_of(
    config: Mapping[str, Any], files: Sequence[Path], run_id: int = RUN_ID
) -> InProcessGrid:
    """A node for each file, with ids that say nothing of who it is."""
    grid = InProcessGrid(client_app, len(files), config)
    for node_id, file in zip(reversed(list(grid.contexts)), files, strict=True):
        options: dict[str, Any] = {"node": str(file)}
        grid.contexts[node_id] = Context(run_id, node_id, options, RecordDict(), dict(config))
    return grid


def deploy(config: Mapping[str, Any], files: Sequence[Path], run_id: int = RUN_ID) -> RunFolder:
    """A whole run; the server's folder."""
    with server_identity():
        serve(grid_of(config, files, run_id), config)
    return folder_of(settings_of(config)[1])


def write_own_house(data: Path, to: Path, scan: str) -> Path:
    """Of a data folder as tests/conftest.py makes it, what the house `scan` has; its folder."""
    for part in ("connectivity", "annotations"):
        (to / part).mkdir(parents=True)
    shutil.copy(data / "connectivity" / f"{scan}_connectivity.json", to / "connectivity")
    for file in (data / "annotations").iterdir():
        own = [item for item in json.loads(file.read_text()) if item["scan"] == scan]
        (to / "annotations" / file.name).write_text(json.dumps(own))
    lines = (data / "features.tsv").read_text().splitlines(keepends=True)
    (to / "features.tsv").write_text("".join(x for x in lines if x.startswith(f"{scan}\t")))
    return to
