"""`fedsuite deploy revoke`: a node that may not come back with the key that it has."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from flwr.proto.control_pb2 import UnregisterNodeRequest

from fedsuite.errors import InputError
from fedsuite.roster.members import Roster, read_roster
from fedsuite.roster.node_report import fingerprint_of
from fedsuite.storage.files import telling
from simulations.deploy.check.registered import GONE, NEW_KEY, Registered, client_of, listed
from simulations.deploy.kit.server_folder import ServerFolder


def revoke(server: ServerFolder, name: str) -> Iterator[str]:
    """Unregister the node of this name at the running SuperLink, and move its public key from keys/ to revoked/.

    A node is found by the key that keys/ or the roster has for the name, else by the name that it was registered with.
    Lines that say what was done; InputError if there is no such node, or several.
    """
    roster = read_roster(server.roster) if server.roster.is_file() else None
    public = server.path / "keys" / f"{name}.pub"
    key = _key_of(public, roster, name)
    with client_of(server) as client:
        nodes = listed(client)
        node = _meant(nodes, key, name)
        if node is None and not key:
            known = ", ".join(n.name for n in nodes if n.status != GONE) or "nobody"
            raise InputError(
                f"{name}: neither {public.parent}, nor the roster, nor the SuperLink knows it; registered are: {known}"
            )
        if node is not None and node.status != GONE:
            client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
    yield _outcome(name, node, key)
    if public.exists():
        yield f"{_put_aside(public)}: its public key, so that `fedsuite deploy register` leaves it out"
    if roster is not None and name in roster.names:
        yield (
            f"{server.roster}: {name} is still on it, and runs with this roster wait for {name}; have one made without it "
            "for new runs"
        )


def _key_of(public: Path, roster: Roster | None, name: str) -> str:
    """The fingerprint of the name's key; "" where nobody says one."""
    if public.is_file():
        return fingerprint_of(public)
    members = roster.members if roster else ()
    return next((member.key for member in members if member.name == name), "")


def _meant(nodes: Sequence[Registered], key: str, name: str) -> Registered | None:
    if key:
        return next((node for node in nodes if node.key == key), None)
    found = [node for node in nodes if node.name == name and node.status != GONE]
    if len(found) > 1:
        keys = ", ".join(node.key for node in found)
        raise InputError(
            f"{name}: several nodes were registered with this name, with the keys {keys}; unregister the one that is meant "
            "by its node id: `flwr supernode unregister`"
        )
    return found[0] if found else None


def _outcome(name: str, node: Registered | None, key: str) -> str:
    if node is None:
        return f"{name}: was not registered, key {key}"
    if node.status == GONE:
        return f"{name}: was revoked already, key {node.key}"
    return (
        f"{name}: unregistered ({node.status}), key {node.key}; Flower never takes this key again: to let the node back in, "
        f"{NEW_KEY}"
    )


def _put_aside(public: Path) -> Path:
    """Move a public key to revoked/; where it lies then."""
    folder = public.parent.with_name("revoked")
    with telling(folder):
        folder.mkdir(exist_ok=True)
    names = (f"{public.stem}{'' if n == 1 else f'-{n}'}.pub" for n in range(1, 1000))
    place = next(folder / name for name in names if not (folder / name).exists())
    with telling(public):
        public.rename(place)
    return place
