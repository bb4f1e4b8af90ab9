"""`fedsuite deploy add`: a node that joins a deployment which is there already.

Its folder and key are made as `fedsuite deploy init` makes them, in the folder of the whole deployment. Its entry on the
roster is for new runs: a run that was begun keeps the roster that it has stored, and is resumed with that one.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.roster.members import ROSTER, Roster, read_roster, write_roster
from fedsuite.roster.node_report import Part, extended, fingerprint_of
from fedsuite.storage.files import as_typed, make_folder, open_new, telling, write_atomically
from simulations.deploy.kit.address import Address
from simulations.deploy.kit.bundle import (
    AUTHORITY,
    KEY,
    NODE_FILE,
    checked_names,
    delete_empty_lock,
    write_node,
)
from simulations.deploy.kit.certificates import hosts_of, read_authority, read_certificate
from simulations.deploy.kit.server_folder import ServerFolder, read_server
from simulations.deploy.kit.units import compose_text

_SERVICE = re.compile(r"^  node-([A-Za-z0-9._-]+):$", re.MULTILINE)


def node_file(kit: Path, name: str) -> Path:
    """Where the node's own file lies."""
    return kit / "nodes" / name / NODE_FILE


def add_node(kit: Path, name: str) -> Iterator[str]:
    """Write nodes/NAME and the server's copy of its public key; lines that say what was done and what is left to do.

    InputError, and nothing written, if there is something of that name.
    """
    (name,) = checked_names([name])
    server = read_server(kit / "server")
    address = _address(server)
    read_authority(kit / "ca" / AUTHORITY)
    authority = (kit / "ca" / AUTHORITY).read_bytes()
    public = server.path / "keys" / f"{name}.pub"
    folder = node_file(kit, name).parent
    if public.exists():
        raise InputError(f"{public}: is there already, nothing was written; choose another name")
    lines: list[bytes] = []
    made = make_folder(folder, lambda to: lines.append(write_node(to, name, authority, address)))
    if not made:
        raise InputError(
            f"{folder}: is there already, nothing in it was touched; choose another name, or give --run or --part for its "
            "entry on the roster"
        )
    delete_empty_lock(folder)
    with telling(public), open_new(public, 0o644) as opened:
        opened.write(lines[0])
    yield f"{folder}: for that node's machine alone; its key is {fingerprint_of(folder / f'{KEY}.pub')}"
    yield from _in_compose(kit / "compose.yml", name, server.port)
    yield f"register its key: fedsuite deploy register {as_typed(server.path)} (whoever is known there is skipped)"


def enter(kit: Path, name: str, part: Part, source: str) -> Iterator[str]:
    """Put a node on the roster, at the end, and hand the roster to the server and to every node of the folder.

    The roster of before is kept beside the server's. InputError, and nothing written, if the node does not go with it.
    """
    server = read_server(kit / "server")
    if not server.roster.is_file():
        raise InputError(
            f"{server.roster}: no such file; nobody is on a roster yet, so make one of all nodes: `fedsuite deploy roster`"
        )
    if part.member.name != name:
        raise InputError(f"{source}: is what {part.member.name} says, not {name}; name that node")
    before = read_roster(server.roster)
    key = fingerprint_of(server.path / "keys" / f"{name}.pub")
    bound = replace(part, member=replace(part.member, key=key))
    roster = extended(before, bound, source)
    yield f"{_kept(server.roster, before)}: the roster of before, for runs that were begun with it"
    for file in (server.roster, *sorted((kit / "nodes").glob(f"*/{ROSTER}"))):
        write_roster(file, roster)
    write_roster(node_file(kit, name).with_name(ROSTER), roster)
    yield f"{server.roster}: {name} is {len(roster)} of {len(roster)}; new runs wait for all of them"
    yield "every node needs this roster: those of this folder have it, copy it to the others"


def _address(server: ServerFolder) -> Address:
    """Where nodes reach the SuperLink: the first host that its certificate is for."""
    file = server.path / "server.pem"
    hosts = hosts_of(read_certificate(file, "put it back"))
    if not hosts:
        raise InputError(f"{file}: is for no host; renew it with `fedsuite deploy renew`")
    return Address(hosts[0], server.port)


def _in_compose(file: Path, name: str, port: int) -> Iterator[str]:
    """Its service among the others, where nobody has changed the file."""
    if not file.is_file():
        return
    with telling(file):
        text = file.read_text(encoding="utf-8", errors="replace")
    names = _SERVICE.findall(text)
    if text == compose_text(names, port):
        write_atomically(file, compose_text([*names, name], port).encode())
        yield f"{file}: has a service node-{name}"
    else:
        yield f"{file}: was changed by hand and is left alone; add a service for {name} there, like the others"


def _kept(file: Path, roster: Roster) -> Path:
    """A copy of a roster that is replaced, under a name that says which it is."""
    copy = file.with_name(f"roster-{roster.digest[:12]}.json")
    write_roster(copy, roster)
    return copy
