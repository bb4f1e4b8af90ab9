"""The Flower ClientApp of every system: finds the system in the run-config and lets it make the client.

A node whose node-config names a file of its own (node="/path/node.toml") takes from it who it is, all paths, and what it
refuses; any other node takes all from the run-config.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp.typing import ClientAppCallable

from clients.numpy_client_app import error_reply, numpy_client_app
from fedsuite.errors import InputError, RunFailed
from fedsuite.roster.members import ROSTER, Roster, read_roster
from fedsuite.roster.node import NodeSettings
from fedsuite.roster.software import facts, keeping_out, of_here
from fedsuite.runs.folder import RunFolder, folder_of
from fedsuite.settings.config import RunSettings
from fedsuite.settings.values import importing_only
from simulations.app.machine import (
    keep_freed_memory,
    leave_the_compiler_out,
    open_more_files,
    variables,
)
from simulations.app.members_of_sums import accepts_secrecy, as_member
from simulations.app.own_node import as_own, begin_run, check_system, own_node, state_of
from simulations.systems import Later, Node, System, load_system, settings_of


def import_clients(system: str) -> None:
    """What the first message to this process would import of a system; what is wrong with it is left to that message."""
    with suppress(Exception):
        if isinstance(make := load_system(system).make_client, Later):
            make.load()


def make_client(context: Context) -> NumPyClient:
    """The client of this node."""
    if (own := own_node(context.node_config)) is not None:
        try:
            return _own_client(own, context)
        except InputError as error:
            raise InputError(f"node {own.name}: {error}") from error
    system, config = settings_of(context.run_config)
    node = node_of(system, config, context.node_config)
    return as_member(system.make_client(config, node), config, node)


def _own_client(own: NodeSettings, context: Context) -> NumPyClient:
    """The client of a node that has a file of its own; InputError for what it refuses."""
    check_system(own, context.run_config)
    system, settings = settings_of(context.run_config)
    folder = state_of(own, context.run_id)
    config = as_own(settings, own, folder)
    system.accepts(config, own)
    accepts_secrecy(config, own)
    node = _own(own, _stamp(Path(own.roster)), folder, _plain(context))
    return as_member(system.make_client(config, node), config, node)


def node_of(system: System[Any], config: RunSettings, options: Mapping[str, Any]) -> Node:
    """Which member of the roster this node is: a simulated node is told its partition, a real one says its name."""
    folder, file = _places(config, str(options.get("roster") or config.roster), os.getcwd())
    return _node(file, _stamp(file), folder, system.node_key, tuple(sorted(options.items())))


@lru_cache(maxsize=16)
def _places(config: RunSettings, roster: str, here: str) -> tuple[Path, Path]:
    """Folder of the run, and the roster, by default in it. here: the working folder, where such paths may begin."""
    folder = folder_of(config).path
    return folder, Path(roster) if roster else folder / ROSTER


@lru_cache(maxsize=512)
def _node(file: Path, stamp: int, run: Path, key: str, options: tuple[Any, ...]) -> Node:
    """Made once per process, roster and node; `stamp` is when the roster was written, `key` says who the node is."""
    roster, own = _roster(file, stamp), dict(options)
    try:
        partition = roster.partition_of(str(own[key])) if key in own else int(own["partition-id"])
    except InputError as error:
        raise InputError(f"node-config {key}: {error}") from None
    return Node(
        roster, partition, RunFolder(run).client(roster.members[partition].name), own, key in own
    )


@lru_cache(maxsize=64)
def _own(own: NodeSettings, stamp: int, folder: Path, options: tuple[Any, ...]) -> Node:
    """The same for a node with a file of its own."""
    roster = _roster(Path(own.roster), stamp)
    partition = roster.partition_of(own.name)
    return Node(roster, partition, folder / own.name, dict(options), True, own)


@lru_cache(maxsize=4)
def _roster(file: Path, stamp: int) -> Roster:
    return read_roster(file)


def _stamp(file: Path) -> int:
    """When a file was written; 0 if it is not there."""
    with suppress(FileNotFoundError, NotADirectoryError, ValueError):
        return os.stat(file).st_mtime_ns
    return 0


def _plain(context: Context) -> tuple[Any, ...]:
    return tuple(sorted(context.node_config.items()))


def says_who(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """With who a node is go its roster, versions and machine; where it must not take part, its roster and versions alone."""
    if message.metadata.message_type != "query":
        return call_next(message, context)
    asked = message.content["config"]
    try:
        own = own_node(context.node_config)
        roster, name = _known(own, context)
        mine = facts(roster.digest)
        if "roster" in asked and keeping_out(asked, mine):
            told = ConfigRecord({"name": name, **mine})
            return Message(RecordDict({"properties": told}), reply_to=message)
        if own is not None:
            begin_run(own, context.run_id, asked.get("run-key"))
    except (InputError, RunFailed) as error:
        return error_reply(message, context, error)
    reply = call_next(message, context)
    properties = None if reply.has_error() else reply.content["properties"]
    if "roster" in asked and isinstance(properties, ConfigRecord):
        properties.update({**of_here(), **mine})
    return reply


def _known(own: NodeSettings | None, context: Context) -> tuple[Roster, str]:
    """The node's roster, and its name there."""
    if own is not None:
        file = Path(own.roster)
        return _roster(file, _stamp(file)), own.name
    node = node_of(*settings_of(context.run_config), context.node_config)
    return node.roster, node.member.name


def as_the_node_says(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Answer with the node's number of torch threads, else the run's; import only what the node allows."""
    keep_freed_memory()
    open_more_files()
    try:
        context = _playing(message, context)
        own = own_node(context.node_config)
    except InputError as error:
        return error_reply(message, context, error)
    config = context.run_config
    threads = (own.threads if own else 0) or int(config.get("client-threads", 1))
    with importing_only(own.allowed) if own else nullcontext():
        import_clients(str(config.get("system", "")))
        with torch_threads(threads):
            return call_next(message, context)


def _playing(message: Message, context: Context) -> Context:
    """A simulated node answers as the member that a message names; a node with a name of its own never does."""
    asked, own = message.content.get("config"), context.node_config
    if not isinstance(asked, ConfigRecord) or "as-partition" not in asked:
        return context
    if "partition-id" not in own:
        raise InputError("a server named a member for this node to play; it says itself who it is")
    played = {**own, "partition-id": int(str(asked["as-partition"]))}
    return Context(context.run_id, context.node_id, played, context.state, context.run_config)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """The order of sums, and so their last bits, depend on the number of threads.

    Clients that know no torch are spared its import, seconds of a processor. Where it is imported inside the block, it finds
    the number in the environment, also one above that of the cores.
    """
    if "torch" not in sys.modules:
        with variables({"OMP_NUM_THREADS": str(count), "MKL_DYNAMIC": "FALSE"}):
            yield
        return
    import torch

    leave_the_compiler_out()
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


app = numpy_client_app(make_client, mods=[as_the_node_says, says_who])
