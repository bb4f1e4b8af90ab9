"""Clients as members of secure sums, where a run has them (clients/summing.py), whatever their system."""

from pathlib import Path
from typing import Any

from flwr.client import NumPyClient

from clients.sum_state import Peers, SumState
from clients.summing import SummingClient
from fedsuite.errors import InputError
from fedsuite.privacy.identity import Key, read_key
from fedsuite.privacy.sum_terms import ON, SumTerms, terms_of
from fedsuite.roster.node import NodeSettings
from fedsuite.settings.config import RunSettings
from fedsuite.storage.files import telling
from simulations.systems import Node


def as_member(client: NumPyClient, config: RunSettings, node: Node) -> NumPyClient:
    """The client, which masks what it sends if its run says so."""
    if (terms := _terms(config)) is None:
        return client
    name, own_key = node.member.name, _own_key(node)
    pinned = {p: member.key for p, member in enumerate(node.roster.members)} if own_key else None
    peers = Peers(node.folder, name, own_key, pinned)
    state, many = SumState(node.folder, name), len(node.roster)
    return SummingClient(client, terms, state, peers, node.partition, many, config.num_rounds)


def accepts_sums(config: RunSettings, own: NodeSettings) -> None:
    """InputError where a node that wants its changes masked would send them in the clear."""
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
