"""Clients as members among peers: of secure sums (clients/summing.py), or with keys to seal messages for each other."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient

from clients.sealed_keys import SealedKeys
from clients.sum_state import Peers, SumState
from clients.summing import SummingClient
from fedsuite.averaging.privacy_settings import CLIENT, EXAMPLE, SECRET, SEEDED
from fedsuite.errors import InputError
from fedsuite.privacy.identity import Key, read_key
from fedsuite.privacy.noise_source import noise_source
from fedsuite.privacy.sealing import ON as SEALED
from fedsuite.privacy.sum_terms import ON, terms_of
from fedsuite.randomness import rng_for
from fedsuite.roster.node import NodeSettings
from fedsuite.settings.config import RunSettings
from fedsuite.storage.files import telling
from simulations.systems import Node


def as_member(client: NumPyClient, config: RunSettings, node: Node) -> NumPyClient:
    """The client, which masks what it sends if its run says so."""
    if (terms := terms_of(config)) is None:
        return client
    if node.own is not None:
        own = node.own
        terms = replace(terms, least=own.fewest_members, largest_clip=own.largest_clip)
    state, many = SumState(node.folder, node.member.name), len(node.roster)
    rounds, drawn = config.num_rounds, terms.private.noise if terms.private else SEEDED

    def noise(number: int) -> np.random.Generator:
        seeded = partial(rng_for, config.seed, "noise of a secure sum", number, node.partition)
        return noise_source(drawn, seeded)

    return SummingClient(client, terms, state, _peers(node), node.partition, many, rounds, noise)


def sealed_keys(config: RunSettings, node: Node) -> SealedKeys:
    """The keys with which a client seals what it sends its peers (fedsuite/privacy/sealing.py)."""
    name, many = node.member.name, len(node.roster)
    return SealedKeys(node.folder, name, config.name, node.partition, many, _peers(node))


def _peers(node: Node) -> Peers:
    own_key = _own_key(node)
    pinned = {p: member.key for p, member in enumerate(node.roster.members)} if own_key else None
    return Peers(node.folder, node.member.name, own_key, pinned)


def accepts_secrecy(config: RunSettings, own: NodeSettings) -> None:
    """InputError where a node would send in the clear what it wants masked or sealed, or with less noise than it wants."""
    summed = terms_of(config) is not None
    for complaint in _of_own_noise(getattr(config, "privacy", None), own, summed):
        raise InputError(complaint)
    if own.sealed and not getattr(getattr(config, "federation", None), "sealed", False):
        raise InputError(
            f"{SEALED}: false, or a system that has no such key, but this node seals what it sends its peers (sealed)"
        )
    if own.secure_sums and not summed:
        raise InputError(
            f"{ON}: false, or a system that has none, but this node takes part in secure sums only (secure-sums)"
        )


def _of_own_noise(run: Any, own: NodeSettings, summed: bool) -> Iterator[str]:
    """What the node does to its own steps, or to its own part of a secure sum, which is all that it can answer for.

    run: a section that says how; summed: whether the server gets sums alone.
    """
    unit = getattr(run, "unit", None)
    asked = {
        "least-noise-multiplier": own.least_noise_multiplier,
        "largest-clip": own.largest_clip,
    }
    key = next((key for key, value in asked.items() if value), "")
    if unit is None or not key:
        return
    if unit != EXAMPLE and not (unit == CLIENT and summed):
        yield (
            f"privacy.unit: the run wants {unit}, this node sends nothing that it has not clipped and noised itself, as "
            f"with {EXAMPLE}, or with {CLIENT} and {ON} = true ({key})"
        )
    elif unit == CLIENT and not own.own_key:
        yield (
            f"own-key: none, so that a server could play all other members of a secure sum, who draw no noise; {key} needs "
            "one"
        )
    if run.noise_multiplier < own.least_noise_multiplier:
        yield (
            f"privacy.noise-multiplier: the run wants {run.noise_multiplier:g}, this node allows "
            f"{own.least_noise_multiplier:g} at least (least-noise-multiplier)"
        )
    if own.least_noise_multiplier and run.noise != SECRET:
        yield (
            f"privacy.noise: the run wants {run.noise}, which others could draw as well; this node allows {SECRET} only "
            "(least-noise-multiplier)"
        )
    if own.largest_clip and run.clip > own.largest_clip:
        yield (
            f"privacy.clip: the run wants {run.clip:g}, this node allows {own.largest_clip:g} at most (largest-clip)"
        )


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
