"""Which SuperNodes a running SuperLink knows, by their keys, and registering more.

It asks Flower's Control API, as `flwr supernode` does, whose answers leave out keys.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
from flwr.cli.cli_client_interceptor import CliClientHttpInterceptor
from flwr.common.constant import HEARTBEAT_PATIENCE
from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, RegisterNodeRequest
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import FlowerError
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor

from fedsuite.errors import InputError, RunFailed, one_line
from fedsuite.privacy.identity import fingerprint
from fedsuite.storage.files import as_typed
from simulations.deploy.check.probe import Unreachable, ask
from simulations.deploy.kit.keys import read_public
from simulations.deploy.kit.server_folder import ServerFolder
from simulations.engines.processes import wait_until
from simulations.engines.proxies import asked_for, directly

MOST_RUNS, RUNNING = 100, "running"  # the newest ones are looked at
GONE = "unregistered"
NEW_KEY = "make a new key where the node is, and register that: ssh-keygen -t ecdsa -b 384 -N '' -f node.key"
PATIENCE_S = 30.0  # for a SuperLink that has just been started


@dataclass(frozen=True)
class Registered:
    """One SuperNode. status: registered (it has never connected), online, offline or unregistered (for ever); since: of
    that status, UTC.

    heartbeat: when an online one was last heard of, UTC.
    """

    name: str
    key: str
    node_id: int
    status: str
    since: str
    heartbeat: str = ""


def registered(server: ServerFolder) -> list[Registered]:
    """All SuperNodes that are registered now, in order of registration."""
    with client_of(server) as client:
        return [node for node in listed(client) if node.status != GONE]


def registered_and_running(server: ServerFolder) -> tuple[list[Registered], set[str]]:
    """The same, and Flower's ids of the runs that go on."""
    with client_of(server) as client:
        runs = client.ListRuns(ListRunsRequest(limit=MOST_RUNS)).run_dict
        going = {str(number) for number, run in runs.items() if run.status.status == RUNNING}
        return [node for node in listed(client) if node.status != GONE], going


def register(server: ServerFolder, keys: Sequence[Path]) -> Iterator[str]:
    """Register public keys; a line for each. A key that is registered already stays as it is.

    InputError at the end for keys that were revoked, after all others are registered: Flower takes no key twice.
    """
    named = {file: read_public(file) for file in keys}
    wait_until(lambda: _answers(server), PATIENCE_S, 0.5)
    revoked: list[str] = []
    with client_of(server) as client:
        known = {node.key: node for node in listed(client)}
        for file, (name, pem) in named.items():
            node = known.get(fingerprint(pem))
            if node is not None and node.status == GONE:
                revoked.append(f"{name} ({file})")
                continue
            if node is not None:
                yield f"{name}: is registered already ({node.status}), key {node.key}"
                continue
            client.RegisterNode(RegisterNodeRequest(public_key=pem, name=name))
            yield f"{name}: registered, key {fingerprint(pem)} ({file})"
    if revoked:
        raise InputError(
            f"{', '.join(revoked)}: revoked, and Flower never takes a key again that it has unregistered; {NEW_KEY}"
        )


def listed(client: ControlHttpClient) -> list[Registered]:
    """All SuperNodes that ever were registered, in order of registration."""
    nodes = client.ListNodes(ListNodesRequest()).nodes_info
    since = {
        "online": "last_activated_at",
        "offline": "last_deactivated_at",
        GONE: "unregistered_at",
    }
    return [
        Registered(
            node.name,
            fingerprint(node.public_key),
            node.node_id,
            node.status,
            getattr(node, since.get(node.status, "registered_at"))[:19].replace("T", " "),
            _heard(node),
        )
        for node in sorted(nodes, key=lambda node: str(node.registered_at))
    ]


def _heard(node: NodeInfo) -> str:
    """A heartbeat lets a node count as online for so many of its intervals."""
    if node.status != "online" or not node.online_until:
        return ""
    at = node.online_until - HEARTBEAT_PATIENCE * node.heartbeat_interval
    return datetime.fromtimestamp(at, UTC).isoformat(" ", "seconds")[:19]


def _answers(server: ServerFolder) -> bool:
    try:
        ask(server.address, server.authority)
    except Unreachable:
        return False
    return True


@contextmanager
def client_of(server: ServerFolder) -> Iterator[ControlHttpClient]:
    """Flower's client; what goes wrong with it is said in one line."""
    try:
        ask(server.address, server.authority)
    except Unreachable as error:
        raise RunFailed(
            f"{error}; start it with `fedsuite deploy server {as_typed(server.path)}`"
        ) from None
    os.environ.update(directly())  # which the client reads
    client = ControlHttpClient.from_server_address(
        server_address=str(server.address),
        insecure=False,
        root_certificates=server.authority.read_bytes(),
        interceptors=[CliClientHttpInterceptor(), RuntimeVersionHttpInterceptor("flwr CLI")],
    )
    try:
        yield client
    except httpx.HTTPStatusError as error:
        told = FlowerError.from_json(error.response.text)
        why = one_line(told.message if told else str(error))
        raise InputError(f"{server.address}: the SuperLink refuses this: {why}") from None
    except httpx.HTTPError as error:
        proxy = asked_for(server.address.host)
        raise RunFailed(
            f"{server.address}: the SuperLink does not answer any more ({error}){f'; {proxy}' if proxy else ''}"
        ) from None
    finally:
        client.close()
