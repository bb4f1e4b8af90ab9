"""Who takes part: wait for exactly the expected nodes, ask each once who it is, and from then on speak of partitions.

Node ids are drawn anew at every start and say nothing about data; partitions 0..N-1 and names are the clients' own and stay
the same, so that sampling, history and private state do not depend on how a run was started.
"""

import time
from collections.abc import Mapping, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

from fedsuite.arrays import LARGEST_COUNT
from fedsuite.config import RunSettings
from fedsuite.errors import RunFailed, one_line
from fedsuite.federation import ClientInfo, Scalar
from fedsuite.run_folder import RunFolder
from strategies.runtime.exchange import Members, exchange
from strategies.runtime.messages import identity_message, read_reply

_IDENTITY = ("partition", "name", "num-examples")


def gather(
    grid: Grid, names: Sequence[str], resume_round: int, settings: RunSettings, folder: RunFolder
) -> Members:
    """Wait for a node of every name on the roster and learn which is which; RunFailed if that does not work out."""
    expected, deadline_s = len(names), settings.reply_deadline_s
    nodes = wait_for_nodes(grid, expected, settings.node_deadline_s)
    found: dict[int, tuple[ClientInfo, int]] = {}

    def learn(position: int, reply: Message, _: float) -> None:
        raw = read_reply(reply)
        if raw.error:
            raise RunFailed(f"a client could not say who it is: {raw.error}")
        info = _read_identity(raw.properties)
        if info.partition in found:
            raise RunFailed(
                f"two clients call themselves partition {info.partition} "
                f"({found[info.partition][0].name} and {info.name}); give each its own"
            )
        found[info.partition] = (info, nodes[position])

    facts = {"run-key": folder.run_key()} if settings.roster else {}
    queries = (identity_message(node, resume_round, 2 * deadline_s, facts) for node in nodes)
    silent = exchange(grid, queries, deadline_s, learn, folder)
    if silent:
        raise RunFailed(
            f"{len(silent)} of {expected} clients did not say who they are within "
            f"{deadline_s:g} s (reply-deadline-s)"
        )
    order = sorted(found)
    if order != list(range(expected)):
        raise RunFailed(f"partitions must be 0..{expected - 1}, the clients are {order}")
    for partition, name in enumerate(names):
        if (own := found[partition][0].name) != name:
            raise RunFailed(
                f"partition {partition} calls itself {own!r}, the roster has {name!r}; give the node the roster of this run"
            )
    return Members(tuple(found[p][0] for p in order), {p: found[p][1] for p in order})


def wait_for_nodes(grid: Grid, expected: int, deadline_s: float) -> list[int]:
    """Ids of exactly `expected` connected nodes."""
    give_up = time.monotonic() + deadline_s
    while True:
        nodes = sorted(grid.get_node_ids())
        if len(nodes) == expected:
            return nodes
        if len(nodes) > expected or time.monotonic() >= give_up:
            raise RunFailed(
                f"{len(nodes)} nodes are connected, the configuration needs {expected}; simulate with "
                f"--federation-config num-supernodes={expected}, or connect {expected} SuperNodes "
                f"within node-deadline-s = {deadline_s:g}"
            )
        time.sleep(0.02)


def _read_identity(properties: Mapping[str, object]) -> ClientInfo:
    partition, name, examples = (properties.get(key) for key in _IDENTITY)
    if type(partition) is not int or type(examples) is not int or not isinstance(name, str):
        raise RunFailed(
            "a client's get_properties must return partition (int), name (str) and num-examples (int), "
            f"got {one_line(str(dict(properties)))}"
        )
    if (
        not name.strip()
        or name != one_line(name.strip(), 200)
        or not 0 <= examples <= LARGEST_COUNT
    ):
        shown = one_line(repr(name))
        raise RunFailed(f"partition {partition}: bad name {shown} or num-examples {examples}")
    details: dict[str, Scalar] = {
        one_line(key): one_line(value) if isinstance(value, str) else value
        for key, value in properties.items()
        if key not in _IDENTITY and isinstance(value, int | float | str | bool)
    }
    return ClientInfo(partition, name, examples, details)
