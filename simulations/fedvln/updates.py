"""What the server sees of houses in a round that is played again, for attacks on it, and what defends a run."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from flwr.client import NumPyClient

from clients.house import HouseClient
from clients.summing import SummingClient
from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.privacy.attacks.words import row_lengths
from fedsuite.privacy.sum_terms import MASKED
from fedsuite.settings.config import limits_of, value_of
from fedsuite.settings.values import Value
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.canaries import Canaries, with_canaries
from fedsuite.vln.data.dataset import House
from fedsuite.vln.data.instructions import Vocabulary
from fedsuite.vln.data.roster import open_house
from fedsuite.vln.data.sources import places_of
from fedsuite.vln.stages import exchange_of
from simulations.audits.audited import Audited
from simulations.audits.replayed import Altered, Round, Visit

EMBEDDING = "encoder.embedding.weight"
# All that a visit may send, as it is; keys of privacy take their defaults beside.
OPEN: Mapping[str, Value] = {
    "federation.share": "agent",
    "federation.codec": "none",
    "federation.secure-sum": False,
}
BATCH = 256  # instructions of a control's step
DEFENCES = "privacy."
ALONE: Mapping[str, Value] = {"federation.houses-per-message": 0}


def played(
    audited: Audited,
    changes: Mapping[str, Value] | None = None,
    altered: Altered = lambda client: client,
    first: bool = False,
) -> Round:
    """A round with a message for each house, as on nodes of their own: messages of several are a simulation's alone."""
    own = ALONE if audited.config.federation.houses_per_message else {}
    return audited.played({**own, **(changes or {})}, altered, first)


def undefended(config: FedVLNConfig) -> dict[str, Value]:
    """The keys that defend the run, with the values of a run that nothing defends; {} where nothing does."""
    usual = FedVLNConfig()
    keys = [key for key in limits_of(FedVLNConfig) if key.startswith(DEFENCES)]
    plain = {**{key: value_of(usual, key) for key in keys}, **OPEN}
    return {key: value for key, value in plain.items() if value_of(config, key) != value}


def one_pass(config: FedVLNConfig) -> dict[str, Value]:
    """Settings of a control: a visit that reads every instruction once, in as few steps as possible, and sends all."""
    batch = max(BATCH, config.objective.batch_size)
    return {**undefended(config), "federation.local-epochs": 1, "objective.batch-size": batch}


def houses_of(audited: Audited, partition: int) -> tuple[House, ...]:
    """The houses of a member, as its client opens them."""
    member, config = audited.roster.members[partition], audited.config
    known = zip(member.names("houses"), member.listed("numbers", int), strict=True)
    words, places = Vocabulary(audited.roster.words), places_of(config)
    return tuple(open_house(config, places, scan, number, words) for scan, number in known)


def updates(played: Round, config: FedVLNConfig, most: int) -> list[tuple[Visit, Arrays]]:
    """What the server has of the first `most` clients that trained: each visit, and the model that came of it, with how much
    control variates have changed; under secure sums of every one of them the same, what the server has made of their sum."""
    found = []
    if config.federation.secure_sum:
        masked = [visit for visit in played.training if MASKED in visit.task.expected]
        state = played.result.state
        model = exchange_of(config).share.select(state.arrays)
        for name, now in with_prefix(under_prefix(state.optimizer, CONTROL), CONTROL).items():
            model[name] = now - masked[0].task.arrays[name]
        return [(visit, model) for visit in masked[:most]]
    for visit in played.training[:most]:
        exchange = exchange_of(config)
        start = exchange.share.select(visit.task.arrays)
        found.append((visit, exchange.decode(start, visit.reply.arrays)))
    return found


def moved_rows(visit: Visit, model: Arrays, vocabulary: int) -> np.ndarray:
    """How far each word's row has moved [V]; zeros where the table does not leave the house.

    Control variates move rows of all words; where they travel, it is the row of the mean gradient that has changed.
    """
    if (gradient := model.get(CONTROL + EMBEDDING)) is not None:
        return row_lengths(np.zeros_like(gradient), gradient)
    if EMBEDDING not in model:
        return np.zeros(vocabulary)
    return row_lengths(visit.task.arrays[EMBEDDING], model[EMBEDDING])


def holding(canaries: Mapping[int, Canaries], longest: int) -> Altered:
    """Clients that have canaries among their instructions, by partition."""

    def altered(house: HouseClient) -> None:
        if house.site.partition in canaries:
            own, *others = house.site.houses
            first = with_canaries(own, canaries[house.site.partition], longest)
            house.site = replace(house.site, houses=(first, *others))

    return of_houses(altered)


def of_houses(change: Callable[[HouseClient], None]) -> Altered:
    """The change made to every client that is a house, a member of secure sums too."""

    def altered(client: NumPyClient) -> NumPyClient:
        inner = client.inner if isinstance(client, SummingClient) else client
        if isinstance(inner, HouseClient):
            change(inner)
        return client

    return altered
