"""The Flower ClientApp of every system: finds the system in the run-config and lets it make the client."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.client import NumPyClient
from flwr.clientapp.typing import ClientAppCallable

from clients.numpy_client_app import numpy_client_app
from fedsuite.config import RunSettings
from fedsuite.errors import InputError
from fedsuite.machine import keep_freed_memory
from fedsuite.roster import ROSTER, Roster, read_roster
from fedsuite.run_folder import RunFolder, folder_of
from simulations.systems import Node, System, settings_of


def make_client(context: Context) -> NumPyClient:
    """The client of this node."""
    system, config = settings_of(context.run_config)
    return system.make_client(config, node_of(system, config, context.node_config))


def node_of(system: System[Any], config: RunSettings, options: Mapping[str, Any]) -> Node:
    """Which member of the roster this node is: a simulated node is told its partition, a real one says its name."""
    folder = folder_of(config)
    file = Path(str(options.get("roster") or config.roster or folder.path / ROSTER))
    stamp = file.stat().st_mtime_ns if file.exists() else 0
    return _node(file, stamp, folder.path, system.node_key, tuple(sorted(options.items())))


@lru_cache(maxsize=512)
def _node(file: Path, stamp: int, run: Path, key: str, options: tuple[Any, ...]) -> Node:
    """Made once per process, roster and node; `stamp` is when the roster was written, `key` says who the node is."""
    roster, own = _roster(file, stamp), dict(options)
    try:
        partition = roster.partition_of(str(own[key])) if key in own else int(own["partition-id"])
    except InputError as error:
        raise InputError(f"node-config {key}: {error}") from None
    return Node(roster, partition, RunFolder(run).client(roster.names[partition]), own, key in own)


@lru_cache(maxsize=4)
def _roster(file: Path, stamp: int) -> Roster:
    return read_roster(file)


def with_threads(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Answer with `client-threads` torch threads: the order of sums, and so their last bits, depend on their number."""
    import torch

    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(int(context.run_config.get("client-threads", 1)))
    try:
        return call_next(message, context)
    finally:
        torch.set_num_threads(before)


app = numpy_client_app(make_client, mods=[with_threads])
