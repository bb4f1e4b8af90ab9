"""Clients as members among peers: of secure sums (clients/summing.py), or with keys to seal messages for each other."""

from pathlib import Path
from typing import Any

from flwr.client import NumPyClient

from clients.sealed_keys import SealedKeys
from clients.sum_state import Peers, SumState
from clients.summing import SummingClient
from fedsuite.errors import InputError
from fedsuite.privacy.identity import Key, read_key
from fedsuite.privacy.sealing import ON as SEALED
from fedsuite.privacy.sum_terms import ON, SumTerms, terms_of
from fedsuite.roster.node import NodeSettings
from fedsuite.settings.config import RunSettings
from fedsuite.storage.files import telling
from simulations.systems import Node


def as_member(client: NumPyClient, config: RunSettings, node: Node) -> NumPyClient:
    """The client, which masks what it sends if its run says so."""
    if (terms := _terms(config)) is None:
        return client
    state, many = SumState(node.folder, node.member.name), len(node.roster)
    rounds = config.num_rounds
    return SummingClient(client, terms, state, _peers(node), node.partition, many, rounds)


def sealed_keys(config: RunSettings, node: Node) -> SealedKeys:
    """The keys with which a client seals what it sends its peers (fedsuite/privacy/sealing.py)."""
    name, many = node.member.name, len(node.roster)
    return SealedKeys(node.folder, name, config.name, node.partition, many, _peers(node))


def _peers(node: Node) -> Peers:
    own_key = _own_key(node)
    pinned = {p: member.key for p, member in enumerate(node.roster.members)} if own_key else None
    return Peers(node.folder, node.member.name, own_key, pinned)


def accepts_sums(config: RunSettings, own: NodeSettings) -> None:
    """InputError where a node that wants its changes masked, or its messages sealed, would send them in the clear."""
    if own.sealed and not getattr(getattr(config, "federation", None), "sealed", False):
        raise InputError(
            f"{SEALED}: false, or a system that has no such key, but this node seals what it sends its peers (sealed)"
        )
    if own.secure_sums and _terms(config) is None:
        raise InputError(
            f"{ON}: false, or a system that has none, but this node takes part in secure sums only (secure-sums)"
        )


def _terms(config: Any) -> SumTerms | None:
    return terms_of(getattr(config, "federation", None))


def _own_key(node: Node) -> Key | None:
    """The key of the node's own file."""
    if node.own is None or not node.own.own_key:
        return None
    file = Path(node.own.own_key)
    with telling(file):
        data = file.read_bytes()
    try:
        return read_key(data)
    except ValueError as error:
        raise InputError(
            f"{file}: {error}; name in own-key the key that the SuperNode connects with"
        ) from None
