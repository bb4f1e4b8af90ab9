"""The folder of a whole deployment, written by `fedsuite deploy init`: what the server and each node needs.

ca/             the authority's key; stays with whoever made the folder
server/         goes to the SuperLink's machine (server_folder.py)
nodes/NAME/     goes to that node's machine: node.toml, node.key, node.key.pub, ca.crt, data/, cache/, state/
compose.yml, systemd/
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.roster.members import ROSTER, Roster, write_roster
from fedsuite.roster.node import drawn_noise_seed
from fedsuite.roster.node_report import fingerprint_of
from fedsuite.storage.deleting import delete_file
from fedsuite.storage.files import (
    PRIVATE_FILE,
    lock_of,
    make_folder,
    make_private,
    open_new,
    path_name,
)
from simulations.deploy.kit.address import Address
from simulations.deploy.kit.certificates import DAYS, Signed, make_authority, make_server
from simulations.deploy.kit.keys import make_key
from simulations.deploy.kit.server_folder import connection_text, reached, settings_text
from simulations.deploy.kit.units import COMPOSE_SUPERLINK, compose_text, node_unit, superlink_unit

NODE_FILE, KEY, AUTHORITY = "node.toml", "node.key", "ca.crt"


def make_kit(folder: Path, names: Sequence[str], address: Address, days: int = DAYS) -> None:
    """Write all of it, or nothing; InputError if something is there."""
    names = checked_names(names)
    place = folder.absolute()

    def fill(to: Path) -> None:
        authority = make_authority(2 * days)  # so that the server's can be renewed
        (to / "nodes").mkdir(parents=True)
        _write_authority(to / "ca", authority)
        _write_server(to / "server", place / "server", authority, address, days)
        for name in names:
            public = write_node(to / "nodes" / name, name, authority.certificate_pem(), address)
            _write(to / "server" / "keys" / f"{name}.pub", public)
        _write(to / "compose.yml", compose_text(names, address.port).encode())
        _write(to / "systemd" / "fedsuite-superlink.service", superlink_unit().encode())
        _write(to / "systemd" / "fedsuite-node@.service", node_unit().encode())

    if not make_folder(place, fill):
        raise InputError(
            f"{folder}: is there already, nothing in it was touched; give a new folder"
        )
    delete_empty_lock(place)


def delete_empty_lock(folder: Path) -> None:
    """The lock of a folder that nobody makes again; ours is empty, somebody else's file of that name is not."""
    if not (lock := lock_of(folder)).stat().st_size:
        delete_file(lock)


def checked_names(names: Sequence[str]) -> list[str]:
    """Names of nodes, fit for members, folders and containers; InputError if one is not."""
    if not any(names):
        raise InputError("--nodes: expected names such as oak,elm,ash, got none")
    checked = [path_name(name, f"--nodes: {name}: a name", plain=True) for name in names]
    twice = sorted({name for name in checked if checked.count(name) > 1})
    if twice:
        raise InputError(f"--nodes: {twice[0]} stands there twice; names must differ")
    return checked


def node_folders(kit: Path) -> list[Path]:
    """The folders of a kit's nodes, by name; InputError if there are none."""
    found = sorted(file.parent for file in (kit / "nodes").glob(f"*/{NODE_FILE}"))
    if not found:
        raise InputError(
            f"{kit}: no nodes/NAME/{NODE_FILE} in it; expected a folder that `fedsuite deploy init` made"
        )
    return found


def hand_out(kit: Path, roster: Roster) -> None:
    """Bind the members to their nodes' keys, and give the roster to the server and to every node of the folder.

    InputError, and nothing written, if members and nodes are not the same or some of them have a roster already.
    """
    nodes = {folder.name: folder for folder in node_folders(kit)}
    if odd := sorted(nodes.keys() ^ set(roster.names)):
        where = "nodes/" if odd[0] in nodes else "the roster"
        other = "the roster" if odd[0] in nodes else "nodes/"
        raise InputError(f"{kit}: {odd[0]} is in {where} and not in {other}; both must be the same")
    files = [kit / "server" / ROSTER, *(folder / ROSTER for folder in nodes.values())]
    for file in files:
        if file.exists():
            raise InputError(f"{file}: is there already, nothing was touched; remove it first")
    bound = [replace(m, key=fingerprint_of(nodes[m.name] / f"{KEY}.pub")) for m in roster.members]
    for file in files:
        write_roster(file, replace(roster, members=tuple(bound)))


def _write_authority(to: Path, authority: Signed) -> None:
    make_private(to)
    _write(to / AUTHORITY, authority.certificate_pem())
    _write(to / "ca.key", authority.key_pem(), private=True)


def _write_server(to: Path, place: Path, authority: Signed, address: Address, days: int) -> None:
    """place: where the folder will lie."""
    hosts = [address.host, "localhost", "127.0.0.1", "::1", COMPOSE_SUPERLINK]
    made = make_server(authority, hosts, days)
    _write(to / AUTHORITY, authority.certificate_pem())
    _write(to / "server.pem", made.certificate_pem())
    _write(to / "server.key", made.key_pem(), private=True)
    listen = _listen(address)
    local = Address(reached(listen), address.port)
    _write(to / "server.toml", settings_text(listen, address.port).encode())
    _write(to / "flwr" / "config.toml", connection_text(place, local).encode())
    (to / "runs").mkdir()


def _listen(address: Address) -> str:
    """Where a server that nodes reach there listens: for this machine alone where only this machine can mean it."""
    if ":" in address.host:
        return "::1" if address.is_local else "::"
    return "127.0.0.1" if address.is_local else "0.0.0.0"


def write_node(to: Path, name: str, authority: bytes, address: Address) -> bytes:
    """A node's folder, with the authority's certificate in PEM; the line of its public key."""
    private, public = make_key(name)
    make_private(to)
    _write(to / NODE_FILE, node_text(name, address).encode(), private=True)  # for its noise-seed
    _write(to / KEY, private, private=True)
    _write(to / f"{KEY}.pub", public)
    _write(to / AUTHORITY, authority)
    for folder in ("data", "cache", "state"):
        make_private(to / folder)
    return public


def node_text(name: str, address: Address) -> str:
    """node.toml; optional keys are comments."""
    return f"""\
# What node {name} says for itself; docs/deployment.md explains the keys. Paths start at this file's folder.
name = {json.dumps(name)}
roster = "{ROSTER}"  # put the roster beside this file when it is made
state-dir = "state"
superlink = {json.dumps(str(address))}  # for `fedsuite deploy node`
# device = "cuda"  # left out: as the run says
# threads = 4  # left out: as the run says
# allow-systems = ["fedvln"]  # left out: fedvln, cdl, fedrl
# most-shared = "language-encoder"  # FedVLN; left out: agent
# secure-sums = true  # FedVLN, CDL; left out: false
# fewest-members = 5  # of a secure sum; left out: 3
# least-noise-multiplier = 1.0  # FedVLN, CDL: of its own noise; left out: as the run says
# largest-clip = 1.0  # FedVLN, CDL: of its own clipping; left out: as the run says
# sealed = true  # CDL, FedRL; left out: false
own-key = "{KEY}"  # by which peers of secure sums know this node
# least-noise-sigma = 1.0  # FedRL; needs noise-seed
# largest-q-clip = 10.0  # FedRL
# noise-seed = {drawn_noise_seed()}  # FedRL: drawn for this node alone; nobody else may know it

[data]
cache-dir = "cache"
# dir = "data"  # left out: generated by the project
# features = "data/features.tsv"  # FedVLN
# word-vectors = "data/vectors.txt"  # FedRL, Text2Action
"""


def _write(file: Path, data: bytes, private: bool = False) -> None:
    """A new file; private: for its owner alone, from the start."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open_new(file, PRIVATE_FILE if private else 0o644) as opened:
        opened.write(data)
